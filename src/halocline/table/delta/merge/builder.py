"""What a merge is asked to do, put together clause by clause.

The words are those of Delta's builder. Clauses of one kind stand in the order in which they were given, and the first
whose condition holds decides about a row. Rows of the table and of the source are *matched* if the merge's condition
holds for the pair. How it is done is in `halocline.table.delta.merge.merge`.

A merge that others have come before, with rows that it should have read, is done again on what they left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import ConflictError, InputError
from halocline.place_names import place_name
from halocline.spark.session.analysis import Expression
from halocline.spark.session.pinning import outliving_executors
from halocline.spark.types.input_schema import checked_frame
from halocline.table.arguments import checks_arguments
from halocline.table.delta.merge.merge import Merge, MergeRequest
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.clauses import TARGET_ALIAS, Clause, ClauseKind
from halocline.table.delta.rows.commit import RowsChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIES: Final = 10
"""How often a merge is done before it gives way to others."""
_MERGED_AGAIN: Final = frozenset({"CONCURRENT_APPEND", "CONCURRENT_DELETE_READ", "CONCURRENT_DELETE_DELETE"})


def begin_merge(
    table: Opened,
    source: DataFrame,
    condition: Expression,
    *,
    target_alias: str = TARGET_ALIAS,
    source_alias: str | None = None,
) -> MergeBuilder:
    """Begins a merge of other rows into the table; nothing happens before `execute`.

    Args:
        table: The table.
        source: The rows, possibly under an alias of their own.
        condition: Which row of the source goes with which row of the table: SQL text, or a Spark column.
        target_alias: What the table is called in expressions.
        source_alias: What the source is called in expressions. If it is not given, names that the source brings
            along count, and `s` where those do not make sense of the expressions.

    Example:
        >>> merge = orders.merge(df, "t.id = s.id")  # doctest: +SKIP
        >>> merge.when_matched_update_all().when_not_matched_insert_all().execute().version  # doctest: +SKIP
        16
    """
    if source_alias is not None and source_alias.lower() == target_alias.lower():
        raise InputError(
            f"both sides of the merge are called {target_alias}",
            sides={"target_alias": target_alias, "source_alias": source_alias},
            next_step="Give them different aliases.",
        )
    named = source if source_alias is None else source.alias(source_alias)
    return MergeBuilder(table, named, condition, target_alias)


@checks_arguments
@dataclass(frozen=True)
class MergeBuilder(MergeRequest):
    """A merge that is being put together; every call returns a new one, and `execute` does it.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> merge = orders.merge(changes.alias("new"), "t.id = new.id")  # doctest: +SKIP
        >>> merge.when_matched_update_all().when_not_matched_insert_all().execute()  # doctest: +SKIP
    """

    def __repr__(self) -> str:
        clauses = len(self.matched) + len(self.not_matched) + len(self.not_matched_by_source)
        told = "1 clause" if clauses == 1 else f"{clauses} clauses"
        return f"merge into {place_name(self.table.url)} with {told}: nothing is done before execute()"

    def when_matched_update(
        self, condition: Expression | None = None, set: Mapping[str, Any] | None = None
    ) -> MergeBuilder:
        """Gives columns of matched rows new values, which may speak of both sides."""
        return self._with("matched", ClauseKind.UPDATE, condition, _given(set))

    def when_matched_update_all(self, condition: Expression | None = None) -> MergeBuilder:
        """Gives matched rows all values of the source, by name."""
        return self._with("matched", ClauseKind.UPDATE, condition, None)

    def when_matched_delete(self, condition: Expression | None = None) -> MergeBuilder:
        """Deletes matched rows."""
        return self._with("matched", ClauseKind.DELETE, condition, None)

    def when_not_matched_insert(
        self, condition: Expression | None = None, values: Mapping[str, Any] | None = None
    ) -> MergeBuilder:
        """Inserts a row for a row of the source that matches none; values may speak of the source."""
        return self._with("not_matched", ClauseKind.INSERT, condition, _given(values))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> MergeBuilder:
        """Inserts rows of the source that match none, by name."""
        return self._with("not_matched", ClauseKind.INSERT, condition, None)

    def when_not_matched_by_source_update(
        self, condition: Expression | None = None, set: Mapping[str, Any] | None = None
    ) -> MergeBuilder:
        """Gives columns of rows that no row of the source matches new values, which may speak of the table."""
        return self._with("not_matched_by_source", ClauseKind.UPDATE, condition, _given(set))

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> MergeBuilder:
        """Deletes rows that no row of the source matches."""
        return self._with("not_matched_by_source", ClauseKind.DELETE, condition, None)

    def with_schema_evolution(self) -> MergeBuilder:
        """Lets the table grow by columns of the source that it lacks."""
        return replace(self, evolves=True)

    def execute(self) -> RowsChanged:
        """Does the merge and commits it.

        Raises:
            InputError: Clauses or expressions cannot be used, or two rows of the source match one row of the table
                (`MERGE_AMBIGUOUS`).
            SchemaError: Columns do not fit.
            ConstraintError: A row breaks a rule of the table; nothing was written.
            IncompatibleError: The release that acts may not write the table.
            ConflictError: Somebody else changed the same rows first, again and again.
        """
        if not (self.matched or self.not_matched or self.not_matched_by_source):
            raise InputError(
                "the merge has no clause, so there is nothing to do",
                sides={"clauses": "none"},
                next_step="Add one, such as when_not_matched_insert_all().",
            )
        checked_frame(self.source)
        with self.table.operation("merge"):
            return outliving_executors(self._merged)

    def _merged(self) -> RowsChanged:
        for _ in range(_TRIES - 1):
            try:
                return Merge(self).execute()
            except ConflictError as error:
                # Nothing was written, and the same merge is as right after the other commit as before it.
                if error.condition not in _MERGED_AGAIN:
                    raise
        return Merge(self).execute()

    def _with(
        self, clauses: str, kind: ClauseKind, condition: Expression | None, values: Mapping[str, Any] | None
    ) -> MergeBuilder:
        before: tuple[Clause, ...] = getattr(self, clauses)
        if before and before[-1].condition is None:
            raise InputError(
                f"the clause before this one takes every row, so this one would never be reached: {clauses}",
                sides={"before": f"{before[-1].kind.value} without a condition", "now": kind.value},
                next_step="Give every clause but the last of its kind a condition.",
            )
        changed: dict[str, Any] = {clauses: (*before, Clause(kind, condition, values))}
        return replace(self, **changed)


def _given(values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if not values:
        raise InputError(
            "a clause must say which values it sets",
            sides={"given": repr(values)},
            next_step="Give set= or values=, or use the clause for all columns.",
        )
    return values
