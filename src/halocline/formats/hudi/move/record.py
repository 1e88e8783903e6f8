"""What a move leaves in the table: that it is under way, what is to be cleaned, and what it changed.

The record is one small file beside the timeline. Other clients do not look at it. What each step changed in the
properties is kept for the way back: a property that still has the value from after the step gets the one from before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.properties import FOLDER
from halocline.storage.base import Store

PATH: Final = f"{FOLDER}/.aux/halocline_move.json"

Changes = dict[str, tuple[str | None, str | None]]
"""For each property on either side of a step, the value before and after; None where there was none."""


class PendingMove(msgspec.Struct, frozen=True, rename="camel"):
    """A move that is under way.

    Attributes:
        source: The version that the table had.
        target: The version that it is to have.
        started_ms: When it began, in milliseconds since 1970.
        folder: Where the timeline lies that it moves away from.
        archive: Where the history of that timeline lies.
        drops_metadata_table: Whether the metadata table goes.
        changes: What it changes in the properties, by the version that each step up leads to.
    """

    source: int
    target: int
    started_ms: int
    folder: str
    archive: str
    drops_metadata_table: bool = False
    changes: dict[str, Changes] = {}


class Cleanup(msgspec.Struct, frozen=True, rename="camel"):
    """A timeline that is there for readers from before.

    Attributes:
        layout: Its layout.
        folder: Where it lies.
        archive: Where its history lies.
        flipped_ms: Since when it does not count any more, in milliseconds since 1970.
    """

    layout: int
    folder: str
    archive: str
    flipped_ms: int


class MoveRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What moves have left in a table.

    Attributes:
        pending: The move that is under way.
        cleanup: The timeline that is to be cleaned.
        changes: What each step up changed, by the version that it led to.
    """

    pending: PendingMove | None = None
    cleanup: Cleanup | None = None
    changes: dict[str, Changes] = {}


def read_record(store: Store) -> MoveRecord:
    """The record of a table; an empty one if it never moved.

    Raises:
        MalformedError: The record is damaged.
    """
    try:
        data = store.get(PATH)
    except NotFoundError:
        return MoveRecord()
    try:
        return msgspec.json.decode(data, type=MoveRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(
            f"{PATH} of {store.root} cannot be read",
            condition="MALFORMED_METADATA",
            sides={"expected": "what moves have left", "found": str(error)},
            next_step="Delete the file; what moves changed in the properties is then not restored on the way back.",
        ) from error


def write_record_of(store: Store, record: MoveRecord) -> None:
    """Replaces the record of a table; an empty one leaves no file."""
    if record == MoveRecord():
        store.delete(PATH)
    else:
        store.put(PATH, msgspec.json.encode(record))


def changes_of(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """What a step did to each property.

    Example:
        >>> changes_of({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
        {'a': ('1', '1'), 'b': ('2', None), 'c': (None, '3')}
    """
    return {name: (before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])}


def restored(now: Mapping[str, str], lowered: Mapping[str, str], changes: Changes) -> dict[str, str]:
    """Properties on the way back, with what nobody changed since the step up as it was before.

    Args:
        now: The properties at the upper version.
        lowered: The same as the lower version has them.
        changes: What the step up did.

    Example:
        >>> changes = {"mode": (None, "X"), "class": ("Z", None)}
        >>> restored({"mode": "X", "name": "t"}, {"name": "t", "class": "Y"}, changes)
        {'name': 't', 'class': 'Z'}
    """
    made = dict(lowered)
    for name in dict.fromkeys([*changes, *lowered]) if changes else ():
        before, after = changes.get(name, (None, None))
        if now.get(name) != after:
            continue
        made.pop(name, None)
        if before is not None:
            made[name] = before
    return made
