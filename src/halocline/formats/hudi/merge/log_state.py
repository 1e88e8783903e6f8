"""For each key of a slice's log files, what is left when all its entries are merged.

Two ways lead there. Where the winner is taken whole, one pass over the ranks of all entries finds it. Where values are
taken from the loser as well (partial rows, and rules that fill), entries are merged in rounds: the first entry of every
key, then the second, and so on; a *source* per column and key says which row its value comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.blocks.content import rows_of
from halocline.formats.hudi.blocks.deletes import DeletedKey, deleted_keys
from halocline.formats.hudi.blocks.frame import BlockType, LogBlock
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.merge.ordering import Ranks, delete_values, ranks
from halocline.formats.hudi.merge.row_origin import check_origin, origin_columns
from halocline.formats.hudi.merge.rules import IS_DELETED, OPERATION, Dialect, Filling, MergeRule, Ordering
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.table_schema import META_COLUMNS

Flags: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = npt.NDArray[np.int64]


_NOWHERE: Final = -1
_DELETE_OPERATION: Final = "D"


@dataclass(frozen=True)
class LogState:
    """What the log files of a slice make of each key.

    Attributes:
        keys: The keys, each once.
        deleted: Whether the key is deleted.
        always: Whether it is deleted whatever the base file holds.
        ordering: The ordering value of each key, by ordering field.
        rows: The row of each key; those of deleted keys mean nothing.
        given: For each column that is not given for all keys, for which it is; None if all columns are.
    """

    keys: pa.Array
    deleted: Flags
    always: Flags
    ordering: tuple[pa.Array, ...]
    rows: pa.Table
    given: Mapping[str, Flags] | None = None


def read_log_state(
    blocks: Sequence[LogBlock], schema: pa.Schema, rule: MergeRule, keys: KeyColumns, defaults: Mapping[str, Any]
) -> LogState:
    """Merges the entries of a slice's log files.

    Args:
        blocks: The blocks that count, in order.
        schema: The schema to read rows as; it holds what the rule and the keys need.
        rule: How versions of a row are merged.
        keys: Where the key of a row stands.
        defaults: The defaults of columns that rows of older schemas lack.

    Raises:
        MalformedError: A block is damaged.
        SchemaError: A row does not fit the schema.
        UnsupportedError: A block is of a kind that this release does not read.
    """
    pieces = (_piece(each, schema, keys, defaults) for each in blocks)
    return _Entries(pieces, schema, rule, defaults).state()


def row_state(
    rows: pa.Table, deletes: Sequence[DeletedKey], rule: MergeRule, keys: KeyColumns, defaults: Mapping[str, Any]
) -> LogState:
    """Merges rows and deletes that are about to be written, as if they were the log files of a slice."""
    pieces = (_Piece(rows, keys.of(rows)), _Piece(deletes=deletes))
    return _Entries(pieces, rows.schema, rule, defaults).state()


@dataclass(frozen=True)
class _Piece:
    """Entries that were written together: rows, their keys, and their columns if not all; or deletes."""

    rows: pa.Table | None = None
    keys: pa.Array | None = None
    given: frozenset[str] | None = None
    deletes: Sequence[DeletedKey] = ()


def _piece(block: LogBlock, schema: pa.Schema, keys: KeyColumns, defaults: Mapping[str, Any]) -> _Piece:
    if block.type is BlockType.DELETE:
        return _Piece(deletes=deleted_keys(block))
    raw = rows_of(block, {*schema.names, *origin_columns(keys)})
    check_origin(block, raw, keys)
    fitted = fit_table(raw, schema, str(block), None if block.is_partial else defaults)
    found = keys.of(fitted)
    if found.null_count:
        raise block.malformed("a key in every row", f"{found.null_count} of {len(found)} rows without one")
    return _Piece(fitted, found, frozenset(raw.schema.names) if block.is_partial else None)


class _Entries:
    """All entries of a slice's log files: rows first, deletes behind them; `order` is how they were written."""

    def __init__(
        self,
        pieces: Iterable[_Piece],
        schema: pa.Schema,
        rule: MergeRule,
        defaults: Mapping[str, Any],
    ) -> None:
        self._rule: Final = rule
        self._schema: Final = schema
        self._defaults: Final = defaults
        tables: list[pa.Table] = []
        row_keys: list[pa.Array] = []
        deletes: list[DeletedKey] = []
        self._given: Final[list[tuple[int, frozenset[str] | None]]] = []
        order: list[tuple[bool, int]] = []  # per piece: whether it holds rows, and how many entries it has
        for piece in pieces:
            if piece.rows is None:
                deletes += piece.deletes
                order.append((False, len(piece.deletes)))
                continue
            tables.append(piece.rows)
            row_keys.append(piece.keys)
            self._given.append((piece.rows.num_rows, piece.given))
            order.append((True, piece.rows.num_rows))
        self.rows: Final = pa.concat_tables(tables) if tables else schema.empty_table()
        self.written: Final = _written(order, self.rows.num_rows)
        delete_keys = pa.array([each.key for each in deletes], pa.string())
        encoded = pa.concat_arrays([*row_keys, delete_keys]).dictionary_encode()
        self.keys: Final = encoded.dictionary
        self.codes: Final = np.asarray(encoded.indices, np.int64)
        self.ordering: Final = tuple(self._ordering(name, at, deletes) for at, name in enumerate(rule.ordering_fields))
        self.in_block: Final = np.arange(len(self.codes)) >= self.rows.num_rows
        self.deletes: Final = np.concatenate([self._marked(), np.ones(len(deletes), bool)])
        unordered = _all_null(self.ordering, len(self.codes))
        without = np.array([rule.deletes_win or each.ordering is None for each in deletes], bool)
        self.natural: Final = np.concatenate(
            [self.deletes[: self.rows.num_rows] & unordered[: self.rows.num_rows], without | unordered[self.in_block]]
        )

    def state(self) -> LogState:
        if self._rule.filling_in_logs is Filling.NONE and all(given is None for _, given in self._given):
            winners, given = self._whole(), None
            sources: Mapping[str, Indices] = {}
        else:
            winners, sources = self._by_column()
            given = {name: source != _NOWHERE for name, source in sources.items()}
        rows = self._rows(winners, sources)
        ordering = tuple(column.take(pa.array(winners)) for column in self.ordering)
        deleted = self.deletes[winners]
        always = self.natural[winners] | (self._lenient & self.in_block[winners])
        if self._rule.with_base is Ordering.COMMIT_TIME:
            always = always | deleted
        partial = given is not None and not all(flags.all() for flags in given.values())
        return LogState(self.keys, deleted, always & deleted, ordering, rows, given if partial else None)

    @cached_property
    def _lenient(self) -> bool:
        """Whether deletes of delete blocks are taken in order of writing by what follows them, and by the base."""
        return self._rule.dialect is Dialect.BEFORE_1

    @cached_property
    def _rank(self) -> Ranks:
        """What entries compare by; a delete without ordering gives way to all that is written after it."""
        if self._rule.in_logs is Ordering.COMMIT_TIME or not self.ordering:
            return self.written
        found = ranks(self.ordering)
        found[self.natural] = -1
        return found

    def _whole(self) -> Indices:
        """The winning entry of each key."""
        if len(self.keys) == len(self.codes):  # keys are numbered as they come
            return np.arange(len(self.keys))
        order = np.lexsort((self.written, self.codes))
        last = np.full(len(self.keys), _NOWHERE, np.int64)
        if self._rule.in_logs is Ordering.EVENT_TIME and self.natural.any():
            # What was written before a delete without ordering does not matter any more.
            barrier = np.full(len(self.keys), -1, np.int64)
            np.maximum.at(barrier, self.codes[self.natural], self.written[self.natural])
            order = order[self.written[order] >= barrier[self.codes[order]]]
        if self._lenient and bool((self.in_block & ~self.natural).any()):
            return self._in_rounds(order)
        best = order[np.lexsort((self.written[order], self._rank[order], self.codes[order]))]
        last[self.codes[best]] = best
        return last

    def _in_rounds(self, order: Indices) -> Indices:
        current = np.full(len(self.keys), _NOWHERE, np.int64)
        for entries in _rounds(order, self.codes):
            before = current[self.codes[entries]]
            wins = (before == _NOWHERE) | self._beats(entries, before)
            current[self.codes[entries[wins]]] = entries[wins]
        return current

    def _beats(self, entries: Indices, before: Indices) -> Flags:
        """Whether each entry wins against the one that its key had before."""
        if self._rule.in_logs is Ordering.COMMIT_TIME:
            return np.ones(len(entries), bool)
        wins = self.natural[entries] | (self._rank[entries] >= self._rank[before]) | self.natural[before]
        if self._lenient:
            wins |= self.in_block[before] & ~self.deletes[entries]
        return np.asarray(wins)

    def _by_column(self) -> tuple[Indices, dict[str, Indices]]:
        """The winning entry of each key, and the row that each value comes from."""
        order = np.lexsort((self.written, self.codes))
        current = np.full(len(self.keys), _NOWHERE, np.int64)
        sources = {name: np.full(len(self.keys), _NOWHERE, np.int64) for name in self._schema.names}
        present = {name: self._present(name) for name in self._schema.names}
        usable = {name: flags & self._own(name) for name, flags in present.items()}
        for entries in _rounds(order, self.codes):
            slots = self.codes[entries]
            before = current[slots]
            first = before == _NOWHERE
            wins = first | self._beats(entries, before)
            alone = wins & (first | self.deletes[before] | self.deletes[entries])
            high = wins & ~alone
            low = ~wins & ~self.deletes[before] & ~self.deletes[entries]
            current[slots[wins]] = entries[wins]
            gone = alone & self.deletes[entries]
            fresh = alone & ~gone
            for name, source in sources.items():
                source[slots[gone]] = _NOWHERE
                source[slots[fresh]] = np.where(_picked(present[name], entries[fresh]), entries[fresh], _NOWHERE)
                held = source[slots]
                only = (held == _NOWHERE) & _picked(present[name], entries)
                better = high & (_picked(usable[name], entries) | only)
                source[slots[better]] = entries[better]
                fills = low & ~_picked(usable[name], held)
                if self._takes_meta(name):
                    fills |= low
                fills &= _picked(present[name], entries)
                source[slots[fills]] = entries[fills]
        return current, sources

    def _takes_meta(self, name: str) -> bool:
        """Whether a row that loses still says when the key was written; payload classes do it so."""
        return self._lenient and self._rule.filling_in_logs is Filling.NULLS and name in META_COLUMNS

    def _present(self, name: str) -> Flags:
        """Which rows have the column at all."""
        pieces = [np.full(count, given is None or name in given) for count, given in self._given]
        return np.concatenate(pieces) if pieces else np.zeros(0, bool)

    def _own(self, name: str) -> Flags:
        """Which rows have a value of their own for the column."""
        return own_values(self.rows[name], name, self._rule, self._rule.filling_in_logs, self._defaults)

    def _rows(self, winners: Indices, sources: Mapping[str, Indices]) -> pa.Table:
        dead = self.in_block[winners]
        if not sources and np.array_equal(winners, np.arange(self.rows.num_rows)):
            return self.rows
        whole = pa.array(np.where(dead, 0, winners), mask=dead)
        columns = []
        for name in self._schema.names:
            source = sources.get(name)
            places = whole if source is None else pa.array(np.maximum(source, 0), mask=source == _NOWHERE)
            columns.append(
                self.rows[name].take(places) if self.rows.num_rows else pa.nulls(len(winners), self.rows[name].type)
            )
        return pa.Table.from_arrays(columns, schema=self.rows.schema)

    def _ordering(self, name: str, at: int, deletes: Sequence[DeletedKey]) -> pa.Array:
        values = [each.ordering[at] if isinstance(each.ordering, tuple) else each.ordering for each in deletes]
        column = self.rows[name].combine_chunks()
        return pa.concat_arrays([column, delete_values(values, column.type)])

    def _marked(self) -> Flags:
        """Which rows say of themselves that they are deletes."""
        flags = np.zeros(self.rows.num_rows, bool)
        names = self.rows.schema.names
        if IS_DELETED in names:
            flags |= _true(pc.equal(self.rows[IS_DELETED].cast(pa.bool_()), True))
        if OPERATION in names:
            flags |= _true(pc.equal(self.rows[OPERATION], _DELETE_OPERATION))
        marker = self._rule.marker
        if marker is not None and marker.column in names:
            flags |= _true(pc.equal(self.rows[marker.column].cast(pa.string()), marker.value))
        return flags


