"""Works aggregates out: from the log where it knows, from splits elsewhere, in this process or split by split.

Where splits are asked elsewhere, `from_log` says which of them need not be, `aggregate_split` is what is run for each
of the others, and `finished` puts the partials together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import pyarrow as pa

from halocline.formats.index.aggregate.partial import (
    Partial,
    merged,
    nothing,
    partial_of,
    partial_of_values,
    result_of,
)
from halocline.formats.index.aggregate.request import Aggregation, Count, Max, Min
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.pruning import may_match, must_match
from halocline.formats.index.rows import live_rows, partition_value, split_rows
from halocline.formats.index.search import Search, count_split, search_split, splits_to_search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.bounds import CUT
from halocline.formats.index.split.cache import IndexCache
from halocline.schema.arrow import arrow_schema
from halocline.storage.base import Store

_AT_ONCE: Final = 262_144


@dataclass(frozen=True)
class SplitPartial:
    """What one split adds to an aggregate.

    Attributes:
        partial: Groups and states.
        scanned: The columns that were read because the index could not answer the search.
        damage: What is wrong with the split's own index; None if it answered.
    """

    partial: Partial
    scanned: tuple[str, ...] = ()
    damage: str | None = None


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over a table.

    Attributes:
        rows: A row for each group, in the order of the keys.
        asked: How many splits were read.
        from_log: How many splits the log knew enough about.
        left_aside: How many could not have a row.
        scanned: The columns that were read because an index could not answer.
        damaged: What is wrong with the index of a split, by its path.
    """

    rows: pa.Table
    asked: int
    from_log: int
    left_aside: int
    scanned: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)


def aggregate_table(
    snapshot: IndexSnapshot,
    asked: Aggregation,
    search: Search | None = None,
    *,
    rebuild: bool = True,
    cache: IndexCache | None = None,
) -> Aggregate:
    """Aggregates a whole table in this process, split by split.

    Args:
        snapshot: The table.
        asked: What is to be worked out.
        search: The rows that count; all if not given.
        rebuild: Whether a split with a damaged index answers from its rows.
        cache: Where unpacked indexes are kept.

    Raises:
        IncompatibleError: A split cannot be searched by this release.
        InputError: A sum does not fit its type.
        MalformedError: A split is damaged.
    """
    known, splits = from_log(asked, search, snapshot.files.values())
    partials, scanned, damaged = [known.partial], set[str](), dict[str, str]()
    for split in splits:
        found = aggregate_split(snapshot.store, split, asked, search, rebuild=rebuild, cache=cache)
        partials.append(found.partial)
        scanned.update(found.scanned)
        damaged |= {} if found.damage is None else {split.path: found.damage}
    return Aggregate(
        rows=finished(asked, partials),
        asked=len(splits),
        from_log=known.splits,
        left_aside=len(snapshot.files) - known.splits - len(splits),
        scanned=tuple(sorted(scanned)),
        damaged=damaged,
    )


@dataclass(frozen=True)
class KnownFromLog:
    """What the log alone adds to an aggregate: a partial, and of how many splits it is."""

    partial: Partial
    splits: int


def from_log(
    asked: Aggregation, search: Search | None, splits: Iterable[SplitAdd]
) -> tuple[KnownFromLog, list[SplitAdd]]:
    """What the log knows of an aggregate, and the splits that have to be read for the rest.

    Args:
        asked: What is to be worked out.
        search: The rows that count; all if not given.
        splits: The splits of the table.

    Raises:
        IncompatibleError: One of the splits to read is a bundle, whose words cannot be searched.
    """
    partials: list[Partial] = []
    left: list[SplitAdd] = []
    for split in splits:
        if search is not None and not may_match(search.query, split):
            continue
        known = _known(asked, split) if search is None or must_match(search.query, split) else None
        if known is None:
            left.append(split)
        else:
            partials.append(known)
    # A split of which every row is found need not be searched, whoever wrote it.
    searched = [] if search is None else [each for each in left if not must_match(search.query, each)]
    if search is not None:
        splits_to_search(search, searched)
    return KnownFromLog(merged(asked, partials), len(partials)), left


