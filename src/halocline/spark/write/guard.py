"""Rows held against what is asked of them in the pass that writes them.

`judged` gives every row the number of the first rule that it breaks; `watched` has Spark report the lowest of these
once the rows are written, and takes the numbers off again. So rows are computed once, and a row that breaks a rule ends
no task: Spark would fill its log with stack traces, and with values of rows in them. Files are written in full before a
refusal; they are never committed.

A row obeys a rule whose condition is exactly true; false and null both break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.spark.session.functions import F
from halocline.spark.session.pinning import reported
from halocline.spark.types.assignment import Fit
from halocline.spark.types.columns import quoted
from halocline.spark.write.rules import LONGEST_SHOWN, RowRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

BROKEN: Final = "__halocline_broken"
"""The hidden column of a judged row: the number of a rule and what breaks it; null if the row obeys them all."""

UNFIT: Final = "__halocline_unfit"
"""The hidden column of a row that was assigned: the same for a value that its column cannot hold."""

_HIDDEN: Final = "__halocline_"
_DIGITS: Final = 6


def fit_rules(fits: Sequence[Fit]) -> tuple[RowRule, ...]:
    """The rules that values must obey on their way into columns of other types."""
    return tuple(
        RowRule(
            f"type of {fit.path}",
            fit.condition,
            message=f"a value does not fit into column {fit.path} {fit.type}",
            next_step="Correct the values, or widen the column first.",
            sides=("column", "value"),
            text=f"{fit.path} {fit.type}",
        )
        for fit in fits
    )


def unfit_item(fits: Sequence[Fit]) -> list[str]:
    """The item that adds the column `UNFIT`, numbered like `fit_rules`; none if there is nothing to fit."""
    cases = (
        f"WHEN NOT ({fit.condition}) "
        f"THEN concat('{number:0{_DIGITS}}', left(CAST({fit.value} AS string), {LONGEST_SHOWN}))"
        for number, fit in enumerate(fits)
    )
    return [f"CASE {' '.join(cases)} END AS {UNFIT}"] if fits else []


def judged(df: DataFrame, rules: Sequence[RowRule], *, first: int = 0) -> DataFrame:
    """The rows with the column `BROKEN` in place of `UNFIT`."""
    # Columns go to the JVM one by one, so those of a wide table are not named again.
    unfit = UNFIT in df.columns
    if not rules:
        return df.withColumnRenamed(UNFIT, BROKEN) if unfit else df.withColumn(BROKEN, F.lit(None).cast("string"))
    shown = [F.col(quoted(name)) for name in df.columns if not name.startswith(_HIDDEN)]
    row = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
    number = F.lit(None).cast("int")
    for place, rule in reversed(list(enumerate(rules, first))):
        number = F.when(~F.coalesce(F.expr(rule.condition), F.lit(False)), F.lit(place)).otherwise(number)
    told = F.concat(F.lpad(number.cast("string"), _DIGITS, "0"), F.left(row, F.lit(LONGEST_SHOWN)))
    broken = F.when(number.isNotNull(), told)
    return df.withColumn(BROKEN, F.coalesce(UNFIT, broken) if unfit else broken).drop(UNFIT)


@dataclass(frozen=True)
class Watched:
    """Judged rows, and Spark's report of them.

    Attributes:
        rows: The rows as they are to be written.
        rules: What they must obey.
        observation: Where Spark reports; None if there is nothing to report.
    """

    rows: DataFrame
    rules: Sequence[RowRule] = ()
    observation: Observation | None = None

    def check(self, table: str) -> None:
        """Makes sure that all rows that were written obey the rules."""
        if self.observation is not None:
            _refuse(reported(self.observation), self.rules, table)


def watched(df: DataFrame, rules: Sequence[RowRule]) -> Watched:
    """Judged rows without their verdicts, which Spark reports instead when it writes them for the first time."""
    from pyspark.sql import Observation

    if not rules:
        return Watched(df.drop(BROKEN))
    observation = Observation()
    return Watched(df.observe(observation, F.min(BROKEN).alias(BROKEN)).drop(BROKEN), rules, observation)


def check_told(broken: pa.ChunkedArray, rules: Sequence[RowRule], table: str) -> None:
    """Makes sure of the same by the column `BROKEN` of rows that are here."""
    _refuse({BROKEN: pc.min(broken).as_py()}, rules, table)


def checked(df: DataFrame, rules: Sequence[RowRule], table: str) -> DataFrame:
    """Judged rows that are computed already, without their verdicts."""
    if rules:
        _refuse(df.agg(F.min(BROKEN).alias(BROKEN)).collect()[0].asDict(), rules, table)
    return df.drop(BROKEN)


def _refuse(report: dict[str, Any], rules: Sequence[RowRule], table: str) -> None:
    if (found := report[BROKEN]) is not None:
        raise rules[int(found[:_DIGITS])].refusal(found[_DIGITS:], table)
