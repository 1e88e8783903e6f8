"""The words that Delta writers use for what a commit did, and what follows from each.

The word stands in the commit's provenance as `operation`. It is free text as far as the format goes. A few words
have consequences: under write-serializable isolation a commit of a data-changing kind is checked more strictly, a
backfill of row ids is exempt from append checks, and a commit that adds files which are in the table already must
not be counted twice.
"""

from __future__ import annotations

from typing import Final

ROW_TRACKING_BACKFILL: Final = "ROW TRACKING BACKFILL"
ROW_TRACKING_UNBACKFILL: Final = "ROW TRACKING UNBACKFILL"

BACKFILLS: Final = frozenset({ROW_TRACKING_BACKFILL, ROW_TRACKING_UNBACKFILL})
"""Commits that only give row ids to, or take them from, files that are in the table already."""

CHANGES_DATA: Final = frozenset(
    {
        "CLONE",
        "CONVERT",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE AS SELECT",
        "DELETE",
        "MERGE",
        "REPLACE TABLE AS SELECT",
        "RESTORE",
        "STREAMING UPDATE",
        "TRUNCATE",
        "UPDATE",
        "WRITE",
    }
)
"""Commits of a kind that changes rows, even if a particular one changes none."""

ADDS_AGAIN: Final = BACKFILLS | {"COMPUTE STATS", "DROP FEATURE", "Manual Update"}
"""Commits that may add files which are in the table already: nobody may count their adds as new."""

REMOVES_NOTHING_LIVE: Final = frozenset({"Deletion Vector Tombstones", "Manual Update"})
"""Commits whose removes may be tombstones for files that never were data files."""

MOVES_PARTITIONS: Final = frozenset(
    {
        "CLONE",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "RENAME COLUMN",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "RESTORE",
        "WRITE",
    }
)
"""Commits that may name other partition columns than the table had."""

RESTORES: Final = frozenset({"RESTORE"})
"""Commits that make the table what it was, with whatever other writers had put up with."""

VACUUM_START: Final = "VACUUM START"
VACUUM_END: Final = "VACUUM END"
VACUUMS: Final = frozenset({VACUUM_START, VACUUM_END})
"""Notes of vacuums, which delete files that no version within the retention needs."""

UNMAPS: Final = RESTORES | {"REMOVE COLUMN MAPPING", "REPAIR PROTOCOL"}
"""Commits that may take column mapping away: no file stays that was written under it."""
