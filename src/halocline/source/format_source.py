"""What the data source asks of a format, so that it does the same for tables of every one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from halocline.schema.types import Struct
from halocline.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
    )
    from pyspark.sql.types import StructType


class FormatSource(ABC):
    """Readers and writers of the tables of one format.

    Attributes:
        options: The options that mean something for them.
    """

    options: ClassVar[frozenset[str]]

    @abstractmethod
    def columns(self, asked: SourceOptions) -> tuple[Struct, int]:
        """The columns that are shown, and the version that they are of."""

    @abstractmethod
    def reader(self, asked: SourceOptions, schema: StructType, version: int | None) -> DataSourceReader:
        """Reads the rows of a version, or the changes of several."""

    @abstractmethod
    def writer(self, asked: SourceOptions, schema: Struct, *, overwrite: bool) -> DataSourceArrowWriter:
        """Appends rows, or puts them in place of all others."""

    @abstractmethod
    def stream_reader(self, asked: SourceOptions, schema: StructType, version: int | None) -> DataSourceStreamReader:
        """Reads what is added, version by version."""

    @abstractmethod
    def stream_writer(self, asked: SourceOptions, schema: Struct, *, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, each once."""
