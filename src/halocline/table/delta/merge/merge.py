"""Merging rows into a table: update, delete and insert by a join with a source, in one commit.

What is asked for is put together by a `halocline.table.delta.merge.builder.MergeBuilder`.

The source is computed once and kept, so that it cannot change under way. A first join, over as few files and columns as
the condition allows, finds the pairs; only files in which a clause takes a row are touched after that. Two rows of the
source that match the same row of the table are an error with both rows in it, whichever of them a clause takes, as
in Delta. Only if every match deletes, and nothing else is done to matches, do they agree.

Where a table marks rows, and its files are sure to have matches, they are read once for everything: pairs are found
with the whole rows, which are not looked up again. Files that are written again in full are always searched before: to
have Spark report matches while it writes takes as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.configuration.generated import generation_of
from halocline.formats.delta.configuration.identity import identity_columns
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema.defaults import default_of
from halocline.schema.types import Primitive, Struct
from halocline.spark.scan.frames import frame_of
from halocline.spark.scan.row_columns import RowColumns, file_of, position_of
from halocline.spark.session.analysis import Expression, column_of, read_without_spark
from halocline.spark.session.functions import F
from halocline.spark.session.grouping import COUNT, counted
from halocline.spark.session.pinning import computed_and_counted, computed_once
from halocline.spark.types import input_schema
from halocline.spark.types.assignment import Casting, Lacking
from halocline.spark.types.columns import blank_frame, quoted, written_fields
from halocline.spark.write.row_plan import plan_rows
from halocline.table.delta.merge.plan import Parts, SourceRows, parts_of, qualifiers, source_rows
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import Changed, Rewrite, inserted
from halocline.table.delta.rows.clauses import (
    CLAUSE,
    OLD,
    PLACE,
    TARGET_ALIAS,
    Clause,
    ClauseKind,
    check_analysed,
    chosen,
    predicate_of,
    with_old,
)
from halocline.table.delta.rows.commit import RowChange, RowsChanged
from halocline.table.delta.rows.counts import figures
from halocline.table.delta.rows.edits import checked_values
from halocline.table.delta.rows.files import RowFiles, marks_rows
from halocline.table.delta.rows.hits import HIT_SOURCE, SOURCE_ID, Hits, hits_in
from halocline.table.delta.write import target_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE_ALIAS: Final = "s"
"""What a source goes by whose own names do not make sense of the expressions."""

_SOURCE: Final = "__halocline_source"
_MET: Final = "__halocline_met"
_NO_IDENTITIES: Final = RowColumns()
_BROADCAST_BYTES: Final = 32 * 1024 * 1024
_BYTES_PER_VALUE: Final = 16
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""So much of the files' bytes, which grow when they are read, Spark is asked to keep as rows."""


@dataclass(frozen=True)
class MergeRequest:
    """A merge as it is asked for.

    Attributes:
        table: The table.
        source: The rows to merge into it.
        condition: Which row of the source goes with which row of the table.
        target_alias: What the table is called in expressions.
        matched: What becomes of rows of the table that a row of the source matches.
        not_matched: What becomes of rows of the source that match none.
        not_matched_by_source: What becomes of rows of the table that none matches.
        evolves: Whether the table may grow by columns of the source.
    """

    table: Opened
    source: DataFrame
    condition: Expression
    target_alias: str = TARGET_ALIAS
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    evolves: bool = False


