"""What a companion needs of its source, whatever the format of that table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from halocline.formats.index.split.source_files import CompanionFile
from halocline.schema.types import Field, Struct


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
    def mark(self) -> str:
        """What a companion keeps of the source, to know this table, and this state of it, again."""

    def is_at(self, mark: str) -> bool:
        """Return whether the source has exactly the rows that it had at a mark."""

    def is_same(self, mark: str, files: Callable[[], Iterable[CompanionFile]]) -> bool:
        """Return whether a mark is of this table, and not of another one that lay at the same place.

        Args:
            mark: The mark.
            files: Gives the files of the source that the companion shows, for tables that nothing else identifies.
        """

    @property
    def schema(self) -> Struct:
        """Its columns."""

    def files(self) -> Iterable[IndexedFile]:
        """The files that hold its rows."""

    def rows(self, path: str, columns: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """All rows of a file in their order, deleted ones among them."""

    def deleted(self, path: str) -> Iterable[int]:
        """The numbers of the rows of a file that are deleted."""
