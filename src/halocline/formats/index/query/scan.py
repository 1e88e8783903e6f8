"""Answers a leaf from the rows of a split, where its index cannot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError
from halocline.formats.index.query.bound import Among, Between, BoundLeaf, HasValue, InRow, JsonNumber, Like
from halocline.formats.index.query.json_numbers import rows_with_number
from halocline.formats.index.split.analyzers import words
from halocline.formats.index.split.reader import OpenedSplit


def scanned_rows(opened: OpenedSplit, leaf: BoundLeaf, among: np.ndarray | None = None) -> np.ndarray:
    """Which rows of a split a leaf finds.

    Args:
        opened: The split.
        leaf: The leaf.
        among: The numbers of the only rows that it may find; all if not given.

    Raises:
        InputError: The leaf cannot be answered from rows.
        MalformedError: The rows are damaged.
    """
    column = leaf.field.column
    if among is not None:
        table = opened.rows(among, [column])
        return np.asarray(among[_found(table.column(column).combine_chunks(), leaf)])
    masks = [_found(batch.column(column), leaf) for batch in opened.batches([column])]
    return np.flatnonzero(np.concatenate(masks)) if masks else np.empty(0, dtype=np.int64)


def _found(values: pa.Array | pa.ChunkedArray, leaf: BoundLeaf) -> np.ndarray:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if isinstance(leaf, JsonNumber):
        return rows_with_number(values, leaf)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        inside = _plain(pc.list_flatten(values), leaf)
        found = np.zeros(len(values), dtype=np.bool_)
        found[pc.list_parent_indices(values).to_numpy()[inside]] = True
        return found
    return _plain(values, leaf)


def in_row(text: Sequence[str], wanted: Sequence[str], slop: int) -> bool:
    """Whether a text has words in their order, with no more than some others in between them all.

    Example:
        >>> in_row(["a", "x", "b"], ["a", "b"], 1), in_row(["b", "a"], ["a", "b"], 2), in_row(["a"], ["a", "a"], 1)
        (True, False, False)
    """
    first, *others = wanted
    for start in (at for at, word in enumerate(text) if word == first):
        at, end = start, start + len(wanted) + slop
        for word in others:
            # The next one that is the same leaves the most room for those that follow.
            at = next((each for each in range(at + 1, min(end, len(text))) if text[each] == word), -1)
            if at < 0:
                break
        else:
            return True
    return False


def _plain(values: pa.Array, leaf: BoundLeaf) -> np.ndarray:
    match leaf:
        case Among(_, wanted):
            mask = pc.is_in(values, value_set=pa.array(wanted, values.type))
        case Between():
            mask = pc.is_valid(values)
            if leaf.low is not None:
                mask = pc.and_(mask, (pc.greater_equal if leaf.includes_low else pc.greater)(values, leaf.low))
            if leaf.high is not None:
                mask = pc.and_(mask, (pc.less_equal if leaf.includes_high else pc.less)(values, leaf.high))
        case Like(_, expression):
            mask = pc.match_substring_regex(values, rf"\A(?:{expression})\z")
        case HasValue():
            mask = pc.is_valid(values)
        case InRow(field, wanted, slop):
            texts = values.to_pylist()
            mask = pa.array(
                [each is not None and in_row(words(field.analyzer, each, None), wanted, slop) for each in texts]
            )
        case _:
            raise InputError(
                f"column {leaf.field.column!r} has values that are not in the index, and rows cannot answer this",
                condition="QUERY_INVALID",
                sides={"asked for": type(leaf).__name__, "from rows": "values, ranges and patterns"},
                next_step="Search for whole values or patterns in this column.",
            )
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
