"""Whose companion an index table is, which version of that table it shows, and what it may therefore be used for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from halocline.errors import ConflictError, InputError
from halocline.formats.index.companion.source import IndexedSource
from halocline.formats.index.snapshot import IndexSnapshot

SOURCE_KEY: Final = "halocline.companion.source"
FORMAT_KEY: Final = "halocline.companion.format"
APPLICATION: Final = "halocline.companion"
"""Under which name commits record the version of the source."""


@dataclass(frozen=True)
class Companion:
    """What a companion says of itself.

    Attributes:
        source: The URL of the table that it belongs to.
        format: The format of that table.
        version: The version of it that it shows; None if it is still empty.
    """

    source: str
    format: str
    version: int | None

    @staticmethod
    def of(snapshot: IndexSnapshot) -> Companion | None:
        """What an index table belongs to; None if it holds rows of its own."""
        said = snapshot.metadata.configuration
        if SOURCE_KEY not in said:
            return None
        return Companion(said[SOURCE_KEY], said.get(FORMAT_KEY, ""), snapshot.txn_version(APPLICATION))


def companion_of(snapshot: IndexSnapshot) -> Companion:
    """What a companion says of itself.

    Raises:
        InputError: The table is none.
    """
    found = Companion.of(snapshot)
    if found is None:
        raise InputError(
            f"{snapshot.store.root} holds rows of its own and is no companion",
            sides={"table": snapshot.store.root, "wanted": f"the property {SOURCE_KEY}"},
            next_step="Search it as it is.",
        )
    return found


def is_fresh(snapshot: IndexSnapshot, version: int) -> bool:
    """Whether a companion shows that version of its source."""
    found = Companion.of(snapshot)
    return found is not None and found.version == version


def check_fresh(snapshot: IndexSnapshot, version: int, *, stale: str = "refuse") -> None:
    """Returns if a companion may answer for a version of its source.

    Args:
        snapshot: The companion.
        version: The version that the source has.
        stale: `refuse`, or `allow` answers of an older version.

    Raises:
        ConflictError: It shows another version.
        InputError: The table is no companion, or there is no such choice.
    """
    if stale not in ("refuse", "allow"):
        raise InputError.unknown(f"stale is refuse or allow, and not {stale!r}", stale, ("refuse", "allow"))
    found = companion_of(snapshot)
    if stale == "refuse" and found.version != version:
        raise ConflictError(
            f"{snapshot.store.root} does not show the version that {found.source} has",
            condition="COMPANION_STALE",
            sides={"source": f"version {version}", "companion": f"version {found.version}"},
            next_step="Bring the companion up to date, allow stale answers, or name a version of the companion.",
        )


def check_own_rows(snapshot: IndexSnapshot) -> None:
    """Makes sure that a table has rows of its own, which may be written.

    Raises:
        InputError: It is a companion.
    """
    found = Companion.of(snapshot)
    if found is not None:
        raise InputError(
            f"{snapshot.store.root} is a companion, and has the rows of its source and no others",
            sides={"companion of": found.source, "asked for": "rows written to it, or deleted"},
            next_step=f"Change the rows of {found.source}, then bring the companion up to date: table.sync().",
        )


def check_source(snapshot: IndexSnapshot, source: IndexedSource) -> None:
    """Makes sure that a companion belongs to a source, which still has its columns.

    Raises:
        InputError: It does not, or they changed.
    """
    found = companion_of(snapshot)
    known = {each.name: each.type for each in source.schema.fields}
    other = [each.name for each in snapshot.schema.fields if known.get(each.name) != each.type]
    if found.source != source.url or other:
        raise InputError(
            f"{snapshot.store.root} is no companion of {source.url} as it is",
            sides={
                "companion of": found.source,
                "changed columns": ", ".join(other) or "none",
            },
            next_step="Make the companion anew.",
        )