class Merge(RowChange):
    """A merge under way."""

    def __init__(self, asked: MergeRequest) -> None:
        changes_rows = asked.matched or asked.not_matched_by_source
        super().__init__(asked.table, "a merge that changes rows" if changes_rows else None)
        self.url = asked.table.url
        self.source_schema = input_schema.columns_of(_unambiguous(asked.source))
        asked = self._named(asked)
        self._check_expressions(asked)
        told_apart = _unambiguous(asked.source)
        if told_apart is not asked.source:
            asked = replace(asked, source=told_apart)
            self._check_expressions(asked)
        self.asked = asked
        self.state = self._grown()
        self.changing = tuple(self._complete(each) for each in (*asked.matched, *asked.not_matched_by_source))
        self.inserting = tuple(self._complete(each) for each in asked.not_matched)

    # ------------------------------------------------------------------ before rows are touched

    def _named(self, asked: MergeRequest) -> MergeRequest:
        """The same, with a source that goes by our name for it if expressions use that and no other."""
        clauses = (*asked.matched, *asked.not_matched, *asked.not_matched_by_source)
        values = [value for clause in clauses for value in (clause.values or {}).values()]
        used = qualifiers([asked.condition, *(clause.condition for clause in clauses), *values])
        fields = (*self.source_schema.fields, *self.snapshot.schema.fields)
        nested = {field.name.lower() for field in fields if not isinstance(field.type, Primitive)}
        own = used - {asked.target_alias.lower(), *(nested - {SOURCE_ALIAS})}
        return replace(asked, source=asked.source.alias(SOURCE_ALIAS)) if own == {SOURCE_ALIAS} else asked

    def _check_expressions(self, asked: MergeRequest) -> None:
        """Makes sure that Spark understands everything that is asked for."""
        target = blank_frame(self.spark, self.snapshot.schema).alias(asked.target_alias)
        both = target.crossJoin(asked.source)
        check_analysed(both, [Clause(ClauseKind.UPDATE, asked.condition), *asked.matched], f"the merge into {self.url}")
        check_analysed(asked.source, asked.not_matched, f"an insert of the merge into {self.url}")
        check_analysed(target, asked.not_matched_by_source, f"a clause for rows without a match in {self.url}")

    def _grown(self) -> TableConfiguration:
        """What the table is going to be."""
        clauses = (*self.asked.matched, *self.asked.not_matched)
        fields = self.source_schema.fields
        if all(clause.values is not None or clause.kind is ClauseKind.DELETE for clause in clauses):
            named = {name.split(".")[-1].strip("`").lower() for clause in clauses for name in clause.values or ()}
            fields = [field for field in fields if field.name.lower() in named]
        return target_state(self.table, Struct(fields), self.snapshot, "merge" if self.asked.evolves else None)

    def _complete(self, clause: Clause) -> Clause:
        """The clause with its values by quoted name; those of all columns spelt out."""
        if clause.kind is ClauseKind.DELETE:
            return clause
        values = self._all_values(clause.kind) if clause.values is None else clause.values
        if clause.kind is ClauseKind.UPDATE:
            values = checked_values(values, self.state.schema, self.asked.target_alias, self.url)
            return replace(clause, values=values, keeps_fields=self.asked.evolves and clause.values is None)
        return replace(clause, values=values)

    def _all_values(self, kind: ClauseKind) -> dict[str, Any]:
        own = {column.name for column in identity_columns(self.state.schema)}
        values: dict[str, Any] = {}
        lacking = []
        for field in self.state.schema.fields:
            name, source = field.name, self.source_schema.get(field.name)
            filled = kind is ClauseKind.INSERT and default_of(field) is not None
            if source is not None:
                values[quoted(name)] = F.col(f"{_SOURCE}.{quoted(source.name)}")
            elif not (generation_of(field) is not None or name in own or filled):
                lacking.append(name)
        if lacking and not self.asked.evolves:
            raise SchemaError(
                f"the source lacks columns of {self.url}: {', '.join(lacking)}",
                sides={"table": ", ".join(lacking), "source": ", ".join(self.source_schema.names)},
                next_step="Name the values with set= or values=, or allow it with_schema_evolution().",
            )
        return values

    # ------------------------------------------------------------------ rows

    def execute(self) -> RowsChanged:
        """Does it."""
        asked = self.asked
        numbered = asked.source.select("*", F.monotonically_increasing_id().alias(SOURCE_ID))
        parts = self._parts(asked.condition)
        tests = (*parts.tests, *self._tests_of_clauses())
        columns, partitions = self.snapshot.schema, self.snapshot.partition_columns
        source = source_rows(numbered, replace(parts, tests=tests), columns, self.source_schema, partitions)
        self.rows, self.count = self._with_source(source.rows), source.count
        candidates, self.at_once = self._candidates(source, all_keys=parts.all_keys)
        with RowFiles(self.table.store, self.state) as files:
            pairs, count = self._pairs(candidates, files)
            hits = self._hits(candidates, pairs, count)
            joined = self._beside if self._needs_source and not self._carries_source else None
            alias, split = asked.target_alias, len(asked.matched)
            changed = Rewrite(self, files, self.changing, alias, joined, split, self._lacking).changed(hits)
            adds = self._inserts(pairs, files)
            changes = inserted(self.spark, self.table.store, adds, files) if changed.is_recorded else []
            parameters = {
                **predicate_of(asked.condition),
                "matchedPredicates": [clause.describe() for clause in asked.matched],
                "notMatchedPredicates": [clause.describe() for clause in asked.not_matched],
                "notMatchedBySourcePredicates": [clause.describe() for clause in asked.not_matched_by_source],
            }
            metrics = self._metrics(changed, adds, hits, len(changed.changes) + len(changes), len(candidates))
            return self.commit(files, [*changed.actions, *adds, *changes], "MERGE", parameters, metrics)

    def _candidates(self, source: SourceRows, *, all_keys: bool) -> tuple[pa.Table, bool]:
        """The files that may have matches, and whether to read them once for everything."""
        asked = self.asked
        if asked.not_matched_by_source:
            return self.transaction.files(), False
        candidates = self.transaction.files(source.where)
        takes_every_match = bool(asked.matched) and asked.matched[-1].condition is None
        at_once = marks_rows(self.snapshot) and self._carries_source and takes_every_match and all_keys
        if len(candidates) < 2 and not (len(candidates) and at_once):
            return candidates, False
        keys = source.keys()
        if keys is None:
            return candidates, False
        files, is_sure = keys.within(candidates, self.snapshot.columns.find(keys.name))
        return files, at_once and is_sure and keys.is_unique and self._is_light(files)

    def _is_light(self, files: pa.Table) -> bool:
        """Whether as many rows of the files as the source has can be kept."""
        rows = all_live_rows(files)
        return bool(rows) and self.count * sum(files["size"].to_pylist()) / rows <= _KEPT_BYTES

    def _with_source(self, df: DataFrame) -> DataFrame:
        """Columns of the source, together in one as well that no other is taken for."""
        names = map(quoted, self.source_schema.names)
        return df.select("*", F.struct(*map(F.col, names)).alias(_SOURCE))

    def _parts(self, condition: Expression | None) -> Parts:
        text = read_without_spark(self.spark, condition)
        return parts_of(text, self.snapshot.schema, self.source_schema, self.asked.target_alias)

    def _tests_of_clauses(self) -> list[str]:
        """What rows of the table meet that a clause may take, if matches are all that clauses take."""
        asked = self.asked
        tests = [self._parts(clause.condition).tests for clause in asked.matched]
        if asked.not_matched or asked.not_matched_by_source or not all(tests):
            return []
        return [" OR ".join(f"({' AND '.join(each)})" for each in tests)]

    @property
    def _lacking(self) -> Lacking:
        """What becomes of fields of structs that the source lacks."""
        return Lacking.NULL if self.asked.evolves else Lacking.REFUSED

    @property
    def _needs_source(self) -> bool:
        """Whether values of the source go into rows of the table."""
        return any(clause.kind is ClauseKind.UPDATE for clause in self.asked.matched)

    @property
    def _carries_source(self) -> bool:
        """Whether pairs hold the rows of a small source, which then need not be looked up again."""
        return self._needs_source and self._is_small and not self.asked.not_matched_by_source

    @property
    def _is_small(self) -> bool:
        """Whether the source is sent to every executor rather than shuffled."""
        return self.count * (len(self.source_schema.fields) + 1) * _BYTES_PER_VALUE <= _BROADCAST_BYTES

    def _source(self) -> DataFrame:
        return F.broadcast(self.rows) if self._is_small else self.rows

    def _target(self, files: pa.Table, columns: RowColumns = _NO_IDENTITIES) -> DataFrame:
        df = frame_of(self.spark, self.snapshot, files=files, rows=replace(columns, place=PLACE))
        return df.alias(self.asked.target_alias)

    def _pairs(self, candidates: pa.Table, row_files: RowFiles) -> tuple[DataFrame | None, int]:
        """The pairs that the condition holds for, each with the clause that takes it, and their number.

        None if there cannot be any. If no clause takes any, it is only the rows of the source that are told.
        """
        if not len(candidates) or not self.count:
            return None, 0
        target = self._target(candidates, row_files.identities() if self.at_once else _NO_IDENTITIES)
        both = target.join(self._source(), column_of(self.asked.condition), "inner")
        if not self.changing:
            return computed_once(both.select(F.col(SOURCE_ID).alias(HIT_SOURCE)).distinct()), 0
        taken = chosen(self.asked.matched).alias(CLAUSE)
        carried = [self.rows[quoted(name)] for name in self.source_schema.names] if self._carries_source else []
        if self.at_once:
            both = with_old(both, self.snapshot.schema, target)
            rows = [target[quoted(name)] for name in target.columns if name != PLACE]
            carried += [F.col(OLD), self.rows[_SOURCE], *rows]
        return computed_and_counted(both.select(PLACE, F.col(SOURCE_ID).alias(HIT_SOURCE), taken, *carried))

    def _hits(self, candidates: pa.Table, pairs: DataFrame | None, count: int) -> Hits:
        asked = self.asked
        nothing = Hits(candidates.slice(0, 0), None, {})
        if not self.changing or not len(candidates):
            return nothing
        found = None if pairs is None else pairs.withColumnRenamed(HIT_SOURCE, SOURCE_ID)
        if asked.not_matched_by_source:
            alone, more = self._alone(candidates, pairs)
            found, count = alone if found is None else found.unionByName(alone), count + more
        if found is None:
            return nothing
        hits, most = hits_in(self.spark, candidates, found, count)
        if most > 1 and not (len(asked.matched) == 1 and asked.matched[0] == Clause(ClauseKind.DELETE)):
            raise self._ambiguous(candidates, found)
        if self.at_once:
            return replace(hits, has_rows=True)
        if hits.frame is not None and self._carries_source:
            return replace(hits, frame=self._with_source(hits.frame))
        return hits

    def _alone(self, candidates: pa.Table, pairs: DataFrame | None) -> tuple[DataFrame, int]:
        """The rows of the table that no row of the source matches, and that a clause takes, and their number."""
        rows = self._target(candidates)
        taken = chosen(self.asked.not_matched_by_source, len(self.asked.matched)).alias(CLAUSE)
        alone = rows.select(PLACE, F.lit(None).cast("long").alias(SOURCE_ID), taken)
        alone = alone.where(F.col(CLAUSE).isNotNull())
        if pairs is not None:
            met = pairs.select(F.col(PLACE).alias(_MET))
            alone = alone.join(met, F.col(PLACE) == F.col(_MET), "left_anti")
        return computed_and_counted(alone)

    def _beside(self, df: DataFrame) -> DataFrame:
        return df.join(self._source(), F.col(HIT_SOURCE) == F.col(SOURCE_ID), "left")

    def _inserts(self, pairs: DataFrame | None, files: RowFiles) -> list[Add]:
        """Writes rows of the source that match none."""
        if not self.inserting or not self.count:
            return []
        rows = self.rows
        if pairs is not None:
            met = pairs.select(F.col(HIT_SOURCE))
            rows = rows.join(met, F.col(SOURCE_ID) == F.col(HIT_SOURCE), "left_anti")
        rows = rows.select("*", chosen(self.inserting).alias(CLAUSE))
        adds: list[Add] = []
        for number, clause in enumerate(self.inserting):
            values = (clause.values or {}).items()
            items = [column_of(value).alias(_insert_name(name, self.asked.target_alias)) for name, value in values]
            new = rows.where(F.col(CLAUSE) == F.lit(number)).select(*items)
            columns, exact = input_schema.columns_of(new), Casting.EXACT
            plan = plan_rows(new, columns, self.state, table=self.url, casting=exact, lacking=self._lacking)
            adds += files.write(plan)
        return adds

    def _ambiguous(self, candidates: pa.Table, found: DataFrame) -> InputError:
        claimed = counted(found, PLACE).where(F.col(COUNT) > 1)
        twice = claimed.selectExpr(PLACE, COUNT, file_of(PLACE), position_of(PLACE)).first()
        assert twice is not None
        here = F.col(PLACE) == F.lit(twice[0])
        names = [quoted(field.name) for field in written_fields(self.snapshot.schema)]
        row = self._target(candidates.slice(twice[2], 1)).where(F.col(PLACE) == F.lit(twice[3]))
        mine = row.select(F.to_json(F.struct(*names))).first()
        claims = found.where(here).select(F.col(SOURCE_ID).alias(HIT_SOURCE)).orderBy(HIT_SOURCE).limit(2)
        theirs = claims.join(self.rows, F.col(HIT_SOURCE) == F.col(SOURCE_ID)).select(F.to_json(_SOURCE)).collect()
        return InputError(
            f"{twice[1]} rows of the source match the same row of {self.url}, and only one of them can change it",
            condition="MERGE_AMBIGUOUS",
            sides={
                "row of the table": "" if mine is None else str(mine[0])[:500],
                "rows of the source": " and ".join(str(each[0])[:500] for each in theirs),
            },
            next_step="Leave one row per key in the source, or make the condition tell them apart.",
        )

    def _metrics(
        self, changed: Changed, adds: Sequence[Add], hits: Hits, change_files: int, scanned: int
    ) -> dict[str, int]:
        split = len(self.asked.matched)
        taken = {(kind, matched): 0 for kind in (ClauseKind.UPDATE, ClauseKind.DELETE) for matched in (True, False)}
        for number, clause in enumerate(self.changing):
            taken[clause.kind, number < split] += hits.counts.get(number) or 0
        fresh = [add for add in (*changed.adds, *adds) if add.deletion_vector is None]
        inserted_rows = figures(adds)["numOutputRows"]
        return {
            "numSourceRows": self.count,
            "numTargetRowsInserted": inserted_rows,
            "numTargetRowsUpdated": changed.updated,
            "numTargetRowsDeleted": changed.deleted or 0,
            "numTargetRowsCopied": changed.copied,
            "numTargetRowsMatchedUpdated": taken[ClauseKind.UPDATE, True],
            "numTargetRowsMatchedDeleted": taken[ClauseKind.DELETE, True],
            "numTargetRowsNotMatchedBySourceUpdated": taken[ClauseKind.UPDATE, False],
            "numTargetRowsNotMatchedBySourceDeleted": taken[ClauseKind.DELETE, False],
            "numOutputRows": changed.rows + inserted_rows,
            "numTargetFilesScanned": scanned,
            "numTargetFilesAdded": len(fresh),
            "numTargetFilesRemoved": len(changed.gone),
            "numTargetBytesAdded": sum(add.size for add in fresh),
            "numTargetBytesRemoved": sum(each.size or 0 for each in changed.gone),
            "numTargetChangeFilesAdded": change_files,
            **changed.vectors("numTargetDeletionVectors"),
        }


def _unambiguous(source: DataFrame) -> DataFrame:
    """The source without columns that share a name, as joins have them: no expression can mean one of them."""
    names = [name.lower() for name in source.columns]
    once = [name for name in source.columns if names.count(name.lower()) == 1]
    return source if len(once) == len(names) or not once else source.select(*map(quoted, once))


def _insert_name(name: str, alias: str) -> str:
    """The column that a value of an insert is for."""
    for prefix in (f"{alias}.", f"`{alias}`."):
        name = name.removeprefix(prefix)
    return name[1:-1].replace("``", "`") if name[:1] == "`" else name
