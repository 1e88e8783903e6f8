"""The partition that rows without a value share with rows of empty text.

Hudi has one folder for both, and the rows alone tell them apart. So whoever replaces or deletes that partition for the
sake of the one takes the rows of the other as well, and is told.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import pyarrow as pa

from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.partition_folders import DEFAULT_PARTITION


class SharedPartitionWarning(UserWarning):
    """A partition was replaced or deleted that rows of empty text share with rows without a value."""


def warn_of_shared(config: HudiTableConfig, columns: pa.Schema, paths: Iterable[str], url: str) -> None:
    """Warn if rows go that lie in a partition of both empty text and null.

    Args:
        config: What the table is.
        columns: Its columns.
        paths: The partitions whose rows are replaced or deleted.
        url: Where the table lies.
    """
    names = [each.name for each in config.partition_fields if _is_text(columns, each.name)]
    ends = {piece.rpartition("=")[2] if config.hive_style else piece for path in paths for piece in path.split("/")}
    if names and DEFAULT_PARTITION in ends:
        warnings.warn(
            f"{url}: partition {DEFAULT_PARTITION} goes whole: Hudi keeps rows whose {' or '.join(names)} is empty "
            "text in the same folder as rows where it is null. "
            f"To take one kind only: table.delete(\"{names[0]} = ''\")",
            SharedPartitionWarning,
            stacklevel=2,
        )


def _is_text(columns: pa.Schema, name: str) -> bool:
    place = columns.get_field_index(name)
    type = columns.field(place).type if place >= 0 else pa.null()
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))
