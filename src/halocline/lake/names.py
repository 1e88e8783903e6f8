"""Names of tables in a lake: parts joined by dots, as in SQL.

A part that holds a dot or a backtick stands in backticks, and a backtick in it is doubled. Names are told apart as they
are written; one that fits only but for its case is taken where no other fits as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from halocline.errors import InputError, NotFoundError, nearest

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def name_of(parts: Iterable[str]) -> str:
    """The name that parts make.

    Example:
        >>> name_of(["sales", "orders"]), name_of(["v1.2", "my-table"])
        ('sales.orders', '`v1.2`.my-table')
    """
    return ".".join(f"`{part.replace('`', '``')}`" if set(part) & set(".`") else part for part in parts)


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name.

    Example:
        >>> parts_of("sales.`v1.2`")
        ('sales', 'v1.2')
    """
    parts, at = list[str](), 0
    while match := _PART.match(name, at):
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        at = match.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    raise InputError(
        f"{name!r} is not the name of a table",
        sides={"given": name, "expected": "parts joined by dots, such as sales.orders or sales.`v1.2`"},
    )


def found_name(name: str, known: Sequence[str], lake: str) -> str:
    """The known name that a text means.

    Raises:
        NotFoundError: There is no such table, or more than one.
    """
    wanted = name_of(parts_of(name))
    if wanted in known:
        return wanted
    alike = [each for each in known if each.casefold() == wanted.casefold()]
    if len(alike) == 1:
        return alike[0]
    near = ", ".join(alike) or nearest(wanted, known) or "none"
    raise NotFoundError(
        f"{lake} has no table {wanted}",
        condition="TABLE_NOT_FOUND",
        sides={"asked for": wanted, "nearest": near, "tables": f"{len(known):,}"},
        next_step="Write it as it is spelt there." if alike else "See the names of all: halocline survey LAKE",
    )
