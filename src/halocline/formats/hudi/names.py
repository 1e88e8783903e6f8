"""The names of data files: which file group and slice a file belongs to.

A base file is `<file id>_<write token>_<instant>.<format>`, a log file
`.<file id>_<instant>.log.<version>_<write token>`, with `.cdc` behind it for change data. The instant of a log file is
that of the slice in layout 1, and that of the write in layout 2. The *write token* names the attempt that wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_BASE: Final = re.compile(r"(?P<id>[^_/.][^_/]*)_(?P<token>[^_/]*)_(?P<instant>\d+)\.(?P<format>[a-z]+)")
_LOG: Final = re.compile(
    r"\.(?P<id>[^/]+)_(?P<instant>\d+)\.log\.(?P<version>\d+)(?:_(?P<token>\d+-\d+-\d+))?(?P<change>\.cdc)?"
)
_FORMATS: Final = frozenset({"parquet", "orc", "hfile", "lance"})


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A file with all rows of a file group, as of an instant.

    Attributes:
        path: Its path below the table's root.
        partition: The partition path.
        file_id: The file group.
        instant: The instant that wrote it.
        token: The attempt that wrote it.
        format: Its format, e.g. `parquet`.
        size: Its size in bytes.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    token: str
    format: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with changes to a file group.

    Attributes:
        path: Its path below the table's root.
        partition: The partition path.
        file_id: The file group.
        instant: The instant in its name.
        version: Its number among the log files of that instant.
        token: The attempt that wrote it; empty if the name does not say.
        is_change_data: Whether it tells how rows changed, instead of holding rows of the table.
        size: Its size in bytes.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    version: int
    token: str = ""
    is_change_data: bool = False
    size: int = 0


def parse_data_file(path: str, size: int = 0) -> BaseFile | LogFile | None:
    """What a file below the table's root is; None if it is no data file.

    Example:
        >>> parse_data_file("eu/.a-0_20250101000000000.log.2_0-1-2").version
        2
        >>> parse_data_file("eu/a-0_0-1-2_20250101000000000.parquet").partition
        'eu'
    """
    partition, _, name = path.rpartition("/")
    found = _BASE.fullmatch(name)
    if found and found["format"] in _FORMATS:
        return BaseFile(path, partition, found["id"], found["instant"], found["token"], found["format"], size)
    found = _LOG.fullmatch(name)
    if found is None:
        return None
    token, change = found["token"] or "", bool(found["change"])
    return LogFile(path, partition, found["id"], found["instant"], int(found["version"]), token, change, size)


def base_file_name(file_id: str, token: str, instant: str, format: str = "parquet") -> str:
    """The name of a base file.

    Example:
        >>> base_file_name("a-0", "0-1-2", "20250101000000000")
        'a-0_0-1-2_20250101000000000.parquet'
    """
    return f"{file_id}_{token}_{instant}.{format}"


def log_file_name(file_id: str, instant: str, version: int, token: str) -> str:
    """The name of a log file.

    Example:
        >>> log_file_name("a-0", "20250101000000000", 1, "0-1-2")
        '.a-0_20250101000000000.log.1_0-1-2'
    """
    return f".{file_id}_{instant}.log.{version}_{token}"
