"""What a Hudi table is, for people and programs, also where its rows cannot be read.

The properties and the timeline always tell; the slices are counted only for a table that may be read, and what is in
the way otherwise is told in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halocline.errors import HaloclineError
from halocline.formats.hudi.configuration import PARTITION_FIELDS
from halocline.formats.hudi.properties import TYPE, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.formats.hudi.timeline.instant import HudiInstant
from halocline.formats.hudi.timeline.timeline import active_writes
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.json_edge import to_json
from halocline.storage.base import Store


@dataclass(frozen=True)
class HudiInspection:
    """What a Hudi table is.

    Attributes:
        version: The table version.
        type: Copy on write or merge on read, as the table spells it.
        enabled: The features in use, in order of name.
        writes: The completed writes in the active timeline.
        pending: The instants that did not take effect.
        files: How many files hold its rows; None if that cannot be told.
        size: Their size in bytes.
        uncounted: Why they were not counted; None if they were.
        properties: What `hoodie.properties` says.
        schema: The columns, as Spark spells a schema in JSON; None if the rows cannot be read.
    """

    version: int
    type: str
    enabled: tuple[str, ...]
    writes: tuple[HudiInstant, ...]
    pending: tuple[str, ...]
    files: int | None
    size: int | None
    uncounted: str | None
    properties: Mapping[str, str]
    schema: Any = None

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns whose values are in the paths of its files."""
        return tuple(filter(None, self.properties.get(PARTITION_FIELDS, "").split(",")))

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "format": "hudi",
            "tableVersion": self.version,
            "type": self.type,
            "enabled": list(self.enabled),
            "lastWrite": self.writes[-1].time if self.writes else None,
            "writes": len(self.writes),
            "pending": list(self.pending),
            "files": self.files,
            "size": self.size,
            "uncounted": self.uncounted,
            "schema": self.schema,
            "partitionColumns": list(self.partition_columns),
            "properties": dict(self.properties),
        }


def inspect_hudi(store: Store, as_of: str | None = None) -> HudiInspection:
    """Tells what a Hudi table is.

    Args:
        store: Where it lies.
        as_of: An instant; the newest if not given.

    Raises:
        MalformedError: Its properties cannot be read.
        NotFoundError: There is no table, or its files of that instant are gone.
    """
    pairs = properties(store)
    terms = terms_of(store)
    files, size, uncounted, schema = None, None, None, None
    pending: tuple[str, ...] = ()
    try:
        snapshot = HudiSnapshot.load(store, as_of=as_of)
        files = sum((each.base is not None) + len(each.logs) for each in snapshot.slices)
        size = sum(each.size for each in snapshot.slices)
        schema = to_json(struct_of_arrow(snapshot.schema.columns))
        pending = tuple(str(each) for each in snapshot.timeline.instants if not each.is_completed)
    except HaloclineError as error:
        if as_of is not None:
            raise
        uncounted = f"{error.condition}: {error.message}"
    return HudiInspection(
        version=terms.protocol.reader,
        type=pairs.get(TYPE, ""),
        enabled=tuple(sorted(terms.features_in_use)),
        writes=active_writes(store),
        pending=pending,
        files=files,
        size=size,
        uncounted=uncounted,
        properties=pairs,
        schema=schema,
    )
