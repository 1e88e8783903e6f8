"""Companion indexes: an index table over the rows of another table, kept up to date by its versions.

The *source* is a table of another format. Its companion is an index table of its own, elsewhere, with a split for each
file of the source and the columns that were chosen; it says what it belongs to in its properties. The version of the
source that it shows is recorded with every commit. Merging puts the splits of several files together.

Bringing it up to date costs what changed: files that are new are indexed, and rows that the source has deleted in place
are masked, for the rows of a file are numbered as they are in it. A file that changed in another way is indexed again.
Of a file that is gone all rows are masked; a split with more such rows than others is removed, and what is left of its
files is indexed again. All of it is one commit, so a companion shows one version of its source or another, and never
something in between.

A companion is *fresh* if it shows the version that the source has. Whether an old one may answer is the caller's to
say: with `stale="refuse"` it does not.

The limit: the columns that were chosen are in the splits as well, as in every split of ours.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from halocline.errors import ConflictError, InputError, NotFoundError, nearest
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import IndexTxn, SplitAdd, SplitRemove
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY, IndexField, fields_of
from halocline.formats.index.split.masks import deleted_rows, write_masks
from halocline.formats.index.split.source_files import CompanionFile, source_files, with_source_files
from halocline.formats.index.split.writer import SplitWriter
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Struct
from halocline.storage.base import Store

SOURCE_KEY: Final = "halocline.companion.source"
FORMAT_KEY: Final = "halocline.companion.format"
_APPLICATION: Final = "halocline.companion"
_TRIES: Final = 3
_MOST_GONE: Final = 0.5
"""The share of rows whose files are gone up to which a split stays."""


@dataclass(frozen=True)
class IndexedFile:
    """A file of the source at a version, or what else its rows lie in together.

    Attributes:
        path: What it is known by.
        state: What tells this content from another one of the same path.
        masked: What tells which of its rows are deleted; None if none is.
    """

    path: str
    state: str = ""
    masked: str | None = None


class IndexedSource(Protocol):
    """A table of any format, at a version, as far as its companion needs it."""

    @property
    def url(self) -> str:
        """Where it lies."""

    @property
    def format(self) -> str:
        """Its format."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def schema(self) -> Struct:
        """Its columns."""

    def files(self) -> Iterable[IndexedFile]:
        """The files that hold its rows."""

    def rows(self, path: str, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """All rows of a file in their order, deleted ones among them."""

    def deleted(self, path: str) -> Iterable[int]:
        """The numbers of the rows of a file that are deleted."""


@dataclass(frozen=True)
class Companion:
    """What a companion says of itself.

    Attributes:
        source: The URL of the table that it belongs to.
        format: The format of that table.
        version: The version of it that it shows; None if it is still empty.
    """

    source: str
    format: str
    version: int | None

    @staticmethod
    def of(snapshot: IndexSnapshot) -> Companion | None:
        """What an index table belongs to; None if it holds rows of its own."""
        said = snapshot.metadata.configuration
        if SOURCE_KEY not in said:
            return None
        return Companion(said[SOURCE_KEY], said.get(FORMAT_KEY, ""), snapshot.txn_version(_APPLICATION))


@dataclass(frozen=True)
class CompanionChanges:
    """What has to happen so that a companion shows a version of its source.

    Attributes:
        new: Files to index.
        masked: Splits with files that have lost more rows, each with its files as they are now, None for one that is
            gone or is indexed again.
        gone: Splits of files that are gone, or that are indexed again.
        kept: How many splits stay as they are.
    """

    new: tuple[IndexedFile, ...]
    masked: tuple[tuple[SplitAdd, tuple[IndexedFile | None, ...]], ...]
    gone: tuple[SplitAdd, ...]
    kept: int


def companion_changes(snapshot: IndexSnapshot, files: Iterable[IndexedFile]) -> CompanionChanges:
    """What has to change in a companion.

    Args:
        snapshot: The companion.
        files: The files of the source at the version that it is to show.

    Raises:
        InputError: A split belongs to no file of a source.
        MalformedError: The log does not say which.
    """
    left = {each.path: each for each in files}
    masked, gone, kept = [], [], 0
    for split in snapshot.files.values():
        before = source_files(split)
        if not before:
            raise InputError(
                f"{split.path} is a split of rows and not of a companion",
                sides={"table": snapshot.store.root, "split": split.path},
                next_step="Make the companion anew, and write to its source only.",
            )
        now = tuple(_unchanged(each, left) for each in before)
        lost = sum(each.rows for each, file in zip(before, now, strict=True) if file is None)
        if lost > _MOST_GONE * (split.num_records or 0) or not any(now):
            gone.append(split)
            continue
        for file in now:
            if file is not None:
                del left[file.path]
        states = [(None, None) if file is None else (file.path, file.masked) for file in now]
        if states == [(each.path, each.masked) for each in before]:
            kept += 1
        else:
            masked.append((split, now))
    return CompanionChanges(tuple(left.values()), tuple(masked), tuple(gone), kept)


def _unchanged(before: CompanionFile, files: Mapping[str, IndexedFile]) -> IndexedFile | None:
    """The file as it is now; None if it is gone, or is another one."""
    found = None if before.path is None else files.get(before.path)
    return found if found is not None and found.state == before.state else None


def create_companion(
    store: Store, source: IndexedSource, columns: Sequence[str], *, options: Mapping[str, Any] | None = None
) -> IndexSnapshot:
    """Makes an empty companion.

    Args:
        store: Where it is to lie.
        source: The table that it belongs to.
        columns: The columns that are to be searched.
        options: How columns are indexed; see `halocline.formats.index.split.fields`.

    Raises:
        AlreadyExistsError: There is a table already.
        InputError: An option cannot be had for a column.
        NotFoundError: The source has no such column.
    """
    known = {each.name: each for each in source.schema.fields}
    for name in columns:
        if name not in known:
            near = nearest(name, known)
            raise NotFoundError(
                f"{source.url} has no column {name!r}",
                condition="COLUMN_NOT_FOUND",
                sides={"asked for": name, "source has": ", ".join(list(known)[:20])},
                next_step=f"Did you mean {near}?" if near else "Use one of them.",
            )
    schema = Struct([Field(each.name, each.type) for each in source.schema.fields if each.name in columns])
    said = {SOURCE_KEY: source.url, FORMAT_KEY: source.format, OPTIONS_KEY: json.dumps(dict(options or {}))}
    fields_of(schema, said)
    IndexTransaction.create(store, schema, configuration=said).commit([], "CREATE COMPANION", source=source.url)
    return IndexSnapshot.load(store)


@dataclass(frozen=True)
class CompanionTarget:
    """What splits of a companion are like; a value that can be sent to wherever files are indexed.

    Attributes:
        store: Where the companion lies.
        columns: Its columns.
        fields: What an index has of them.
        version: The version of the source.
    """

    store: Store
    columns: tuple[Field, ...]
    fields: tuple[IndexField, ...]
    version: int

    @staticmethod
    def of(snapshot: IndexSnapshot, version: int) -> CompanionTarget:
        """What splits of a companion are like now."""
        fields = fields_of(snapshot.schema, snapshot.metadata.configuration)
        return CompanionTarget(snapshot.store, tuple(snapshot.schema.fields), fields, version)

    def indexed(
        self,
        file: IndexedFile,
        batches: Iterable[pa.RecordBatch],
        deleted: Iterable[int],
        *,
        scratch: str | None = None,
    ) -> SplitAdd | None:
        """Indexes a file of the source; None if it has no rows.

        Args:
            file: The file.
            batches: All of its rows, in their order.
            deleted: The numbers of those that are deleted.
            scratch: A folder for the index while it grows.
        """
        schema = arrow_schema(self.columns)
        with tempfile.TemporaryDirectory(prefix="halocline-companion-", dir=scratch) as folder:
            name = os.path.join(folder, "companion.split.parquet")
            with open(name, "wb") as sink, SplitWriter(sink, schema, self.fields, scratch=folder) as writer:
                for batch in batches:
                    writer.write(pa.RecordBatch.from_arrays([_fitted(batch, each) for each in schema], schema=schema))
                built = writer.close()
            if not built.layout.rows:
                return None
            path = f"part-{uuid.uuid4()}.split.parquet"
            with open(name, "rb") as whole:
                self.store.put_if_absent(path, whole.read())
        added = built.added(path, {}, time.time_ns() // 1_000_000)
        split = with_source_files(added, [CompanionFile(file.path, built.layout.rows, file.state)], self.version)
        return self.masked(split, [file], lambda _: deleted)

    def masked(
        self,
        split: SplitAdd,
        files: Sequence[IndexedFile | None],
        deleted: Callable[[str], Iterable[int]],
    ) -> SplitAdd:
        """A split with exactly those rows deleted that its files have deleted, and those of files that are gone.

        Args:
            split: The split.
            files: Its files as they are now; None for one that is gone.
            deleted: The numbers of the rows of a file that are deleted, by its path.
        """
        known, gone, offset = [], list[int](), 0
        for before, file in zip(source_files(split) or (), files, strict=True):
            if file is None:
                gone += range(offset, offset + before.rows)
                known.append(CompanionFile(None, before.rows))
            else:
                gone += sorted(number + offset for number in deleted(file.path))
                known.append(CompanionFile(file.path, before.rows, file.state, file.masked))
            offset += before.rows
        plain = replace(with_source_files(split, known, self.version), deletion_mask=None)
        return write_masks(self.store, [(plain, gone)])[0] if gone else plain


def sync_companion(
    snapshot: IndexSnapshot,
    load: Callable[[], IndexedSource],
    *,
    scratch: str | None = None,
) -> IndexSnapshot:
    """Brings a companion up to date with the newest version of its source, file by file, in this process.

    Args:
        snapshot: The companion.
        load: Opens the newest version of the source.
        scratch: A folder for indexes while they grow.

    Raises:
        ConflictError: Others brought it up to date again and again meanwhile.
        InputError: The table is no companion, or of another source, or the source has lost a column.
    """
    for attempt in range(_TRIES):
        source = load()
        check_source(snapshot, source)
        if is_fresh(snapshot, source.version):
            return snapshot
        changes = companion_changes(snapshot, source.files())
        target = CompanionTarget.of(snapshot, source.version)
        indexed = [
            target.indexed(each, source.rows(each.path, target.columns), source.deleted(each.path), scratch=scratch)
            for each in changes.new
        ]
        masked = [(split, target.masked(split, files, source.deleted)) for split, files in changes.masked]
        try:
            commit_companion(snapshot, source.version, changes, [each for each in indexed if each], masked)
            return snapshot.newest()
        except ConflictError:
            # Somebody else did the same; what is left of it is found on top of theirs.
            snapshot.store.delete_many(each.path for each in indexed if each)
            snapshot = snapshot.newest()
            if attempt + 1 == _TRIES:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def commit_companion(
    snapshot: IndexSnapshot,
    version: int,
    changes: CompanionChanges,
    indexed: Sequence[SplitAdd],
    masked: Sequence[tuple[SplitAdd, SplitAdd]],
) -> int:
    """Commits what brings a companion to a version of its source.

    Args:
        snapshot: The companion that the changes were worked out for.
        version: The version of the source.
        changes: What had to change.
        indexed: The new splits.
        masked: Splits before and after rows of theirs were deleted.

    Raises:
        ConflictError: Somebody else changed the companion meanwhile.
    """
    now_ms = time.time_ns() // 1_000_000
    actions: list[SplitAdd | SplitRemove | IndexTxn] = [IndexTxn(_APPLICATION, version, now_ms), *indexed]
    actions += (removal(each, now_ms) for each in changes.gone)
    for before, after in masked:
        if _grows(snapshot.store, before, after):
            actions.append(after)
        else:
            # Rows came back, which no mask says: the same file, under the name of another split.
            path = f"part-{uuid.uuid4()}.split.parquet"
            snapshot.store.put_if_absent(path, snapshot.store.get(before.path))
            actions += (removal(before, now_ms), replace(after, path=path))
    transaction = IndexTransaction(snapshot.reopened("write"), reads_all=True)
    return transaction.commit(actions, "SYNC COMPANION", sourceVersion=version)


def is_fresh(snapshot: IndexSnapshot, version: int) -> bool:
    """Whether a companion shows that version of its source."""
    found = Companion.of(snapshot)
    return found is not None and found.version == version


def check_fresh(snapshot: IndexSnapshot, version: int, *, stale: str = "refuse") -> None:
    """Returns if a companion may answer for a version of its source.

    Args:
        snapshot: The companion.
        version: The version that the source has.
        stale: `refuse`, or `allow` answers of an older version.

    Raises:
        ConflictError: It shows another version.
        InputError: The table is no companion, or there is no such choice.
    """
    if stale not in ("refuse", "allow"):
        raise InputError(
            f"stale is refuse or allow, and not {stale!r}",
            condition="ARGUMENT_INVALID",
            sides={"given": stale, "possible": "refuse, allow"},
            next_step=f"Did you mean {nearest(stale, ('refuse', 'allow')) or 'refuse'}?",
        )
    found = companion_of(snapshot)
    if stale == "refuse" and found.version != version:
        raise ConflictError(
            f"{snapshot.store.root} does not show the version that {found.source} has",
            condition="COMPANION_STALE",
            sides={"source": f"version {version}", "companion": f"version {found.version}"},
            next_step="Bring the companion up to date, or allow stale answers.",
        )


def check_own_rows(snapshot: IndexSnapshot) -> None:
    """Makes sure that a table has rows of its own, which may be written.

    Raises:
        InputError: It is a companion.
    """
    found = Companion.of(snapshot)
    if found is not None:
        raise InputError(
            f"{snapshot.store.root} is a companion, and has the rows of its source and no others",
            sides={"companion of": found.source, "asked for": "rows written to it, or deleted"},
            next_step=f"Change the rows of {found.source}, then bring the companion up to date: table.sync().",
        )


def check_source(snapshot: IndexSnapshot, source: IndexedSource) -> None:
    """Makes sure that a companion belongs to a source, which still has its columns.

    Raises:
        InputError: It does not, or they changed.
    """
    found = companion_of(snapshot)
    known = {each.name: each.type for each in source.schema.fields}
    other = [each.name for each in snapshot.schema.fields if known.get(each.name) != each.type]
    if found.source != source.url or other:
        raise InputError(
            f"{snapshot.store.root} is no companion of {source.url} as it is",
            sides={
                "companion of": found.source,
                "changed columns": ", ".join(other) or "none",
            },
            next_step="Make the companion anew.",
        )


def companion_of(snapshot: IndexSnapshot) -> Companion:
    """What a companion says of itself.

    Raises:
        InputError: The table is none.
    """
    found = Companion.of(snapshot)
    if found is None:
        raise InputError(
            f"{snapshot.store.root} holds rows of its own and is no companion",
            sides={"table": snapshot.store.root, "wanted": f"the property {SOURCE_KEY}"},
            next_step="Search it as it is.",
        )
    return found


def _grows(store: Store, before: SplitAdd, after: SplitAdd) -> bool:
    """Whether rows only went, so that a mask in place of another says it."""
    if after.deletion_mask is None:
        return False
    return bool(np.isin(deleted_rows(store, before), deleted_rows(store, after)).all())


def _fitted(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    return batch.column(field.name).cast(field.type)
