"""Verification: whether a table holds the same rows after a move as before.

A *checkup* counts the rows, counts the keys where a table has any, and adds up the fingerprints of all rows, so that
the order of rows does not matter. A fingerprint is made of every bit of every value; see
`halocline.spark.types.fingerprint`. `full` takes all columns; `sample` takes the keys and a few more, which reads a
part of the bytes and still finds rows that are missing, doubled or given another key. A Hudi table is checked at one
instant on both sides, so writers may go on. A Delta or an index table is checked before the move and after it; if
others committed in between, the versions around each commit of the move are compared instead.

What could not be compared is told in words that begin with `NOT_COMPARED`, and whoever asked for it is not told that
all is well: columns of types that have no fingerprint, versions that are gone, counts of a release that counted in
another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import ConflictError
from halocline.formats.delta.actions.operations import BACKFILLS
from halocline.formats.delta.features.history_barrier import EMPTY_COMMIT
from halocline.plan.apply.journal import NOT_COMPARED
from halocline.progress import working
from halocline.spark.types.fingerprint import is_comparable, row_fingerprint
from halocline.table import HudiTable, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_FEW: Final = 4
_WAY: Final = 2
"""How fingerprints are made; 1 was a hash of JSON, which left digits of times and bytes of text out."""

_KEEPS_ROWS: Final = BACKFILLS | {
    "CHANGE COLUMNS",
    "Deletion Vector Tombstones",
    "DOMAIN METADATA CLEANUP",
    "DROP FEATURE",
    EMPTY_COMMIT,
    "OPTIMIZE",
    "REMOVE COLUMN MAPPING",
    "REORG",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "UPGRADE PROTOCOL",
}
"""What commits of a move say that they did, and others that change no rows either."""


class Verify(StrEnum):
    """How much of the rows is looked at."""

    SAMPLE = "sample"
    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a table holds at a version.

    Attributes:
        version: The version, or instant.
        rows: How many rows.
        keys: How many different keys; the number of rows where a table has none.
        content: The sum of the fingerprints of all rows.
        way: How fingerprints were made.
        left_out: The columns that should have been in them and have a type without a fingerprint.
    """

    version: int
    rows: int
    keys: int
    content: str
    way: int = 1
    left_out: tuple[str, ...] = ()

    def same_rows(self, other: Checkup) -> bool:
        """Whether both hold the same, as far as they were looked at."""
        return self._told == other._told

    @property
    def _told(self) -> tuple[int, int, str, int]:
        return self.rows, self.keys, self.content, self.way

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.keys:,} keys, content {self.content}"


def cost(table: Table, how: Verify) -> str:
    """What a verification reads, for people, before it is done."""
    if how is Verify.NONE:
        return "nothing is verified"
    size = int(table.detail().get("sizeInBytes") or 0)
    part = "all columns" if how is Verify.FULL else f"the keys and up to {_FEW} columns"
    return f"reads {part} of {size:,} bytes, before and after"


def checkup(table: Table, how: Verify, *, version: int | None = None) -> Checkup:
    """Counts and hashes the rows of a table. A Spark job."""
    at = table.version if version is None else version
    keys = tuple(table.detail().get("recordKeys") or ()) if isinstance(table, HudiTable) else ()
    with working(f"verify {table.url}, version {at}"):
        return _measured(table.to_df(version=at), at, keys, how)


def check_same(table: Table, before: Checkup, how: Verify) -> str:
    """Compares a table with what it was before a move, and says what was compared.

    Raises:
        ConflictError: The rows are not the same.
    """
    if isinstance(table, HudiTable):
        return _compared(table, before, checkup(table, how, version=before.version))
    since = sorted((each for each in table.history() if each.version > before.version), key=lambda each: each.version)
    own = all(each.operation in _KEEPS_ROWS for each in since)
    oldest = since[0].version if since else before.version
    if oldest <= before.version + 1:
        return _compared(table, before, checkup(table, how)) if own else _around_own(table, since, before, how)
    # A move may truncate history. Whether others wrote in the versions that are gone, the rows alone can tell.
    now = checkup(table, how, version=since[-1].version)
    if own and before.same_rows(now):
        return str(now)
    told = _around_own(table, since, checkup(table, how, version=oldest), how)
    return f"{NOT_COMPARED} in versions {before.version + 1} to {oldest - 1}, which are gone; {told}"


def _around_own(table: Table, since: Sequence[Any], start: Checkup, how: Verify) -> str:
    """Compares the rows before and after each run of commits of the move, from a version that was counted."""
    told = []
    for kept, run in groupby(since, lambda each: each.operation in _KEEPS_ROWS):
        versions = [each.version for each in run]
        first = max(versions[0] - 1, start.version)
        if kept and first < versions[-1]:
            earlier = start if first == start.version else checkup(table, how, version=first)
            told.append(_compared(table, earlier, checkup(table, how, version=versions[-1])))
    if not told:
        return f"{NOT_COMPARED}: others wrote meanwhile, and no commit is known to be of the move"
    return f"others wrote meanwhile; around its own commits: {'; '.join(told)}"


def _compared(table: Table, before: Checkup, after: Checkup) -> str:
    counts = (before.rows, before.keys) == (after.rows, after.keys)
    if counts and before.way != after.way:
        return f"{NOT_COMPARED}: another release has counted before the move; {after.rows:,} rows, {after.keys:,} keys"
    if not before.same_rows(after):
        raise ConflictError(
            f"{table.url} does not hold the same rows after its move",
            condition="MOVE_UNVERIFIED",
            sides={f"version {before.version}": str(before), f"version {after.version}": str(after)},
            next_step="Go back: halocline rollback FILE",
        )
    if after.left_out:
        return f"{NOT_COMPARED} in {', '.join(after.left_out)}, of a type without a fingerprint; {after}"
    return str(after)


def _measured(rows: DataFrame, version: int, keys: tuple[str, ...], how: Verify) -> Checkup:
    from pyspark.sql import functions as F

    schema = rows.schema
    wanted = [each for each in rows.columns if not each.startswith("_hoodie_")]
    names = [each for each in wanted if is_comparable(schema[each].dataType)]
    if how is Verify.SAMPLE:
        names = list(dict.fromkeys([*(each for each in keys if each in names), *names]))[: len(keys) + _FEW]
        wanted = names or wanted
    hashed = row_fingerprint(schema, names).cast("decimal(38,0)")
    own = [f"`{each.replace('`', '``')}`" for each in keys if each in rows.columns]
    counted = F.count_distinct(*own) if own else F.count(F.lit(1))
    row = rows.select(F.count(F.lit(1)), counted, F.coalesce(F.sum(hashed), F.lit(0))).first()
    assert row is not None  # an aggregate without groups is one row
    left_out = tuple(each for each in wanted if each not in names)
    return Checkup(version, int(row[0]), int(row[1]), str(row[2]), _WAY, left_out)
