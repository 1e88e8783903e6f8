"""Merges the splits of one group into a new file; what is run for each group, wherever that is.

Nothing of the table changes here: the file is there afterwards, and the log does not name it yet.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from halocline.errors import HaloclineError, IncompatibleError, MalformedError, NotFoundError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.rows import live_rows
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.file import BuiltSplit, IndexFiles, SplitFile
from halocline.formats.index.split.library import library
from halocline.formats.index.split.masks import deleted_rows, write_masks
from halocline.formats.index.split.partition_nulls import has_exact_nulls, with_exact_nulls
from halocline.formats.index.split.presence import TermDigests
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.scratch import scratch_folder
from halocline.formats.index.split.source_files import files_of_all, source_files
from halocline.formats.index.split.stitch import common_fields, index_files, stitched
from halocline.formats.index.split.values import indexed_values
from halocline.formats.index.split.writer import (
    HEAP_BYTES,
    SplitWriter,
    term_digests,
    total_lengths,
)
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field
from halocline.storage.base import Store

T = TypeVar("T")
MANY_DELETED: Final = 0.1
"""From such a share of deleted rows on, the rows that are left are indexed again."""

_NAME: Final = "merged.split.parquet"


@dataclass(frozen=True)
class MergeTarget:
    """What merged splits of a table are like; a value that can be sent to wherever groups are merged.

    Attributes:
        columns: The columns of the table that splits hold.
        fields: What an index has of them.
    """

    columns: tuple[Field, ...]
    fields: tuple[IndexField, ...]

    @staticmethod
    def of(snapshot: IndexSnapshot) -> MergeTarget:
        """What splits of a table are like now."""
        metadata = snapshot.metadata
        columns = tuple(each for each in snapshot.schema.fields if each.name not in metadata.partition_columns)
        return MergeTarget(columns, snapshot.fields)


@dataclass(frozen=True)
class MergedGroup:
    """What became of a group.

    Attributes:
        sources: The splits that went into the new one, as they were.
        split: The new one; None if fewer than two could be used.
        how: `stitched`, `merged`, `indexed again`, or, of a companion, `indexed whole`, with the rows that are deleted.
        damaged: Why each of the others could not be used.
    """

    sources: tuple[SplitAdd, ...]
    split: SplitAdd | None = None
    how: str = ""
    damaged: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_deleted(self) -> bool:
        """Whether rows that were deleted are still in the new split, behind its mask."""
        return self.how != "indexed again"


def merge_group(
    store: Store,
    splits: Sequence[SplitAdd],
    target: MergeTarget,
    *,
    now_ms: int,
    scratch: str | None = None,
    heap_bytes: int = HEAP_BYTES,
    again: bool = False,
    into: Store | None = None,
    skips: bool = True,
) -> MergedGroup:
    """Writes the rows of several splits into one new split.

    Args:
        store: Where the table lies.
        splits: Splits of one partition.
        target: What splits of the table are like.
        now_ms: The present, in milliseconds since the epoch.
        scratch: A folder for indexes and the file while it is written.
        heap_bytes: The memory for indexing.
        again: Whether rows are indexed again in any case.
        into: Where the new split is to lie, if it becomes part of another table.
        skips: Whether a split that cannot be used is left out; otherwise it is an error.

    Raises:
        MalformedError: A split cannot be used, and is not to be left out.
        MissingExtraError: The library is not installed.
    """
    library()
    damaged: dict[str, str] = {}
    left = list(splits)
    while len(left) > (0 if again else 1):
        try:
            with scratch_folder("halocline-merge-", scratch) as folder:
                split, how = _merged(store, into or store, left, target, folder, now_ms, heap_bytes, again)
            return MergedGroup(tuple(left), split, how, damaged)
        except _Unusable as problem:
            if not skips and problem.__cause__ is not None:
                raise problem.__cause__ from None
            damaged[problem.split.path] = problem.reason
            left.remove(problem.split)
    return MergedGroup((), None, "", damaged)


class _Unusable(Exception):
    """A split cannot be merged."""

    def __init__(self, split: SplitAdd, error: HaloclineError) -> None:
        super().__init__(error.message)
        self.split = split
        self.reason = error.message


def _of(split: SplitAdd, action: Callable[[], T]) -> T:
    """What an action on one split gives, with the split named if it cannot be used."""
    try:
        return action()
    except (MalformedError, IncompatibleError, NotFoundError) as error:
        raise _Unusable(split, error) from error


def _merged(
    store: Store,
    into: Store,
    splits: Sequence[SplitAdd],
    target: MergeTarget,
    folder: str,
    now_ms: int,
    heap_bytes: int,
    again: bool,
) -> tuple[SplitAdd, str]:
    path = _new_path(splits[0])
    deleted = [len(_of(each, partial(deleted_rows, store, each))) for each in splits]
    total = sum(each.num_records or 0 for each in splits)
    with ExitStack() as scope:
        opened = [] if again else [_opened(scope, store, each, folder) for each in splits]
        whole = any(source_files(each) is not None for each in splits)
        worn = not whole and sum(deleted) >= MANY_DELETED * total > 0
        fields = None if again or worn else _common(opened, splits, target)
        if fields is None:
            built = _indexed_again(store, splits, target, folder, heap_bytes, whole=whole)
            how = "indexed whole" if whole else "indexed again"
        else:
            built, how = _stitched(opened, splits, target, fields, folder, heap_bytes)
    with open(os.path.join(folder, _NAME), "rb") as file:
        into.put_if_absent(path, file.read())
    added = built.added(path, splits[0].partition_values, now_ms)
    if all(has_exact_nulls(each, each.partition_values) for each in splits):
        added = with_exact_nulls(added)
    ops = 1 + max(each.num_merge_ops or 0 for each in splits)
    added = files_of_all(replace(added, data_change=False, num_merge_ops=ops), splits)
    return (added if how == "indexed again" else masked_like(store, added, splits)), how


def masked_like(store: Store, merged: SplitAdd, sources: Sequence[SplitAdd]) -> SplitAdd:
    """A merged split that keeps deleted rows, with the masks of its sources as they are now."""
    offset, gone = 0, []
    for each in sources:
        gone += (deleted_rows(store, each) + offset).tolist()
        offset += each.num_records or 0
    if not gone:
        return merged
    (masked,) = write_masks(store, [(merged, gone)])
    return replace(masked, data_change=False)


def masked_since(store: Store, merged: SplitAdd, before: Sequence[SplitAdd], now: Sequence[SplitAdd]) -> SplitAdd:
    """A merged split that has only rows that were left, with those masked that were deleted since."""
    offset, gone = 0, []
    for old, new in zip(before, now, strict=True):
        known = deleted_rows(store, old)
        later = np.setdiff1d(deleted_rows(store, new), known)
        gone += (later - np.searchsorted(known, later) + offset).tolist()
        offset += (old.num_records or 0) - len(known)
    if not gone:
        return merged
    (masked,) = write_masks(store, [(merged, gone)])
    return replace(masked, data_change=False)


def _opened(scope: ExitStack, store: Store, split: SplitAdd, folder: str) -> OpenedSplit:
    opened = _of(split, partial(OpenedSplit.of, store, split, scratch=folder))
    return scope.enter_context(opened)


def _common(opened: Sequence[OpenedSplit], splits: Sequence[SplitAdd], target: MergeTarget) -> list[IndexField] | None:
    for each, split in zip(opened, splits, strict=True):
        try:
            _of(split, partial(getattr, each, "index"))
        except _Unusable as problem:
            if not isinstance(problem.__cause__, IncompatibleError):
                raise
            return None
    return common_fields(opened, target.fields)


def _indexed_again(
    store: Store, splits: Sequence[SplitAdd], target: MergeTarget, folder: str, heap_bytes: int, *, whole: bool
) -> BuiltSplit:
    schema = arrow_schema(target.columns)
    with (
        open(os.path.join(folder, _NAME), "wb") as sink,
        SplitWriter(sink, schema, target.fields, scratch=folder, heap_bytes=heap_bytes) as writer,
    ):
        for split in splits:
            # The rows of a companion's files keep their numbers, so those that are deleted stay among them.
            rows = live_rows(store, replace(split, deletion_mask=None) if whole else split, target.columns)
            while (batch := _of(split, partial(next, rows, None))) is not None:
                writer.write(batch)
        return writer.close()


def _stitched(
    opened: Sequence[OpenedSplit],
    splits: Sequence[SplitAdd],
    target: MergeTarget,
    fields: Sequence[IndexField],
    folder: str,
    heap_bytes: int,
) -> tuple[BuiltSplit, str]:
    inside = {each.column for each in fields}
    columns = [each for each in target.columns if each.name in inside]
    schema = arrow_schema(columns)
    wordy = [each for each in fields if each.kind.is_words and not each.hashed]
    terms = TermDigests(folder)
    with open(os.path.join(folder, _NAME), "wb") as sink:
        file = SplitFile(sink, schema)
        for source, split in zip(opened, splits, strict=True):
            rows = source.batches([name for name in schema.names if name in source.parquet.schema.names])
            while (batch := _of(split, partial(next, rows, None))) is not None:
                whole = _with_columns(batch, schema)
                file.write(whole)
                for each in wordy:
                    terms.add(term_digests(each, indexed_values(each, whole.column(each.column))[0]))
        together = tempfile.mkdtemp(dir=folder)
        parts, physically = stitched(opened, together, heap_bytes=heap_bytes)
        names = index_files(together)
        unindexed: Counter[str] = Counter()
        for source in opened:
            unindexed.update(source.layout.unindexed)
        files = IndexFiles(
            folder=together,
            names=names,
            fields=fields,
            parts=parts,
            unindexed=dict(unindexed),
            lengths=total_lengths(together, fields),
            terms=terms.made().to_bytes(),
        )
        return file.finish(files), "merged" if physically else "stitched"


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(each.name).cast(each.type) if each.name in batch.schema.names else pa.nulls(len(batch), each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _new_path(split: SplitAdd) -> str:
    folder = split.path.rpartition("/")[0] if "://" not in split.path else ""
    return f"{folder}/part-{uuid.uuid4()}.split.parquet".lstrip("/")
