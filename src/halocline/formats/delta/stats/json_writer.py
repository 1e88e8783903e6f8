"""Statistics as JSON text, for checkpoints that keep them only as typed columns.

A file's statistics come in two forms: `stats`, JSON text, and `stats_parsed`, a struct. Writers may store either. Here
the text is made from the struct where it is missing, column by column rather than row by row, so that a million files
take seconds. Values that JSON statistics cannot hold are left out, which only means that less is known of the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_NO_PATHS: Final[frozenset[tuple[str, ...]]] = frozenset()


def of(found: Mapping[str, pa.Array], zoneless: Collection[tuple[str, ...]] = _NO_PATHS) -> pa.Array:
    """The statistics of each file as text, wherever they are stored; null where there are none."""
    text, parsed = found.get("stats"), found.get("stats_parsed")
    if parsed is None or not pa.types.is_struct(parsed.type):
        return pa.nulls(len(found["path"]), pa.string()) if text is None else text
    if text is None or text.null_count == len(text):
        return _object(parsed, (), zoneless)
    return pc.coalesce(text, _object(parsed, (), zoneless)) if text.null_count else text


def _object(struct: pa.Array, path: tuple[str, ...], zoneless: Collection[tuple[str, ...]]) -> pa.Array:
    pieces = _pieces(struct, path, zoneless)
    if pieces is not None:
        return _joined(pieces) if len(pieces) > 1 else pa.array(pieces * len(struct), pa.string())
    pairs = []
    for field, child in zip(struct.type, struct.flatten(), strict=True):
        # The first step below minValues and its siblings is the column; the step itself is not part of the path.
        value = _value(child, (*path, field.name), zoneless)
        if value is not None:
            pairs.append(pc.fill_null(_joined([f",{json.dumps(field.name)}:", value]), ""))
    # Joining with nulls skipped would lose rows that are all null. Each pair brings its comma; the first one goes.
    inner = pc.utf8_slice_codeunits(_joined(pairs), 1) if pairs else pa.array([""] * len(struct), pa.string())
    return pc.if_else(pc.is_valid(struct), _joined(["{", inner, "}"]), pa.scalar(None, pa.string()))


def _pieces(
    struct: pa.Array, path: tuple[str, ...], zoneless: Collection[tuple[str, ...]]
) -> list[pa.Array | str] | None:
    """Where nothing is null, the object in pieces, to be put together in one go; None where something is."""
    if struct.null_count:
        return None
    pieces: list[pa.Array | str] = ["{"]
    for field, child in zip(struct.type, struct.flatten(), strict=True):
        if child.null_count:
            return None
        here = (*path, field.name)
        inner = _pieces(child, here, zoneless) if pa.types.is_struct(child.type) else None
        if inner is None:
            value = _value(child, here, zoneless)
            if value is None:
                continue
            if value.null_count:
                return None
            inner = [value]
        pieces += [f"{'' if len(pieces) == 1 else ','}{json.dumps(field.name)}:", *inner]
    return _merged([*pieces, "}"])


def _merged(pieces: list[pa.Array | str]) -> list[pa.Array | str]:
    """The same with neighbouring texts made one."""
    merged: list[pa.Array | str] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _value(array: pa.Array, path: tuple[str, ...], zoneless: Collection[tuple[str, ...]]) -> pa.Array | None:
    """The JSON of each value, null for null; None for a type that statistics do not hold."""
    type = array.type
    if pa.types.is_struct(type):
        return _object(array, path, zoneless)
    if pa.types.is_integer(type) or pa.types.is_decimal(type) or pa.types.is_boolean(type):
        return array.cast(pa.string())
    if pa.types.is_floating(type):
        return pc.if_else(pc.is_finite(array), array.cast(pa.string()), pa.scalar(None, pa.string()))
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return _quoted_text(array.cast(pa.string()))
    if pa.types.is_date(type):
        return _joined(['"', array.cast(pa.date32()).cast(pa.string()), '"'])
    if pa.types.is_timestamp(type):
        milliseconds = pc.floor_temporal(array, unit="millisecond").cast(pa.timestamp("ms", type.tz), safe=False)
        suffix = '"' if path[1:] in zoneless else 'Z"'
        return _joined(['"', pc.strftime(milliseconds, format="%Y-%m-%dT%H:%M:%S"), suffix])
    return None


def _quoted_text(array: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(array, r"[\x00-\x1f\x7f]")).as_py():
        return pa.array([None if text is None else json.dumps(text) for text in array.to_pylist()], pa.string())
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    return _joined(['"', escaped, '"'])


def _joined(parts: list[pa.Array | str]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
