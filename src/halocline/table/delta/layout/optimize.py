"""Rearranging rows without changing them: many small files become few, or rows are sorted along a curve.

Files are rewritten in one commit that says it changes no data, so streams and change feeds skip it, and it only
conflicts with commits that take away the same files. Rows that were marked as deleted are left out for good; all others
keep their ids. Nothing of the table's metadata changes. A run that breaks off leaves files that nobody refers to; the
next one begins again from what the table is.

Small files that become one are copied without Spark where they can be; see `halocline.table.delta.rows.copies`.

Rows of a table with clustering columns are brought together by them whenever it is compacted; see
`halocline.table.delta.layout.clusters`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.statistics import records_in
from halocline.formats.delta.configuration import clustering
from halocline.formats.delta.configuration.column_mapping import parquet_id, physical_name
from halocline.formats.delta.features import row_ids
from halocline.place_names import place_name
from halocline.progress import working
from halocline.schema.types import Array, DataType, Field, Map, Path, Primitive, Struct
from halocline.spark.scan.footers import footers
from halocline.spark.scan.frames import frame_of, session_zone
from halocline.spark.scan.row_columns import file_of
from halocline.spark.session.analysis import read_without_spark
from halocline.spark.session.functions import F
from halocline.spark.session.session import settings
from halocline.spark.types.columns import quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.table.arguments import checks_arguments
from halocline.table.delta.layout.bins import bins_of, spread
from halocline.table.delta.layout.clusters import clustered, to_cluster
from halocline.table.delta.layout.zorder import VALUE, with_z_value
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import removed
from halocline.table.delta.rows.clauses import PLACE, predicate_of
from halocline.table.delta.rows.commit import RowChange, RowsChanged
from halocline.table.delta.rows.copies import Copies
from halocline.table.delta.rows.counts import check_rows, figures
from halocline.table.delta.rows.files import RowFiles
from halocline.table.delta.rows.matches import is_about_partitions, matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET_SIZE: Final = "delta.targetFileSize"
_DEFAULT_SIZE: Final = 1024 * 1024 * 1024
_FILE: Final = "__halocline_file_number"
_KEY: Final = "__halocline_bin"
_OWN_TASKS: Final = {"spark.sql.unionOutputPartitioning": "false"}
"""Newer releases of Spark have one task for a union of parts that have one task each."""
_MOST_SCANS: Final = 16
"""Up to how many bins are scanned one by one: planning takes its time for each, and more small ones are sent sooner."""
_UNORDERED: Final = ("binary", "variant", "void", "boolean")
_UNITS: Final = {"b": 1, "kb": 1024, "k": 1024, "mb": 1024**2, "m": 1024**2, "gb": 1024**3, "g": 1024**3}


def begin_optimize(table: Opened) -> OptimizeBuilder:
    """Begins a rearrangement of the table's files, which changes no row; nothing happens before it is executed.

    Example:
        >>> Table.for_path("lake/orders", spark).optimize().execute_compaction().version  # doctest: +SKIP
        17
    """
    return OptimizeBuilder(table)


@checks_arguments
@dataclass(frozen=True)
class OptimizeBuilder:
    """A rearrangement that is being put together.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> orders.optimize().where("day >= '2026-11-01'").execute_compaction().metrics  # doctest: +SKIP
        {'numAddedFiles': 1, 'numRemovedFiles': 40, ...}
    """

    table: Opened
    condition: str | None = None

    def __repr__(self) -> str:
        place = place_name(self.table.url)
        return f"optimize of {place}: nothing is done before execute_compaction() or execute_z_order_by(…)"

    def where(self, condition: str) -> OptimizeBuilder:
        """Only looks at partitions that meet a condition."""
        if self.condition is not None:
            raise InputError(
                "a condition is given twice",
                sides={"before": self.condition, "now": condition},
                next_step="Write one condition, with AND.",
            )
        return replace(self, condition=condition)

    def execute_compaction(
        self, *, min_file_size: int | None = None, max_file_size: int | None = None, full: bool = False
    ) -> RowsChanged:
        """Packs small files of the same partition, and drops deleted rows where they take up much of a file.

        If the table has clustering columns, it clusters rows by them instead: those of files that are not clustered
        yet, together with those of clusters that are still small.

        Args:
            min_file_size: Files shorter than this are packed; the table's `delta.targetFileSize`, or 1 GiB. Clusters do
                not go by it.
            max_file_size: New files are about this long at most; the same.
            full: Also cluster again what was clustered by other columns, or by somebody else.

        Raises:
            InputError: The condition does not speak of partitions only, sizes make no sense, or `full` is asked for
                where there are no clustering columns.
            ConflictError: Somebody else took away the same files first.
        """
        with self.table.operation("optimize"):
            work = _Rearranging(self)
            smallest, largest = work.sizes(min_file_size, max_file_size)
            if columns := work.clustering(full):
                return work.cluster(columns, largest, full)
            found = bins_of(work.files, smallest, largest)
            return work.run(found, lambda files: work.packed(files, found))

    def execute_purge(self) -> RowsChanged:
        """Writes files again that hold rows marked as deleted, or columns that were dropped, without them.

        The old files stay for earlier versions until a vacuum deletes them.

        Raises:
            InputError: The condition does not speak of partitions only.
            ConflictError: Somebody else took away the same files first.
        """
        with self.table.operation("reorg"):
            work = _Rearranging(self)
            found = [[number] for number in work.unclean()]
            told = {**predicate_of(self.condition), "applyPurge": True}
            return work.run(found, lambda files: work.packed(files, found), "REORG", told)

    def execute_z_order_by(self, *columns: str | Sequence[str], max_file_size: int | None = None) -> RowsChanged:
        """Sorts the rows of each partition along a curve through some columns, and cuts them into even files.

        Args:
            columns: Names of the columns.
            max_file_size: New files are about this long; the table's `delta.targetFileSize`, or 1 GiB.

        Raises:
            InputError: A column cannot be sorted by, the condition does not speak of partitions only, or the table
                has clustering columns of its own.
            ConflictError: Somebody else took away the same files first.
        """
        with self.table.operation("optimize"):
            work = _Rearranging(self)
            names = work.sortable([name for each in columns for name in ([each] if isinstance(each, str) else each)])
            _, largest = work.sizes(None, max_file_size)
            everything = [list(range(len(work.files)))] if len(work.files) else []
            order = [".".join(map(quoted, path)) for path in names]
            told = work.told(zOrderBy=[".".join(path) for path in names])
            return work.run(everything, lambda files: work.sorted(files, order, largest), parameters=told)


class _Rearranging(RowChange):
    """A rearrangement under way."""

    def __init__(self, asked: OptimizeBuilder) -> None:
        super().__init__(asked.table)
        self.condition = asked.condition
        self.files: pa.Table = self._chosen(asked.condition)

    def _chosen(self, where: str | None) -> pa.Table:
        if where is None:
            return self.snapshot.files()
        if not is_about_partitions(self.spark, self.snapshot, where):
            raise InputError(
                f"{where!r} speaks of more than partitions, and files hold rows of either kind",
                condition="PREDICATE_INVALID",
                sides={"condition": where, "partition columns": ", ".join(self.snapshot.partition_columns) or "none"},
                next_step="Name partition columns only.",
            )
        candidates = self.snapshot.files(read_without_spark(self.spark, where), timezone=session_zone(self.spark))
        return matches(self.spark, self.snapshot, candidates, where).whole

    def sizes(self, smallest: int | None, largest: int | None) -> tuple[int, int]:
        """The bounds to pack by."""
        default = _bytes_in(self.snapshot.properties.get(TARGET_SIZE)) or _DEFAULT_SIZE
        high = default if largest is None else largest
        low = min(default, high) if smallest is None else smallest
        if high <= 0 or low < 0 or low > high:
            raise InputError(
                "the sizes of files make no sense",
                sides={"min_file_size": str(smallest), "max_file_size": str(largest)},
                next_step="Give bytes, the smaller number first.",
            )
        return low, high

    def unclean(self) -> list[int]:
        """The files that hold deleted rows, or columns and fields that the table has no longer."""
        layout = FileLayout.of(self.snapshot.configuration)
        mode = layout.mapping_mode
        kept = {self.snapshot.properties.get(key) for key in (row_ids.ID_COLUMN, row_ids.VERSION_COLUMN)}
        vectors = self.files["deletion_vector"].to_pylist()
        read = footers(
            self.table.store, list(zip(*(self.files[name].to_pylist() for name in ("path", "size")), strict=True))
        )
        return [
            number
            for number, footer in enumerate(read)
            if vectors[number] is not None
            or any(
                each.name not in kept and _holds_dropped(each, layout.data, mode)
                for each in footer.schema.to_arrow_schema()
            )
        ]

    def clustering(self, full: bool) -> list[Path]:
        """The clustering columns; none if the table has none, and then there is nothing to do in full."""
        columns = clustering.clustering_paths(self.snapshot.domains.get(clustering.DOMAIN), self.snapshot.columns)
        if (full and not columns) or (columns and self.condition is not None):
            raise InputError(
                f"{self.table.url} cannot be optimized that way",
                sides={
                    "clustered by": ", ".join(".".join(path) for path in columns) or "no columns",
                    "asked for": "all that was clustered otherwise" if full else f"rows where {self.condition}",
                },
                next_step="Leave the condition out: clusters have no partitions."
                if columns
                else "Give the table clustering columns first, with cluster_by or ALTER TABLE … CLUSTER BY.",
            )
        return columns

    def sortable(self, names: Sequence[str]) -> list[Path]:
        """The columns in the table's spelling, if rows can be sorted by them; a dot leads to a field of a struct."""
        domain = self.snapshot.domains.get(clustering.DOMAIN)
        if domain is not None:
            columns = clustering.clustering_columns(domain, self.snapshot.columns)
            raise InputError(
                f"{self.table.url} has clustering columns, and rows can only be in one order",
                sides={"table": ", ".join(columns), "asked for": ", ".join(names)},
                next_step="Compact it instead, or drop the clustering feature first.",
            )
        found, schema = list[Path](), self.snapshot.schema
        for name in names:
            path, field = schema.find([name] if schema.get(name) is not None else name.split("."))
            ordered = isinstance(field.type, Primitive) and field.type.name not in _UNORDERED
            if path[0] in self.snapshot.partition_columns or not ordered or not _is_within_structs(schema, path):
                raise InputError(
                    f"rows cannot be sorted by column {'.'.join(path)}",
                    sides={"column": str(field), "needed": "an ordered type, no partition"},
                    next_step="Choose another column.",
                )
            found.append(path)
        if not found or len(set(found)) < len(found):
            raise InputError("columns to sort by must be named, each once", sides={"given": ", ".join(names) or "none"})
        return found

    # ------------------------------------------------------------------ rows

    def packed(self, files: RowFiles, bins: Sequence[Sequence[int]]) -> list[Add]:
        """Writes the files of each bin as one."""
        numbers = [number for each in bins for number in each]
        copies = Copies.of(self.spark, self.snapshot, self._taken(numbers), files)
        if copies is not None:
            left = iter(range(len(numbers)))
            adds = copies.packed([[next(left) for _ in each] for each in bins])
            if adds is not None:
                return adds
        rows = self._bin_by_bin(files, bins) if len(bins) <= _MOST_SCANS else self._sent(files, bins)
        with settings(self.spark, _OWN_TASKS):
            return files.rewrite(rows, self.snapshot.schema, data_change=False)

    def _bin_by_bin(self, files: RowFiles, bins: Sequence[Sequence[int]]) -> DataFrame:
        """A scan for each bin, which one task reads and writes: no row goes anywhere else."""
        frames = (
            frame_of(self.spark, self.snapshot, files=self._taken(each), rows=files.identities()).coalesce(1)
            for each in bins
        )
        return reduce(lambda above, below: above.unionAll(below), frames)

    def _sent(self, files: RowFiles, bins: Sequence[Sequence[int]]) -> DataFrame:
        """One scan of very many bins, whose rows are sent to the task of their bin."""
        numbers = [number for each in bins for number in each]
        keys = spread(self.spark, len(bins))
        of_file = np.repeat(keys, [len(each) for each in bins])
        columns = replace(files.identities(), place=PLACE)
        rows = frame_of(self.spark, self.snapshot, files=self._taken(numbers), rows=columns)
        side = pa.table({_FILE: pa.array(range(len(numbers)), pa.int64()), _KEY: pa.array(of_file, pa.int64())})
        rows = rows.join(F.broadcast(self.spark.createDataFrame(side)), F.expr(file_of(PLACE)) == F.col(_FILE))
        # Rows stay in their order, by one number: Spark sorts by several columns row by row, which takes far longer.
        return rows.repartition(len(bins), F.col(_KEY)).sortWithinPartitions(PLACE).drop(_KEY, _FILE, PLACE)

    def cluster(self, columns: Sequence[Path], largest: int, full: bool) -> RowsChanged:
        """Writes files that are not clustered by these columns in the order of a curve through them."""
        physical = clustering.physical_paths(self.snapshot.domains.get(clustering.DOMAIN))
        found = to_cluster(self.files, physical, full=full)
        names = [".".join(map(quoted, path)) for path in columns]
        told = self.told(clusterBy=[".".join(path) for path in columns], isFull=full)
        return self.run(
            [found] if found else [],
            lambda files: clustered(self.sorted(files, names, largest, found), physical),
            parameters=told,
        )

    def sorted(
        self, files: RowFiles, columns: Sequence[str], largest: int, numbers: Sequence[int] | None = None
    ) -> list[Add]:
        """Writes some files, or all that were chosen, in another order; columns are given as Spark SQL spells them."""
        chosen = range(len(self.files)) if numbers is None else numbers
        old = self._taken(chosen)
        total = sum(size or 0 for size in old["size"].to_pylist())
        count = max(1, math.ceil(total / largest))
        rows = with_z_value(
            frame_of(self.spark, self.snapshot, files=old, rows=files.identities()),
            columns,
            sum(records or 0 for records in records_in(old)),
        )
        order = [F.expr(each) for each in (*map(quoted, self.snapshot.partition_columns), VALUE, *columns)]
        rows = rows.repartitionByRange(count, *order) if count > 1 else rows.coalesce(1)
        rows = rows.sortWithinPartitions(*order).drop(VALUE)
        return files.rewrite(rows, self.snapshot.schema, data_change=False)

    def _taken(self, numbers: Sequence[int]) -> pa.Table:
        return self.files.take(pa.array(numbers, pa.int64()))

    # ------------------------------------------------------------------ committing

    def run(
        self,
        bins: Sequence[Sequence[int]],
        write: Any,
        operation: str = "OPTIMIZE",
        parameters: Mapping[str, Any] | None = None,
    ) -> RowsChanged:
        """Writes files again and commits them in place of the old ones, as an optimisation unless said otherwise."""
        numbers = [number for each in bins for number in each]
        old = self.files.take(pa.array(numbers, pa.int64()))
        self.transaction.read_files(old["path"].to_pylist())
        with (
            RowFiles(self.table.store, self.snapshot.configuration) as files,
            working(f"optimize {self.table.url}") as tell,
        ):
            tell(f"writing {len(numbers):,} of {len(self.files):,} files again")
            adds = write(files) if numbers else []
            check_rows(self.table.store, old, figures(adds)["numOutputRows"])
            actions = [*removed(old, data_change=False), *adds]
            said = self.told() if parameters is None else parameters
            return self.commit(files, actions, operation, said, self._metrics(adds, old))

    def told(self, **more: Any) -> dict[str, Any]:
        """What the history is told of an optimisation."""
        return {**predicate_of(self.condition), "zOrderBy": [], "clusterBy": [], "auto": False, **more}

    def _metrics(self, adds: Sequence[Add], old: pa.Table) -> Mapping[str, int]:
        sizes = sorted(add.size for add in adds) or [0]
        return {
            "numRemovedFiles": len(old),
            "numRemovedBytes": sum(size or 0 for size in old["size"].to_pylist()),
            "numAddedFiles": len(adds),
            "numAddedBytes": sum(add.size for add in adds),
            "minFileSize": sizes[0],
            "p25FileSize": sizes[len(sizes) // 4],
            "p50FileSize": sizes[len(sizes) // 2],
            "p75FileSize": sizes[len(sizes) * 3 // 4],
            "maxFileSize": sizes[-1],
            "numDeletionVectorsRemoved": len(old) - old["deletion_vector"].null_count,
        }


def _is_within_structs(schema: Struct, path: Path) -> bool:
    """Whether each row has one value there: lists and maps have any number."""
    type: DataType = schema
    for step in path:
        found = type.get(step) if isinstance(type, Struct) else None
        if found is None:
            return False
        type = found.type
    return True


def _holds_dropped(found: pa.Field, fields: Sequence[Field], mode: str) -> bool:
    """Whether a column of a file is none of these, or has something at any depth that the one among them has not."""
    for each in fields:
        if physical_name(each, mode) == found.name or (mode == "id" and parquet_id(each) == _field_id(found)):
            return _type_holds_dropped(found.type, each.type, mode)
    return True


def _type_holds_dropped(found: pa.DataType, type: DataType, mode: str) -> bool:
    match type:
        case Struct() if pa.types.is_struct(found):
            return any(_holds_dropped(found.field(at), type.fields, mode) for at in range(found.num_fields))
        case Array() if pa.types.is_list(found):
            return _type_holds_dropped(found.value_type, type.element, mode)
        case Map() if pa.types.is_map(found):
            pairs = ((found.key_type, type.key), (found.item_type, type.value))
            return any(_type_holds_dropped(inner, known, mode) for inner, known in pairs)
    return False


def _field_id(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if found is None else int(found)


def _bytes_in(text: str | None) -> int | None:
    """A length such as `134217728` or `128mb` in bytes; None if there is none that can be read."""
    if text is None:
        return None
    number = text.strip().lower().rstrip("bkmg")
    unit = text.strip().lower()[len(number) :] or "b"
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else None
