"""The schema of a table as of an instant: what the last write before it says, with the meta columns in front.

A write that says nothing about the schema leaves it as it was. Where no write of the active timeline says it, the
table's properties may, and then a base file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.avro.avro_names import with_avro_names
from halocline.formats.hudi.avro.types import arrow_field, parse_schema
from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.configuration import CREATE_SCHEMA
from halocline.formats.hudi.evolution import avro_defaults
from halocline.formats.hudi.names import BaseFile
from halocline.formats.hudi.timeline.instant import order
from halocline.formats.hudi.timeline.timeline import HudiTimeline

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The columns that Hudi adds to every row."""

COMMIT_TIME: Final = META_COLUMNS[0]

_HISTORY: Final = "latest_schema"
"""Under this key a write keeps the schema with ids, if the table allows renames."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table.

    Attributes:
        columns: The columns, those of Hudi first.
        avro: The same as an Avro schema, without Hudi's own columns; None if it was taken from a base file.
        defaults: Values of columns that older rows lack, where they are not null.
    """

    columns: pa.Schema
    avro: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


def table_schema(timeline: HudiTimeline, bases: Iterable[BaseFile], as_of: str | None = None) -> TableSchema:
    """The schema of a table.

    Args:
        timeline: The table's timeline.
        bases: Base files, newest first, for a table whose writes do not tell.
        as_of: The instant; the newest if not given.

    Raises:
        MalformedError: What a write says is no schema, or nothing says any.
        UnsupportedError: The table allows renames, or a column has a type that this release does not read.
    """
    text = _told(timeline, as_of) or timeline.config.pairs.get(CREATE_SCHEMA)
    if text:
        return _from_avro(text, timeline)
    newest = next(iter(bases), None)
    if newest is not None:
        found = open_base_file(timeline.store, newest).schema.remove_metadata()
        return TableSchema(pa.schema([each.remove_metadata() for each in found]))
    if not timeline.writes:
        return TableSchema(_meta(timeline))
    raise MalformedError(
        f"nothing says what the columns of {timeline.store.root} are",
        condition="MALFORMED_METADATA",
        sides={"looked in": f"commits, {CREATE_SCHEMA}, base files", "found": "no schema"},
        next_step="Write to the table with a writer that records its schema.",
    )


def columns_told(timeline: HudiTimeline, text: str) -> pa.Schema:
    """The columns of a schema that a write of the table tells, with the meta columns in front."""
    return _from_avro(text, timeline).columns


def written_columns(timeline: HudiTimeline, instants: Collection[str]) -> dict[str, pa.Schema]:
    """The columns that writes had when they wrote, of those that say it and are still in the active timeline."""
    found = {}
    for instant in timeline.writes:
        if instant.time in instants:
            text = timeline.commit_metadata(instant).schema
            if text:
                found[instant.time] = columns_told(timeline, text)
    return found


def _told(timeline: HudiTimeline, as_of: str | None) -> str | None:
    """The last schema that a write told; of a table service only if no other write did.

    A service that runs while a write lets the table grow ends after it, and tells the columns that it began with.
    """
    by_service = None
    for instant in reversed(timeline.writes):
        if as_of is not None and order(instant.time) > order(as_of):
            continue
        metadata = timeline.commit_metadata(instant)
        if (metadata.extra_metadata or {}).get(_HISTORY):
            raise UnsupportedError(
                f"columns of {timeline.store.root} may have been renamed, which this release does not follow",
                sides={"table": "hoodie.schema.on.read.enable", "halocline follows": "columns by name"},
                next_step="Rewrite the table into a new one without hoodie.schema.on.read.enable.",
            )
        if metadata.schema and not metadata.is_service:
            return metadata.schema
        by_service = by_service or metadata.schema
    return by_service


def _from_avro(text: str, timeline: HudiTimeline) -> TableSchema:
    place = f"the timeline of {timeline.store.root}"
    parsed = parse_schema(text, place)
    parsed["fields"] = [each for each in parsed["fields"] if each["name"] not in META_COLUMNS]
    columns = pa.schema([*_meta(timeline), *(arrow_field(each) for each in parsed["fields"])])
    plain = json.loads(text)
    plain["fields"] = [each for each in plain["fields"] if each["name"] not in META_COLUMNS]
    plain = with_avro_names(plain)  # earlier releases of Halocline took the table's name as it is
    return TableSchema(columns, json.dumps(plain, separators=(",", ":")), avro_defaults(parsed))


def _meta(timeline: HudiTimeline) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in META_COLUMNS] if timeline.config.meta_fields else [])
