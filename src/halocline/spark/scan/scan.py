"""Scans: a DataFrame over exactly the live files of a table.

The files come from a log, already pruned. They are sorted into *branches*, whose union is the result:

- files without deletion vectors and with native partition columns or constants: a plain Parquet scan, nothing added;
- files whose partition values only the log knows: constants per file, looked up by the file's key;
- files with deletion vectors: the same, with one bit tested per row;
- files that Spark cannot read, by their name or for want of a file system: rows handed over by Python workers.

What a branch costs, only its files pay. Spark prunes columns, row groups and files by their partition values in all of
them but the last.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from halocline.errors import InputError, UnsupportedError
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan import deleted_rows
from halocline.spark.scan.arrow_scan import ArrowFile, ArrowReader, arrow_frame
from halocline.spark.scan.branches import Branch, Branches
from halocline.spark.scan.footers import check_sizes
from halocline.spark.scan.row_columns import NUMBER, RowColumns
from halocline.spark.scan.sources import MOST_FILES, ROW, SourceFile, Sources
from halocline.spark.session.analysis import filtered
from halocline.spark.session.file_system import spark_address
from halocline.spark.session.functions import F
from halocline.spark.session.pinning import pinned
from halocline.spark.session.session import check_session
from halocline.spark.session.settings import ScanMode, in_force
from halocline.spark.session.variables import BEGIN
from halocline.spark.types.char_types import padded
from halocline.spark.types.columns import kept_metadata, missing, quoted, spark_schema
from halocline.spark.types.file_columns import Names, Output, outputs, read_fields, reminders, without_void
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionValues
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LONG: Final = Primitive("long")


def scan(
    spark: SparkSession,
    store: Store,
    files: pa.Table,
    layout: FileLayout,
    *,
    deleted: Mapping[int, BitMap64] | None = None,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    rows: RowColumns | None = None,
    zone: str = "UTC",
    checksums: bool = False,
) -> DataFrame:
    """A DataFrame over exactly these files, which are numbered by their rows in the list.

    Deleted rows are given by the number of the file. The condition is for Spark; files are pruned before. Rows may get
    columns that identify them. The zone is that of partition values of type timestamp without one. Pages are compared
    with their checksums on demand: Spark itself does not, and damaged bytes may well decompress to other values.
    """
    check_session(spark)
    wanted = columns_asked_for(layout.schema, columns)
    layout = replace(layout, schema=_narrowed(layout.schema, wanted, layout.partition_columns, where))
    work = _Scan(spark, store, files, layout, deleted or {}, rows or RowColumns(), zone, checksums)
    mode = in_force(spark).scan_mode
    base = None if mode is ScanMode.ARROW else spark_address(spark, store.address())
    with Sources.opened(spark, store, base or "", mode if base else ScanMode.PATHS) as sources:
        df = work.annotated(work.frame(sources, base))
        if where is not None:
            df = filtered(df, where)
        if base is not None and not sources.by_manifest:
            df = work.reminded(df)
        names = [*wanted, *(rows.names if rows is not None else ())]
        df = df if names == df.columns else df.select(*map(quoted, names))
        df = pinned(df, f"halocline_scan_{uuid.uuid4().hex}") if len(files) else df
        # Spark passes over a file that is empty when it lists paths, so this looks after Spark has.
        work.check_sizes(everywhere=not sources.by_manifest)
        return df


class _Scan:
    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        files: pa.Table,
        layout: FileLayout,
        deleted: Mapping[int, BitMap64],
        rows: RowColumns,
        zone: str,
        checksums: bool,
    ) -> None:
        self._spark = spark
        self._store = store
        self._files = files
        self._layout = layout
        self._mode = layout.mapping_mode
        self._schema = layout.schema
        self._fields = layout.schema.fields
        self._partitions, self._data = layout.partitions, layout.data
        self._values = PartitionValues(files, layout.partition_keys, zone)
        self._deleted = {number: bitmap for number, bitmap in deleted.items() if bitmap}
        self._rows = rows
        self._checksums = checksums
        self._with_metadata: set[str] = set()
        self._native_files: list[SourceFile] = []
        stray = [number for number in self._deleted if not 0 <= number < len(files)]
        if stray:
            raise InputError(f"there are deleted rows for file number {stray[0]}, but only {len(files)} files")
        if len(files) > MOST_FILES:
            raise UnsupportedError(
                f"a scan of {len(files)} files is too large",
                sides={"files": str(len(files)), "at most": str(MOST_FILES)},
                next_step="Prune with where=, or compact the table.",
            )

    def annotated(self, df: DataFrame) -> DataFrame:
        """The rows with the metadata that expressions have lost; a condition on text of fixed length needs it."""
        return self._with(df, {name: df[quoted(name)] for name in self._with_metadata})

    def reminded(self, df: DataFrame) -> DataFrame:
        """The rows with Spark told of columns that are never null, which it forgets of files in a list of paths."""
        return self._with(df, {name: F.expr(sql) for name, sql in reminders(self._data).items()})

    def _with(self, df: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
        """The rows with other columns, which keep the metadata that the table has for them."""
        metadata = {field.name: kept_metadata(field) for field in self._fields}
        made = {name: column.alias(name, metadata=metadata[name]) for name, column in columns.items()}
        return df.select(*(made.get(name, df[quoted(name)]) for name in df.columns)) if made else df

    def check_sizes(self, *, everywhere: bool) -> None:
        """Make sure that the files which Spark reads have their sizes: all of them, or else the local ones."""
        if everywhere or self._store.address().startswith("/"):
            paths = self._files["path"]
            check_sizes(self._store, [(paths[file.number].as_py(), file.size) for file in self._native_files])

    # ------------------------------------------------------------------ branches

    def frame(self, sources: Sources, base: str | None) -> DataFrame:
        """All branches together."""
        branches = Branches(self._spark, self._store, self._files, self._layout, self._values)
        too_large = self._deleted.keys() - deleted_rows.within(self._deleted, in_force(self._spark).max_bitmap_bytes)
        native, strange = branches.routed(base, too_large)
        self._native_files = native
        divided = branches.divided(native, self._deleted.keys(), folders=sources.by_manifest)
        frames = [self._native(sources, branch) for branch in divided]
        if strange:
            frames.append(self._through_arrow(strange))
        if not frames:
            blank = self._spark.createDataFrame([], spark_schema(read_fields(self._fields, Names())))
            nothing = [Output(name, missing(_LONG)) for name in self._rows.names]
            frames = [blank.selectExpr(*self._items([*outputs(self._fields, Names()), *nothing]))]
        return reduce(lambda above, below: above.unionAll(below), frames)

    def _native(self, sources: Sources, branch: Branch) -> DataFrame:
        rows = self._rows
        numbers = [file.number for file in branch.files]
        bitmaps = [self._deleted[number] for number in numbers] if branch.dirty else []
        # Bitmaps in the plan go by the order of the files; whoever wants the files' numbers gets a join instead.
        constant = branch.dirty and not rows.names and deleted_rows.size_of(bitmaps) <= deleted_rows.CONSTANT
        joined = bool(rows.of_file) or (branch.dirty and not constant)
        marked = joined or rows.with_file
        positioned = (joined and branch.dirty) or rows.with_position
        source = sources.read(
            branch.files,
            spark_schema(self._read_schema(branch)),
            marks=range(len(numbers)) if constant else numbers,
            key=marked or constant or (branch.folders is None and self._values.differ(branch.groups)),
            row=branch.dirty or rows.with_position,
            folders=branch.folders is not None,
            checksums=self._checksums,
        )
        df = source.frame
        if constant:
            df = deleted_rows.living_by_constant(df, source.mark, source.row, bitmaps)
        data = outputs(self._data, branch.names, forgets_all=not sources.by_manifest)
        made = (*data, *self._partition_outputs(branch, source.group))
        by_name = {output.name: output for output in made}
        hidden = [f"{source.mark} AS {NUMBER}"] if marked else []
        hidden += [f"{source.row} AS {ROW}"] if positioned else []
        hidden += [f"{quoted(name)} AS {alias}" for alias, name in rows.stored.items()]
        df = df.selectExpr(*self._items([by_name[name] for name in self._schema.names]), *hidden)
        if joined:
            df = df.join(self._side(branch).hint("broadcast"), NUMBER)
            df = deleted_rows.living(df, ROW) if branch.dirty else df
        return self._shown(df) if hidden else df

    def _read_schema(self, branch: Branch) -> list[Field]:
        fields = read_fields(self._data, branch.names)
        fields += [Field(name, _LONG) for name in self._rows.stored.values()]
        types = {column.key: column.type for column in self._values.columns}
        return fields + [Field(name, types.get(name, Primitive("string"))) for name in branch.folders or ()]

    def _partition_outputs(self, branch: Branch, group_sql: str) -> list[Output]:
        found = []
        for number, (field, column) in enumerate(zip(self._partitions, self._values.columns, strict=True)):
            native = branch.folders is not None
            sql = quoted(column.key) if native else self._values.sql(number, branch.groups, group_sql)
            sql = self._values.not_null(sql, number, branch.groups)
            found.append(Output(field.name, padded(sql, field), kept_metadata(field) or None))
        return found

    def _side(self, branch: Branch) -> DataFrame:
        """What joins on the number of the file: bitmaps and what row ids start from."""
        numbers = [file.number for file in branch.files]
        columns: dict[str, Any] = {NUMBER: pa.array(numbers, pa.int64())}
        columns |= {hidden: self._files[column].take(numbers) for hidden, column in self._rows.of_file.items()}
        if branch.dirty:
            columns[deleted_rows.WORDS] = deleted_rows.words_column(self._deleted, numbers)
        return self._spark.createDataFrame(pa.table(columns))

    def _through_arrow(self, numbers: Sequence[int]) -> DataFrame:
        rows = self._rows
        reader = ArrowReader(
            store=self._store,
            mode=self._mode,
            fields=without_void(self._data),
            partitions=self._partitions,
            stored=rows.stored,
            file=NUMBER if rows.with_file else None,
            row=ROW if rows.with_position else None,
            of_file=list(rows.of_file),
        )
        paths, sizes = self._files["path"].to_pylist(), self._files["size"].to_pylist()
        groups = self._values.group_of.tolist()
        files = [
            ArrowFile(
                number=number,
                path=paths[number],
                size=sizes[number] or 0,
                deleted=self._deleted.get(number),
                values=self._values.values[groups[number]],
                of_file=[self._files[column][number].as_py() for column in rows.of_file.values()],
            )
            for number in numbers
        ]
        read = {output.name: output for output in outputs(self._data, Names())}
        read |= {f.name: Output(f.name, quoted(f.name), kept_metadata(f) or None) for f in self._partitions}
        columns = [read[name] for name in self._schema.names]
        df = arrow_frame(self._spark, reader, files).selectExpr(*self._items(columns), *reader.hidden)
        return self._shown(df) if rows.names else df

    # ------------------------------------------------------------------ small things

    def _shown(self, df: DataFrame) -> DataFrame:
        return df.selectExpr(*map(quoted, self._schema.names), *self._rows.shown())

    def _items(self, columns: Sequence[Output]) -> list[str]:
        self._with_metadata |= {output.name for output in columns if output.metadata}
        return [output.select() for output in columns]


def columns_asked_for(schema: Struct, columns: Sequence[str] | None) -> list[str]:
    """The columns wanted, in the table's spelling; all if none are named."""
    if columns is None:
        return list(schema.names)
    if not columns:
        raise InputError.unknown("no column is asked for", "none", schema.names, condition="COLUMN_NOT_FOUND")
    return [schema.find([name])[0][0] for name in columns]


def columns_spoken_of(schema: Struct, wanted: Sequence[str], where: str | Column | None) -> list[str]:
    """The columns that are shown or that a condition may speak of: Spark takes time for each that it hears of."""
    if where is not None and (not isinstance(where, str) or BEGIN in where):
        return list(schema.names)
    text, shown = (where or "").replace("``", "`").lower(), set(wanted)
    return [name for name in schema.names if name in shown or name.lower() in text]


def _narrowed(
    schema: Struct, wanted: Sequence[str], partition_columns: Sequence[str], where: str | Column | None
) -> Struct:
    """The columns needed, the partition columns, and one column of the files, which give the number of rows."""
    partitions = {name.lower() for name in partition_columns}
    data = [field.name for field in schema.fields if field.name.lower() not in partitions]
    kept = set(columns_spoken_of(schema, wanted, where))
    kept |= set(data[:1]) if kept.isdisjoint(data) else set()
    return schema.with_fields(f for f in schema.fields if f.name in kept or f.name.lower() in partitions)
