"""Puts indexes together without indexing their rows again.

An index consists of *segments*, and its description lists them. *Stitching* puts the segments of several indexes into
one folder and their lists into one description: quick, and a search has a few more segments to look at. The library
then merges segments *physically*, into few, where there are at least eight of like size.

Fields must be the same, or some indexes may lack the last of them: then they have no values there. Rows keep the
numbers of their parts, so parts must differ; should two have the same number by chance, the rows are indexed again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from typing import Final

import msgspec

from halocline.formats.index.split.analyzers import register
from halocline.formats.index.split.fields import FieldKind, IndexField
from halocline.formats.index.split.layout import Part
from halocline.formats.index.split.lengths import DESCRIPTION
from halocline.formats.index.split.library import damaged, guarded, library
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.writer import LOCKS

_MANAGED: Final = ".managed.json"
MANY_SEGMENTS: Final = 8
"""From so many on, segments are merged physically."""


def common_fields(splits: Sequence[OpenedSplit], wanted: Sequence[IndexField]) -> list[IndexField] | None:
    """The fields of an index of all of these splits; None if they have other ones than are wanted."""
    longest = max((each.layout.fields for each in splits), key=len)
    for each in splits:
        beginning = wanted[: len(each.layout.fields)]
        if [_in_the_index(field) for field in each.layout.fields] != [_in_the_index(field) for field in beginning]:
            return None
    numbers = [part.number for each in splits for part in each.layout.parts]
    return list(wanted[: len(longest)]) if len(set(numbers)) == len(numbers) else None


def stitched(splits: Sequence[OpenedSplit], folder: str, *, heap_bytes: int) -> tuple[list[Part], bool]:
    """Puts the indexes of splits together in a folder.

    Args:
        splits: The splits, with fields in common, in the order of their rows.
        folder: An empty folder.
        heap_bytes: The memory for merging segments.

    Returns:
        The parts of the index, and whether segments were merged physically.

    Raises:
        MalformedError: An index is damaged.
    """
    parts: list[Part] = []
    segments: list[object] = []
    managed: list[str] = []
    longest: dict[str, object] = {}
    offset = 0
    for split in splits:
        source = split.index_folder()
        with guarded(split.path), open(os.path.join(source, DESCRIPTION), encoding="utf-8") as file:
            description = json.loads(file.read())
        if len(description["schema"]) > len(longest.get("schema", ())):  # type: ignore[arg-type]
            longest = description
        segments += description["segments"]
        for name in os.listdir(source):
            if name not in (DESCRIPTION, _MANAGED, *LOCKS):
                shutil.copyfile(os.path.join(source, name), os.path.join(folder, name))
                managed.append(name)
        parts += (Part(each.number, each.offset + offset) for each in split.layout.parts)
        offset += split.layout.rows
    _write(folder, DESCRIPTION, longest | {"segments": segments})
    _write(folder, _MANAGED, [*managed, DESCRIPTION])
    merged = len(segments) >= MANY_SEGMENTS
    if merged:
        _merge_segments(splits, folder, heap_bytes)
    _check(folder, offset)
    return parts, merged


def index_files(folder: str) -> list[str]:
    """The files that an index in a folder consists of; leftovers of merged segments are none of them."""
    with open(os.path.join(folder, DESCRIPTION), encoding="utf-8") as file:
        live = {each["segment_id"].replace("-", "") for each in json.loads(file.read())["segments"]}
    found = [name for name in os.listdir(folder) if name.partition(".")[0] in live]
    _write(folder, _MANAGED, sorted([*found, DESCRIPTION]))
    return [*found, DESCRIPTION, _MANAGED]


def _merge_segments(splits: Sequence[OpenedSplit], folder: str, heap_bytes: int) -> None:
    with guarded(folder):
        index = library().Index.open(folder)
        register(index, (field.analyzer for each in splits for field in each.layout.fields if field.analyzer))
        writer = index.writer(heap_size=heap_bytes, num_threads=1)
        writer.commit()
        writer.wait_merging_threads()


def _check(folder: str, rows: int) -> None:
    with guarded(folder):
        found = library().Index.open(folder).searcher().num_docs
    if found != rows:
        raise damaged(folder, f"its parts have {rows} rows, and its index has {found}")


def _in_the_index(field: IndexField) -> IndexField | None:
    return None if field.kind is FieldKind.STORED else msgspec.structs.replace(field, zoned=False)


def _write(folder: str, name: str, content: object) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(content))