def aggregate_split(
    store: Store,
    split: SplitAdd,
    asked: Aggregation,
    search: Search | None = None,
    *,
    rebuild: bool = False,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> SplitPartial:
    """What one split adds to an aggregate.

    Args:
        store: Where the table lies.
        split: The split.
        asked: What is to be worked out.
        search: The rows that count; all if not given.
        rebuild: Whether a split whose index cannot be used answers by one that is built anew from its rows.
        scratch: A folder for the unpacked index.
        cache: Where unpacked indexes are kept for the next search.

    Raises:
        IncompatibleError: The index is of a later kind, and is not to be rebuilt.
        MalformedError: The split is damaged.
    """
    if search is None or must_match(search.query, split):
        pieces = live_rows(store, split, asked.columns)
        return SplitPartial(merged(asked, (partial_of(asked, each) for each in _together(pieces))))
    if asked.is_count:
        count = count_split(store, split, search, rebuild=rebuild, scratch=scratch, cache=cache)
        values = {name: pa.scalar(count, pa.int64()) for name in asked.metrics}
        return SplitPartial(partial_of_values(asked, (), values))
    hits = search_split(store, split, search, rebuild=rebuild, scratch=scratch, cache=cache)
    parts = (hits.rows[start : start + _AT_ONCE] for start in range(0, len(hits.rows), _AT_ONCE))
    found = (partial_of(asked, split_rows(store, split, asked.columns, part)) for part in parts)
    return SplitPartial(merged(asked, found), hits.scanned, hits.damage)


def finished(asked: Aggregation, partials: Iterable[Partial]) -> pa.Table:
    """The result of partials, in whatever order they come.

    Raises:
        InputError: A sum does not fit its type.
    """
    return result_of(asked, merged(asked, partials))


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as few tables of a bounded size."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


# ------------------------------------------------------------------ what the log knows


def _known(asked: Aggregation, split: SplitAdd) -> Partial | None:
    """The partial of all rows of a split, if the log knows it."""
    count = split.live_records
    if count is None:
        return None
    if count == 0:
        return nothing(asked)
    around = set(split.partition_values)
    if any(bucket.column not in around for bucket in asked.by.values()):
        return None
    types = {each.name: each for each in arrow_schema(asked.columns)}
    values: dict[str, pa.Scalar] = {}
    for name, metric in asked.metrics.items():
        column = metric.column
        of_partition = None if column not in around or column is None else partition_value(split, types[column])
        value: pa.Scalar | None = None
        if isinstance(metric, Count) and (column is None or of_partition is not None):
            has_value = of_partition is None or of_partition.is_valid
            value = pa.scalar(count if has_value else 0, pa.int64())
        elif isinstance(metric, Min | Max) and column is not None:
            bounds = split.min_values if isinstance(metric, Min) else split.max_values
            text = (bounds or {}).get(column)
            value = of_partition
            if value is None and text is not None and split.deletion_mask is None:
                value = _bound(text, types[column].type, own=split.is_own)
        if value is None:
            return None
        values[name] = value
    keys = [partition_value(split, types[bucket.column]) for bucket in asked.by.values()]
    return partial_of_values(asked, keys, values)


def _bound(text: str, type: pa.DataType, *, own: bool) -> pa.Scalar | None:
    """A bound of the log as a value; None if it may be cut or rounded."""
    try:
        if pa.types.is_integer(type):
            return pa.scalar(int(text), pa.int64()).cast(type)
        if not own:
            return None
        if pa.types.is_string(type):
            return pa.scalar(text, type) if len(text) < CUT else None
        if pa.types.is_floating(type):
            return pa.scalar(float(text), pa.float64()).cast(type)
        if pa.types.is_boolean(type):
            return pa.scalar(text == "true", type)
        if pa.types.is_date32(type):
            return pa.scalar(int(text), pa.int32()).cast(type)
        if pa.types.is_timestamp(type):
            return pa.scalar(int(text), pa.int64()).cast(type)
        return pa.scalar(Decimal(text), type) if pa.types.is_decimal(type) else None
    except (ValueError, ArithmeticError, pa.ArrowException):
        return None