def own_values(
    column: pa.Array | pa.ChunkedArray, name: str, rule: MergeRule, filling: Filling, defaults: Mapping[str, Any]
) -> Flags:
    """Which values are a row's own, and not to be taken from an older version of it."""
    match filling:
        case Filling.NULLS:
            return ~np.asarray(column.is_null())
        case Filling.DEFAULTS:
            default = defaults.get(name)
            if default is None:
                return ~np.asarray(column.is_null())
            return ~_true(pc.equal(column, pa.scalar(default, column.type)))
        case Filling.UNAVAILABLE if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            return ~_true(pc.equal(column, pa.scalar(rule.unavailable).cast(column.type)))
    return np.ones(len(column), bool)


def _true(flags: pa.Array | pa.ChunkedArray) -> Flags:
    return np.asarray(flags.fill_null(False))


def _picked(flags: Flags, indices: Indices) -> Flags:
    """The flag at each index; false where there is none, or where the index is that of a delete."""
    inside = (indices >= 0) & (indices < len(flags))
    return inside & flags[np.where(inside, indices, 0)] if len(flags) else np.zeros(len(indices), bool)


def _all_null(columns: Sequence[pa.Array], rows: int) -> Flags:
    found = np.ones(rows, bool)
    for column in columns:
        found &= np.asarray(column.is_null())
    return found


def _written(blocks: Sequence[tuple[bool, int]], rows: int) -> Indices:
    """When each entry was written, as a number: rows stand first and deletes behind them, whatever their order."""
    row, delete, time = 0, rows, 0
    found = np.empty(sum(count for _, count in blocks), np.int64)
    for holds_rows, count in blocks:
        at = row if holds_rows else delete
        found[at : at + count] = np.arange(time, time + count)
        row, delete = (row + count, delete) if holds_rows else (row, delete + count)
        time += count
    return found


def _rounds(order: Indices, codes: Indices) -> list[Indices]:
    """The first entry of every key, then the second of those that have one, and so on."""
    if not len(order):
        return []
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.append(True, sorted_codes[1:] != sorted_codes[:-1]))
    position = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    by_round = np.argsort(position, kind="stable")
    return np.split(order[by_round], np.cumsum(np.bincount(position))[:-1])
