"""The folders of partitions: a name and a value each, as Hive and Spark spell them.

They tell people and engines without a log where rows lie. A log alone decides what the values of a file are.
"""

from __future__ import annotations

import re
from typing import Final

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a folder's name says for null."""

_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNSAFE: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


def folder_name(name: str, value: str | None) -> str:
    """The folder for one partition value, as Spark would name it.

    Example:
        >>> folder_name("at", "10:00"), folder_name("at", None)
        ('at=10%3A00', 'at=__HIVE_DEFAULT_PARTITION__')
    """
    return f"{_escape(name)}={_escape(value) if value else NULL_FOLDER}"


def parse_folder(folder: str) -> tuple[str, str | None]:
    """The partition column and the value that a folder's name stands for.

    Example:
        >>> parse_folder("at=10%3A00")
        ('at', '10:00')
    """
    name, _, value = folder.partition("=")
    return unescaped(name), None if value == NULL_FOLDER else unescaped(value)


def unescaped(text: str) -> str:
    """The text that a part of a folder's name stands for."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)
