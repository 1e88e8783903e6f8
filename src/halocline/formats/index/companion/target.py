"""Files of a source become splits of its companion, with the rows that are deleted masked."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from msgspec.structs import replace

from halocline.formats.index.companion.source import IndexedFile
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.masks import write_masks
from halocline.formats.index.split.source_files import CompanionFile, source_files, with_source_files
from halocline.formats.index.split.writer import SplitWriter
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field
from halocline.storage.base import Store


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
        return CompanionTarget(snapshot.store, tuple(snapshot.schema.fields), snapshot.fields, version)

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


def _fitted(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    return batch.column(field.name).cast(field.type)
