"""Patterns as regular expressions, in the form that the index, Arrow and Python all read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from halocline.formats.index.split.analyzers import lowered

ANYTHING: Final = "(.|\n)*"
_WILDCARDS: Final = {"*": ANYTHING, "?": "(.|\n)"}
_SIGNS: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")


def literally(text: str) -> str:
    r"""The expression for a text and nothing else.

    Example:
        >>> literally("a.b")
        'a\\.b'
    """
    return _SIGNS.sub(r"\\\g<0>", text)


def begins_with(text: str) -> str:
    """The expression for whatever begins with a text."""
    return literally(text) + ANYTHING


def expression(pieces: Iterable[tuple[str, bool]], *, lower: bool) -> str:
    """The expression for a pattern.

    Args:
        pieces: Its pieces, each with whether it is a wildcard.
        lower: Whether it is matched against words in lower case.
    """
    return "".join(_WILDCARDS[text] if wild else literally(lowered(text) if lower else text) for text, wild in pieces)
