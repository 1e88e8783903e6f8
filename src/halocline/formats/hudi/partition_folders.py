"""Folders of partitions that clients would take for something else, or that they would take another value from.

Values become folders as Apache Hudi writes them, so what it cannot read back is refused before a row is written. Its
readers take the value from the folder, not from the rows, and unescape it. Measured with Apache Hudi 0.15.0 and 1.2.0
on Spark and with hudi-rs 0.5.0, whatever the client that wrote the table:

| in a path | what comes of it |
|---|---|
| `.hoodie` | the folder of the timeline: rows are left out, or the table is refused |
| `.`, `..`, nothing | another folder, outside the table maybe |
| `metadata` or `_delta_log` at its begin | hudi-rs takes it for the folder of another format, and leaves the rows out |
| `:` | Apache Hudi cannot read the table any more |
| control characters | hudi-rs cannot read the table any more |
| `%2F` and the like, in a table that does not escape values | Apache Hudi shows `/` |
| `=` in a table that neither escapes nor names values | Apache Hudi shows what is behind it |
| `/` in one of several values that are not escaped | Apache Hudi cannot tell the values apart |

A real value that is Hive's name for null is null to all of them. A store's own limits, such as 255 bytes for a name on
a local disk, are told by the store when the partition is made, which is before its rows.
"""

from __future__ import annotations

import re
from typing import Final

from halocline.errors import ConstraintError
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType
from halocline.formats.hudi.properties import FOLDER

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a folder's name says for null, and for empty text."""

_LOST: Final = "clients would look for the rows in another folder"
_NO_FOLDERS: Final = frozenset({"", ".", ".."})
_OTHER_FORMATS: Final = frozenset({"metadata", "_delta_log"})
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")


def check_folder(value: object, piece: str, number: int, config: HudiTableConfig) -> None:
    """Refuse a value whose part of a partition path would be taken for something else.

    Args:
        value: The value.
        piece: What it becomes in the path.
        number: The number of its partition field.
        config: What the table is.

    Raises:
        ConstraintError: It would; the reason is named.
    """
    field = config.partition_fields[number]
    problem = "it is the name that null has" if value == DEFAULT_PARTITION else folder_problem(piece, number, config)
    if problem is None:
        return
    escaping = "url_encoded=True, hive_style=True" if not (config.url_encoded and config.hive_style) else ""
    raise ConstraintError(
        f"{value!r:.200} of column {field.name} cannot be the name of a partition of {config.name}: {problem}",
        sides={"row": f"{field.name} = {value!r:.200}", "partition path": f"{piece!r:.200}"},
        next_step="Give the rows another value"
        + (f", or create the table with {escaping}." if escaping and value != DEFAULT_PARTITION else "."),
    )


def path_problem(path: str, config: HudiTableConfig) -> str | None:
    """Return what is the matter with the partition path of a table that is there; None if nothing is."""
    count = len(config.partition_fields)
    if not count:
        return None
    if has_unescaped_times(path, config):
        return "its times are not escaped, as an earlier release of Halocline left them; others look for it elsewhere"
    pieces = path.split("/") if count > 1 else [path]
    if len(pieces) != count and all(_is_of_value(number, config) for number in range(count)):
        return "its values cannot be told apart"
    numbered = enumerate(pieces if len(pieces) == count else [path])
    return next((found for number, piece in numbered if (found := folder_problem(piece, number, config))), None)


def has_unescaped_times(path: str, config: HudiTableConfig) -> bool:
    """Return whether a path is made of times and not escaped, in a table whose paths are.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> pairs |= {"hoodie.table.keygenerator.type": "TIMESTAMP", "hoodie.table.partition.fields": "d"}
        >>> pairs |= {"hoodie.datasource.write.partitionpath.urlencode": "true"}
        >>> has_unescaped_times("2026/11/15", HudiTableConfig.parse(pairs, "t"))
        True
    """
    made_of_times = not all(_is_of_value(number, config) for number in range(len(config.partition_fields)))
    return config.url_encoded and made_of_times and (path.count("/") >= len(config.partition_fields) or ":" in path)


def folder_problem(piece: str, number: int, config: HudiTableConfig) -> str | None:
    """Return what is the matter with one field's part of a path.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> config = HudiTableConfig.parse(pairs | {"hoodie.table.partition.fields": "d"}, "t")
        >>> folder_problem(".hoodie", 0, config)
        'it is the folder of the timeline'
    """
    folders = piece.split("/")
    if FOLDER in folders:
        return "it is the folder of the timeline"
    if not _NO_FOLDERS.isdisjoint(folders):
        return _LOST
    if number == 0 and folders[0] in _OTHER_FORMATS:
        return "hudi-rs takes that folder for one of another table format and leaves the rows out"
    if ":" in piece:
        return "Apache Hudi reads no table that has a partition with a colon"
    if _CONTROL.search(piece):
        return "hudi-rs reads no table that has a partition with a control character"
    return _value_problem(piece, config) if _is_of_value(number, config) and not config.url_encoded else None


def _value_problem(piece: str, config: HudiTableConfig) -> str | None:
    """Return why Apache Hudi would read another value back from a part of a path that is not escaped."""
    several = len(config.partition_fields) > 1
    if several and "/" in piece:
        return "the values of several fields could not be told apart"
    if _ESCAPED.search(piece):
        return "Apache Hudi would show it with its escapes replaced"
    if "=" in piece and not config.hive_style and (several or "/" not in piece):
        return "Apache Hudi would show only what is behind the equals sign"
    return None


def _is_of_value(number: int, config: HudiTableConfig) -> bool:
    """Whether a field's part of the path is its value, and not made of a time."""
    if config.key_generator is KeyGeneratorType.CUSTOM:
        return config.partition_fields[number].kind == "SIMPLE"
    return config.key_generator is not KeyGeneratorType.TIMESTAMP
