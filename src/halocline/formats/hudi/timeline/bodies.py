"""What a file of the timeline says, as a record: JSON, Avro or nothing, by its first bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from halocline.errors import MalformedError
from halocline.formats.hudi.avro.containers import MAGIC, read_record


class Body(NamedTuple):
    """The content of a file of the timeline.

    Attributes:
        record: What it says; empty for an empty file.
        schema: The name of the Avro type; None for JSON and for an empty file.
    """

    record: Mapping[str, Any]
    schema: str | None = None


def decode_body(data: bytes, place: str) -> Body:
    """Reads a file of the timeline.

    Raises:
        MalformedError: It is neither JSON nor Avro, or torn.

    Example:
        >>> decode_body(b'{"operationType": "UPSERT"}', "20250101000000000.commit").record
        {'operationType': 'UPSERT'}
    """
    if data.startswith(MAGIC):
        try:
            schema, record = read_record(data)
        except MalformedError as error:
            raise _torn(place, f"an Avro file that cannot be read: {error.message}") from error
        return Body(record, schema)
    text = data.strip()
    if not text:
        return Body({})
    if not text.startswith(b"{"):
        raise _torn(place, f"{data[:16]!r}")
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _torn(place, f"JSON that cannot be read: {error}") from error
    return Body(parsed)


def _torn(place: str, found: str) -> MalformedError:
    return MalformedError(
        f"{place} cannot be read",
        condition="MALFORMED_LOG",
        sides={"expected": "JSON, or an Avro file of one record", "found": found},
        next_step="Restore the file, or roll the instant back with the writer that made it.",
    )
