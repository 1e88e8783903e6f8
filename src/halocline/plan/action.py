"""What is done to a table, as a value that reads like a command: `enable deletionVectors`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from halocline.compat.features import feature
from halocline.compat.terms import Terms
from halocline.errors import MalformedError

_KEPT, _TRUNCATED = " (history kept)", " (history truncated)"
_TEXT: Final = re.compile(
    r"(?:(?P<verb>enable|drop) (?P<names>[^()]+?)(?P<way> \(history (?:kept|truncated)\))?"
    r"|move to table version (?P<version>\d+))"
)


class Verb(StrEnum):
    """The kinds of things that are done to tables."""

    ENABLE = "enable"
    DROP = "drop"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class TableAction:
    """One thing to do to a table.

    Attributes:
        verb: What kind.
        names: The features to enable or to drop.
        truncate: Whether old versions that use a dropped feature are deleted; None where there is no choice.
        version: The table version to move to.

    Example:
        >>> str(TableAction.parse("drop deletionVectors (history truncated)"))
        'drop deletionVectors (history truncated)'
        >>> TableAction.parse("move to table version 8").version
        8
    """

    verb: Verb
    names: tuple[str, ...] = ()
    truncate: bool | None = None
    version: int = 0

    def __str__(self) -> str:
        if self.verb is Verb.MOVE:
            return f"move to table version {self.version}"
        way = "" if self.truncate is None else _TRUNCATED if self.truncate else _KEPT
        return f"{self.verb} {', '.join(self.names)}{way}"

    @staticmethod
    def parse(text: str) -> TableAction:
        """Reads what `str` wrote."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise MalformedError(f"{text!r} is nothing that can be done to a table")
        if found["version"]:
            return TableAction(Verb.MOVE, version=int(found["version"]))
        truncate = None if found["way"] is None else found["way"] == _TRUNCATED
        return TableAction(Verb(found["verb"]), tuple(found["names"].split(", ")), truncate)

    def back(self, before: Terms, *, truncate: bool) -> TableAction:
        """What takes it back to what the table was."""
        if self.verb is Verb.MOVE:
            return replace(self, version=before.protocol.reader)
        if self.verb is Verb.DROP:
            return TableAction(Verb.ENABLE, self.names)
        new = tuple(each for each in self.names if not before.protocol.supports(each))
        barrier = any((record := feature("delta", each).drop) and record.barrier for each in new)
        return TableAction(Verb.DROP, new, truncate if barrier else None)

    def is_done(self, now: Terms) -> bool:
        """Whether a table with these terms needs nothing more of it."""
        if self.verb is Verb.MOVE:
            return now.protocol.reader == self.version
        if self.verb is Verb.DROP:
            return not any(now.protocol.supports(each) for each in self.names)
        return all(
            now.protocol.supports(each)
            and (each in now.features_in_use or not feature(now.protocol.format, each).enabling_properties)
            for each in self.names
        )
