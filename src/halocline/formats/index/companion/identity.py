"""Whose companion an index table is, which state of that table it shows, and what it may therefore be used for.

A companion keeps a *mark* of its source among its properties: what identifies the table, and the state of it that the
companion shows. The mark is compared at every use. A source that was dropped and made anew at the same place has
another identity, and the companion answers for it only once it is built anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from halocline.errors import ConflictError, InputError
from halocline.formats.index.companion.source import IndexedSource
from halocline.formats.index.log.actions import IndexMetadata
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.source_files import CompanionFile, source_files

SOURCE_KEY: Final = "halocline.companion.source"
FORMAT_KEY: Final = "halocline.companion.format"
MARK_KEY: Final = "halocline.companion.mark"
APPLICATION: Final = "halocline.companion"
"""Under which name commits record the version of the source."""


class Stale(StrEnum):
    """What becomes of a use of a companion whose source has moved on."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True)
class Companion:
    """What a companion says of itself.

    Attributes:
        source: The URL of the table that it belongs to.
        format: The format of that table.
        version: The version of it that it shows; None if it is still empty.
        mark: What identifies that table and the state that is shown; None if the companion was made before
            companions kept one.
    """

    source: str
    format: str
    version: int | None
    mark: str | None

    @staticmethod
    def of(snapshot: IndexSnapshot) -> Companion | None:
        """What an index table belongs to; None if it holds rows of its own."""
        properties = snapshot.metadata.configuration
        if SOURCE_KEY not in properties:
            return None
        version = snapshot.txn_version(APPLICATION)
        return Companion(properties[SOURCE_KEY], properties.get(FORMAT_KEY, ""), version, properties.get(MARK_KEY))


def companion_of(snapshot: IndexSnapshot) -> Companion:
    """What a companion says of itself.

    Raises:
        InputError: The table is none.
    """
    companion = Companion.of(snapshot)
    if companion is None:
        raise InputError(
            f"{snapshot.store.root} holds rows of its own and is no companion",
            sides={"table": snapshot.store.root, "wanted": f"the property {SOURCE_KEY}"},
            next_step="Search it as it is.",
        )
    return companion


def properties_of(source: IndexedSource) -> dict[str, str]:
    """The properties that make an index table the companion of a source."""
    return {SOURCE_KEY: source.url, FORMAT_KEY: source.format, MARK_KEY: source.mark}


def marked(metadata: IndexMetadata, source: IndexedSource) -> IndexMetadata:
    """The metadata of a companion that shows a source as it is; the same object if they say so already."""
    properties: Mapping[str, str] = {**metadata.configuration, **properties_of(source)}
    return metadata if properties == metadata.configuration else replace(metadata, configuration=properties)


def is_fresh(snapshot: IndexSnapshot, source: IndexedSource) -> bool:
    """Return whether a companion shows its source as it is."""
    companion = Companion.of(snapshot)
    if companion is None or companion.version is None or companion.mark is None:
        return False
    return source.is_at(companion.mark)


def check_stale(stale: str) -> Stale:
    """Return the choice that a text names.

    Raises:
        InputError: There is no such choice.
    """
    if stale not in tuple(Stale):
        raise InputError.unknown(f"stale is refuse or allow, and not {stale!r}", stale, tuple(Stale))
    return Stale(stale)


def check_answers(snapshot: IndexSnapshot, source: IndexedSource, *, stale: str = Stale.REFUSE) -> None:
    """Return if a companion may answer for its source.

    Args:
        snapshot: The companion.
        source: What lies where its source lay, as it is now.
        stale: `refuse`, or `allow` answers of an older version of the same source.

    Raises:
        ConflictError: It shows another version.
        InputError: It belongs to another table, or does not say to which; or the table is no companion, or there is no
            such choice.
    """
    chosen, companion = check_stale(stale), companion_of(snapshot)
    check_identity(snapshot, source)
    if chosen is Stale.REFUSE and not is_fresh(snapshot, source):
        late = " without all of its writes" if companion.version == source.version else ""
        raise ConflictError(
            f"{snapshot.store.root} does not show the version that {companion.source} has",
            condition="COMPANION_STALE",
            sides={"source": f"version {source.version}", "companion": f"version {companion.version}{late}"},
            next_step="Bring the companion up to date, allow stale answers, or name a version of the companion.",
        )


def check_identity(snapshot: IndexSnapshot, source: IndexedSource) -> None:
    """Make sure that a companion belongs to the very table that lies where its source lay.

    Raises:
        InputError: It belongs to another one, or does not say to which.
    """
    companion, root = companion_of(snapshot), snapshot.store.root
    rebuild = f"Build it anew from the table that is there now: Table.for_path({root!r}).sync(rebuild=True)."
    if companion.mark is None:
        raise InputError(
            f"{root} was made by a release that did not record which table it belongs to",
            condition="COMPANION_UNBOUND",
            sides={"companion of": companion.source, "wanted": f"the property {MARK_KEY}"},
            next_step=rebuild,
        )
    same = companion.format == source.format and source.is_same(companion.mark, lambda: _shown_files(snapshot))
    if not same:
        raise InputError(
            f"another table lies at {companion.source} than the one that {root} belongs to",
            condition="COMPANION_SOURCE_REPLACED",
            sides={
                "companion": f"a {companion.format} table, at version {companion.version}",
                "source": f"another {source.format} table, at version {source.version}",
            },
            next_step=rebuild,
        )


def check_own_rows(snapshot: IndexSnapshot) -> None:
    """Makes sure that a table has rows of its own, which may be written.

    Raises:
        InputError: It is a companion.
    """
    companion = Companion.of(snapshot)
    if companion is not None:
        raise InputError(
            f"{snapshot.store.root} is a companion, and has the rows of its source and no others",
            sides={"companion of": companion.source, "asked for": "rows written to it, or deleted"},
            next_step=f"Change the rows of {companion.source}, then bring the companion up to date: table.sync().",
        )


def check_source(snapshot: IndexSnapshot, source: IndexedSource) -> None:
    """Makes sure that a companion was made for the place of a source, which still has its columns.

    Raises:
        InputError: It was not, or they changed.
    """
    companion = companion_of(snapshot)
    known = {each.name: each.type for each in source.schema.fields}
    other = [each.name for each in snapshot.schema.fields if known.get(each.name) != each.type]
    if companion.source != source.url or other:
        raise InputError(
            f"{snapshot.store.root} is no companion of {source.url} as it is",
            sides={
                "companion of": companion.source,
                "changed columns": ", ".join(other) or "none",
            },
            next_step="Make the companion anew.",
        )


def _shown_files(snapshot: IndexSnapshot) -> Iterator[CompanionFile]:
    """The files of the source that a companion shows."""
    for split in snapshot.files.values():
        yield from (file for file in source_files(split) or () if file.path is not None)
