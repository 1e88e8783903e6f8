"""Avro rows to Arrow columns, all rows at once.

Rows lie one after the other, each with its own length, so where a field begins depends on all fields before it. What
can be done for all rows at once is one field: `_Decoder` holds a position for each row, and each step reads one field
of every row with NumPy and moves the positions on. That is many times faster than going row by row in Python.

Every row must end where its length says; anything else is an error, as are text that is not UTF-8 and numbers that do
not fit their type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from halocline.errors import MalformedError
from halocline.formats.hudi.avro.types import arrow_field, arrow_type, nullable

Positions: TypeAlias = npt.NDArray[np.int64]

_LONGEST: Final = 63
"""The highest shift of a number in a long; a longer one is damaged."""


def decode_rows(
    schema: Mapping[str, Any],
    data: bytes | memoryview,
    starts: Positions,
    ends: Positions,
    columns: Collection[str] | None = None,
) -> pa.Table:
    r"""The rows that lie between those positions.

    Args:
        schema: The schema of a record, with named types spelt out.
        data: Where the rows lie.
        starts: Where each row begins.
        ends: Where each row ends.
        columns: The columns to give, as far as there are any; all if not given, or if there are none of them.

    Raises:
        MalformedError: A row does not end where it should, or cannot be read.
        UnsupportedError: A type has no column type.

    Example:
        >>> schema = {"type": "record", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
        >>> decode_rows(schema, b"\x02\x04hi\x03\x00", np.array([0, 4]), np.array([4, 6])).to_pylist()
        [{'a': 1, 'b': 'hi'}, {'a': -2, 'b': ''}]
    """
    decoder = _Decoder(data)
    position, decoded = starts, []
    wanted = {each["name"] for each in schema["fields"]}
    wanted = wanted.intersection(columns or ()) or wanted
    try:
        for field in schema["fields"]:
            kept = field["name"] in wanted
            column, position = decoder.decode(field["type"], position, kept=kept)
            if kept:
                decoded.append(column)
    except (IndexError, OverflowError, pa.ArrowInvalid) as error:
        raise MalformedError(str(error)) from error
    if not np.array_equal(position, ends):
        row = int(np.flatnonzero(position != ends)[0])
        raise MalformedError(f"row {row} should end at byte {int(ends[row])}, and ends at {int(position[row])}")
    return pa.table(
        decoded, schema=pa.schema([arrow_field(each) for each in schema["fields"] if each["name"] in wanted])
    )


class _Decoder:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data: Final = np.frombuffer(data, np.uint8)

    def decode(self, type: Any, at: Positions, *, kept: bool = True) -> tuple[pa.Array, Positions]:
        """One value of each row, and where what follows it begins; texts that are not kept are passed over."""
        inner, null, plain = nullable(type)
        if plain:
            return self._plain(inner, at, kept=kept)
        branch, after = self._numbers(at)
        if null is None:
            self._check(branch, 1)
            return self._plain(inner, after, kept=kept)
        self._check(branch, 2)
        present = branch != null
        if present.all():
            return self._plain(inner, after, kept=kept)
        there = np.flatnonzero(present)
        values, moved = self._plain(inner, after[there], kept=kept)
        after = after.copy()
        after[there] = moved
        places = pa.array(np.cumsum(present) - 1, mask=~present)
        return values.take(places), after

    def _plain(self, type: Any, at: Positions, *, kept: bool = True) -> tuple[pa.Array, Positions]:
        name = type["type"] if isinstance(type, dict) else type
        if isinstance(name, dict | list):
            return self.decode(name, at, kept=kept)
        arrow = arrow_type(type)
        match name:
            case "null":
                return pa.nulls(len(at)), at
            case "boolean":
                values = self._data[at]
                self._check(values, 2)
                return pa.array(values != 0), at + 1
            case "int" | "long":
                numbers, after = self._numbers(at)
                plain = pa.int32() if name == "int" else pa.int64()
                return pa.array(numbers, pa.int64()).cast(plain).cast(arrow), after
            case "float" | "double":
                width = 4 if name == "float" else 8
                return pa.array(self._fixed(at, width).view(f"<f{width}").ravel()), at + width
            case "bytes" | "string":
                lengths, after = self._lengths(at)
                if not kept:
                    return pa.nulls(len(at)), after + lengths
                return self._read_as(self._texts(after, lengths), arrow), after + lengths
            case "fixed":
                return self._fixed_column(at, type["size"], arrow), at + type["size"]
            case "enum":
                symbols, after = self._numbers(at)
                self._check(symbols, len(type["symbols"]))
                return pa.array(type["symbols"], pa.string()).take(pa.array(symbols)), after
            case "record":
                return self._record(type, arrow, at)
            case "array":
                return self._repeated([("element", type["items"])], arrow, at)
        return self._repeated([("key", "string"), ("value", type["values"])], arrow, at)

    def _record(self, type: Mapping[str, Any], arrow: pa.StructType, at: Positions) -> tuple[pa.Array, Positions]:
        columns = []
        for field in type["fields"]:
            column, at = self.decode(field["type"], at)
            columns.append(column)
        if not columns:
            return pa.array([{}] * len(at), arrow), at
        return pa.StructArray.from_arrays(columns, fields=list(arrow)), at

    def _repeated(self, parts: list[tuple[str, Any]], arrow: pa.DataType, at: Positions) -> tuple[pa.Array, Positions]:
        """An array or a map: in each round, the next item of every row that has one."""
        rows = len(at)
        at, left, counts = at.copy(), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        open = np.arange(rows)
        owners: list[Positions] = []
        chunks: list[list[pa.Array]] = [[] for _ in parts]
        while open.size:
            empty = open[left[open] == 0]
            if empty.size:
                left[empty], at[empty] = self._block_counts(at[empty])
                open = open[left[open] != 0]
                if not open.size:
                    break
            moved = at[open]
            for chunk, (_, type) in zip(chunks, parts, strict=True):
                values, moved = self.decode(type, moved)
                chunk.append(values)
            at[open] = moved
            owners.append(open)
            left[open] -= 1
            counts[open] += 1
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
        if owners:
            order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
            columns = [pa.concat_arrays(chunk).take(order) for chunk in chunks]
        else:
            columns = [pa.array([], arrow_type(type)) for _, type in parts]
        if len(columns) == 1:
            return pa.ListArray.from_arrays(offsets, columns[0], type=arrow), at
        return pa.MapArray.from_arrays(offsets, *columns, type=arrow), at

    def _block_counts(self, at: Positions) -> tuple[Positions, Positions]:
        """How many items follow; a negative number says the same and is followed by their length in bytes."""
        counts, after = self._numbers(at)
        sized = np.flatnonzero(counts < 0)
        if sized.size:
            after = after.copy()
            _, after[sized] = self._numbers(after[sized])
        counts = np.abs(counts)
        if counts.size and not 0 <= int(counts.min()) <= int(counts.max()) <= len(self._data):
            raise MalformedError("more items than there are bytes")
        return counts, after

    def _fixed_column(self, at: Positions, size: int, arrow: pa.DataType) -> pa.Array:
        rows = self._fixed(at, size)
        if pa.types.is_decimal(arrow):
            return _decimals(rows, arrow)
        return pa.FixedSizeBinaryArray.from_buffers(arrow, len(at), [None, pa.py_buffer(rows.tobytes())])

    def _read_as(self, values: pa.Array, arrow: pa.DataType) -> pa.Array:
        if not pa.types.is_decimal(arrow):
            return values.cast(arrow)
        width = arrow.bit_width // 8
        padded = np.zeros((len(values), width), np.uint8)
        for row, value in enumerate(values.to_pylist()):
            if len(value) > width:
                raise MalformedError(f"a decimal of {len(value)} bytes")
            padded[row] = np.frombuffer(
                int.from_bytes(value, "big", signed=True).to_bytes(width, "big", signed=True), "u1"
            )
        return _decimals(padded, arrow)

    def _numbers(self, at: Positions) -> tuple[Positions, Positions]:
        """Numbers of variable length: seven bits a byte, the lowest first, with the sign in the lowest bit."""
        found = self._data[at]
        value = (found & 0x7F).astype(np.uint64)
        after = at + 1
        more = np.flatnonzero(found & 0x80)
        shift = 7
        while more.size:
            if shift > _LONGEST:
                raise MalformedError("a number of more than ten bytes")
            found = self._data[after[more]]
            value[more] |= (found & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[more] += 1
            more = more[(found & 0x80) != 0]
            shift += 7
        sign = (value & np.uint64(1)).astype(np.int64)
        return (value >> np.uint64(1)).astype(np.int64) ^ -sign, after

    def _lengths(self, at: Positions) -> tuple[Positions, Positions]:
        lengths, after = self._numbers(at)
        if lengths.size and (int(lengths.min()) < 0 or int((after + lengths).max()) > len(self._data)):
            raise MalformedError("a text is longer than the data")
        return lengths, after

    def _texts(self, at: Positions, lengths: Positions) -> pa.Array:
        """The texts: what lies between two of them is taken for another one, so that Arrow copies each at once."""
        bounds = np.column_stack((at, at + lengths)).ravel()
        if (bounds[1:] < bounds[:-1]).any():
            raise MalformedError("a text is longer than its row")
        if int(lengths.sum()) > np.iinfo(np.int32).max:
            raise MalformedError("a column of texts of more than 2 GiB")
        large = len(self._data) > np.iinfo(np.int32).max
        type, offsets = (pa.large_binary(), bounds) if large else (pa.binary(), bounds.astype(np.int32))
        if not len(at):
            return pa.array([], pa.binary())
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        texts = pa.Array.from_buffers(type, len(bounds) - 1, buffers)
        return texts.take(pa.array(np.arange(0, len(bounds), 2))).cast(pa.binary())

    def _fixed(self, at: Positions, width: int) -> npt.NDArray[np.uint8]:
        return np.ascontiguousarray(self._data[at[:, None] + np.arange(width)])

    def _check(self, numbers: npt.NDArray[Any], count: int) -> None:
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
            raise MalformedError(f"a choice among {count} is {int(numbers.max())}")


def _decimals(rows: npt.NDArray[np.uint8], arrow: pa.DataType) -> pa.Array:
    """Decimals from big-endian bytes of one width."""
    width = arrow.bit_width // 8
    size = rows.shape[1]
    sign = np.where(rows[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0)) if size else np.zeros((len(rows), 1), np.uint8)
    if size > width:
        if not (rows[:, : size - width] == sign).all():
            raise MalformedError(f"a decimal does not fit {arrow}")
        rows = rows[:, size - width :]
    full = np.concatenate([np.repeat(sign, width - rows.shape[1], axis=1), rows], axis=1)
    data = pa.py_buffer(np.ascontiguousarray(full[:, ::-1]).tobytes())
    return pa.Array.from_buffers(arrow, len(rows), [None, data])
