"""Dropping partitions: whole splits are taken out by the values of their partition columns."""

from __future__ import annotations

import time

from halocline.errors import InputError
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import SplitRemove
from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bound import PARTITION, Both, BoundQuery, Either, EveryRow, Without
from halocline.formats.index.query.parse import parse
from halocline.formats.index.query.tree import AllOf, Everything, NoneOf, SomeOf, Tree
from halocline.formats.index.search import Search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction


def drop_partitions(snapshot: IndexSnapshot, query: str, *, now_ms: int | None = None) -> tuple[int | None, int]:
    """Takes the partitions out that a query names. Files stay until they are purged.

    Args:
        snapshot: The table.
        query: Which partitions, in the query language, by partition columns alone: `day:<2024-01-01`.
        now_ms: The present, in milliseconds since the epoch.

    Returns:
        The version without them, None if there were none, and how many splits went.

    Raises:
        ConflictError: Somebody else changed one of the splits meanwhile.
        IncompatibleError: The release may not write the table.
        InputError: The query speaks of other columns, or of none.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    actions = partition_removals(snapshot, query, now_ms)
    if not actions:
        return None, 0
    version = IndexTransaction(snapshot.reopened("write")).commit(actions, "DROP PARTITIONS", where=query)
    return version, len(actions)


def partition_removals(snapshot: IndexSnapshot, query: str, now_ms: int) -> list[SplitRemove]:
    """The actions that take out the partitions that a query names.

    Raises:
        InputError: The query speaks of other columns, or of none.
    """
    partitions = snapshot.metadata.partition_columns
    _check_named(parse(query), query)
    search = Search.of(snapshot, query)
    if not _is_decided(search.query):
        raise InputError(
            "partitions are named by their own columns",
            condition="QUERY_INVALID",
            sides={"query": query, "partitioned by": ", ".join(partitions) or "nothing"},
            next_step="Name partition columns only, or delete rows by the query.",
        )
    # With partition columns alone a split has all rows of the query or none.
    return [removal(each, now_ms) for each in snapshot.files.values() if may_match(search.query, each)]


def _check_named(tree: Tree, query: str) -> None:
    """Words that name no column are looked for in all of them, which is no way to say what is to go."""
    match tree:
        case AllOf(parts) | SomeOf(parts):
            for part in parts:
                _check_named(part, query)
        case NoneOf(part):
            _check_named(part, query)
        case Everything():
            return
        case leaf if leaf.column is None:
            raise InputError(
                "the query for partitions names no column somewhere",
                condition="QUERY_INVALID",
                sides={"query": query, "possible": "day:2024-01-01, day:<2024-01-01, NOT zone:eu"},
                next_step="Put a column before every value, with a colon; this is no SQL.",
            )


def _is_decided(query: BoundQuery) -> bool:
    match query:
        case Both(parts) | Either(parts):
            return bool(parts) and all(map(_is_decided, parts))
        case Without(part):
            return _is_decided(part)
        case EveryRow():
            return False
        case leaf:
            return leaf.field.number == PARTITION
