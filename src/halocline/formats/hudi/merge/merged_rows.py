"""The rows of a slice: its base file, a batch at a time, against what its log files make of each key.

The same in two halves: which rows of the base file do not hold any more, by their positions, and which rows of the log
files hold. Whoever reads base files by other means takes the former out and adds the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.merge.log_state import Flags, Indices, LogState, own_values
from halocline.formats.hudi.merge.rules import Dialect, Filling, MergeRule, Ordering
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.table_schema import META_COLUMNS


@dataclass
class BaseMerge:
    """Merges the batches of one base file with the log files of its slice. Use it once.

    Attributes:
        state: What the log files make of each key.
        rule: How versions of a row are merged.
        keys: Where the key of a row stands.
        defaults: The defaults of columns.
    """

    state: LogState
    rule: MergeRule
    keys: KeyColumns
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._met: Flags = np.zeros(len(self.state.keys), bool)

    def rows(self, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The rows of the slice: first those with a row in the base file, then those that are only in log files."""
        for batch in batches:
            found = self.met_in(batch)
            yield from found.left([batch])
            yield from self._changed(batch, found)
        yield from self._new()

    def halves(self, batches: Iterable[pa.Table]) -> tuple[Indices, Indices]:
        """The positions of rows of the base file that do not hold any more, and the keys whose rows it beats.

        Batches need only the columns that the merge looks at. Not for rows that take values from older ones (`fills`).
        """
        gone, beaten, start = [], [], 0
        for batch in batches:
            found = self.met_in(batch)
            gone.append(found.gone + start)
            beaten.append(found.beaten)
            start += batch.num_rows
        none = np.empty(0, np.int64)
        return np.concatenate([none, *gone]), np.concatenate([none, *beaten])

    def changed(self, beaten: Indices) -> pa.Table:
        """The rows that are not as the base file has them, by `halves`."""
        holds = ~self.state.deleted
        holds[beaten] = False
        return self.state.rows if holds.all() else self.state.rows.filter(pa.array(holds))

    @property
    def fills(self) -> bool:
        """Whether rows take values from older ones."""
        return self._fills(self.rule.filling_with_base)

    def _new(self) -> Iterator[pa.Table]:
        new = ~self._met & ~self.state.deleted
        if new.any():
            yield self.state.rows.filter(pa.array(new))

    def met_in(self, batch: pa.Table) -> MetRows:
        """The rows of the batch whose keys the log files have, and what becomes of them.

        The more rows at once the better: the keys of the log files are hashed anew each time. Needed are the columns
        that the merge looks at.
        """
        found = pc.index_in(self.keys.of(batch), self.state.keys)
        matched = np.flatnonzero(np.asarray(found.is_valid()))
        keys = np.asarray(found.fill_null(0), np.int64)[matched]
        # Of rows with the same key, which only a writer that does not look for duplicates leaves, the first is merged.
        first = np.zeros(len(keys), bool)
        first[np.unique(keys, return_index=True)[1]] = True
        first &= ~self._met[keys]
        matched, keys = matched[first], keys[first]
        self._met[keys] = True
        log_wins = self._log_wins(batch.take(pa.array(matched)), keys)
        gone = self.state.deleted[keys] & log_wins
        # A row that loses whole is as it was; a deleted key that loses gives nothing to fill from.
        filled = ~self.state.deleted[keys] & (log_wins | self.fills)
        return MetRows(matched[gone | filled], matched[filled], keys[filled], log_wins[filled], keys[~log_wins])

    def _changed(self, batch: pa.Table, found: MetRows) -> Iterator[pa.Table]:
        if found.filled.size:
            yield self._combined(batch.take(pa.array(found.filled)), found.keys, found.log_wins)

    def _log_wins(self, base: pa.Table, keys: Indices) -> Flags:
        """Whether the state of each key beats its row in the base file."""
        if self.rule.with_base is Ordering.COMMIT_TIME or not self.rule.ordering_fields:
            return np.ones(len(keys), bool)
        places = pa.array(keys)
        newer, equal = np.zeros(len(keys), bool), np.ones(len(keys), bool)
        for name, ordering in zip(self.rule.ordering_fields, self.state.ordering, strict=True):
            held, offered = base[name].combine_chunks(), ordering.take(places)
            newer |= equal & _greater(offered, held)
            equal &= ~_greater(offered, held) & ~_greater(held, offered)
        return np.asarray(newer | equal | self.state.always[keys], bool)

    def _fills(self, filling: Filling) -> bool:
        return filling is not Filling.NONE or self.state.given is not None

    def _combined(self, base: pa.Table, keys: Indices, log_wins: Flags) -> pa.Table:
        """Rows that take their values from the winner, and from the loser what the winner does not have."""
        log = self.state.rows.take(pa.array(keys))
        if not self.fills:
            return log
        count, rows = len(keys), np.arange(len(keys))
        columns = []
        for name in log.schema.names:
            given = self.state.given.get(name) if self.state.given is not None else None
            from_log = np.ones(count, bool) if given is None else given[keys]
            own = from_log & self._own(log[name], name)
            held = self._own(base[name], name)
            takes_log = np.where(log_wins, own, from_log & ~held)
            if self._takes_meta(name):
                takes_log = from_log
            both = pa.concat_arrays([*base[name].chunks, *log[name].chunks])
            columns.append(both.take(pa.array(np.where(takes_log, rows + count, rows))))
        return pa.Table.from_arrays(columns, schema=log.schema)

    def _own(self, column: pa.ChunkedArray, name: str) -> Flags:
        return own_values(column, name, self.rule, self.rule.filling_with_base, self.defaults)

    def _takes_meta(self, name: str) -> bool:
        """Whether a row that loses still says when the key was written; payload classes do it so."""
        nulls = self.rule.filling_with_base is Filling.NULLS
        return nulls and self.rule.dialect is Dialect.BEFORE_1 and name in META_COLUMNS


@dataclass(frozen=True, slots=True)
class MetRows:
    """Rows of a batch whose keys the log files have.

    Attributes:
        gone: The positions of those that do not hold any more.
        filled: Of these, those in whose place another row holds.
        keys: The keys of the latter, as numbers.
        log_wins: Whether the log files win over each of them, or only fill it.
        beaten: The keys that the base file wins over, as numbers.
    """

    gone: Indices
    filled: Indices
    keys: Indices
    log_wins: Flags
    beaten: Indices

    def left(self, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same rows, in batches with whichever columns, without those that do not hold any more."""
        start = 0
        for batch in batches:
            first, last = np.searchsorted(self.gone, [start, start + batch.num_rows])
            keep = np.ones(batch.num_rows, bool)
            keep[self.gone[first:last] - start] = False
            yield batch if first == last else batch.filter(pa.array(keep))
            start += batch.num_rows


def _greater(one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray) -> Flags:
    """Whether each value is greater; null is smaller than everything."""
    greater: Flags = np.asarray(pc.greater(one, other).fill_null(False))
    greater |= np.asarray(one.is_valid()) & np.asarray(other.is_null())
    return greater
