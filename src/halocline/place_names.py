"""How people are told where a table lies: a local place by its path, and a bucket by its URL.

Stores and programs have a URL for every place. People who gave `lake/orders` look for that, so whatever is written for
them (errors, plans, reprs, progress) names places here. A command line also knows how a place was called and sets
`naming`. What programs are told (`to_dict`, `--output json`, a fleet) stays a URL.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final
from urllib.parse import unquote

_LOCAL_URL: Final = re.compile(r"\bfile:(?:///|/)(?![/\s])[^\s\"'`]*[^\s\"'`.,:;)\]]")


def _path(url: str) -> str:
    return "/" + unquote(url.removeprefix("file:"), errors="surrogateescape").lstrip("/")


naming: ContextVar[Callable[[str], str]] = ContextVar("naming", default=_path)
"""Gives the URL of a local place the name that people have for it."""


def place_name(url: str) -> str:
    """One place as people write it.

    Example:
        >>> place_name("file:///data/my%20lake"), place_name("s3://lake/orders")
        ('/data/my lake', 's3://lake/orders')
    """
    return naming.get()(url) if _LOCAL_URL.fullmatch(url) else url


def with_place_names(text: str) -> str:
    """A text in which each URL of a local place is its name, quoted where a shell would need it.

    Example:
        >>> with_place_names("no table at file:///data/lake/orders.")
        'no table at /data/lake/orders.'
    """
    return _LOCAL_URL.sub(lambda found: shlex.quote(naming.get()(found[0])), text) if "file:/" in text else text
