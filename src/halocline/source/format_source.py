"""What the data source asks of a format, so that it does the same for tables of every one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class FormatSource:
    """Readers and writers of the tables of one format.

    Attributes:
        options: The options that mean something for them.
        columns: The columns that are shown, and the version that they are of.
        reader: Reads the rows of a version, or the changes of several.
        writer: Appends rows, or puts them in place of all others; takes `overwrite`.
        stream_reader: Reads what is added, version by version.
        stream_writer: Appends micro-batches, each once; takes `overwrite`.
    """

    options: frozenset[str]
    columns: Callable[[SourceOptions], tuple[Struct, int]]
    reader: Callable[[SourceOptions, StructType, int | None], DataSourceReader]
    writer: Callable[..., DataSourceArrowWriter]
    stream_reader: Callable[[SourceOptions, StructType, int | None], DataSourceStreamReader]
    stream_writer: Callable[..., DataSourceStreamWriter]
