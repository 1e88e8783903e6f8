"""Collations: text that compares otherwise than by its bytes. Spark notes them in the metadata of the nearest field."""

from __future__ import annotations

from typing import Final

from halocline.schema.types import Field

_COLLATIONS: Final = "__COLLATIONS"


def collation_of(field: Field) -> str | None:
    """The collations noted for a field, for messages; None if its text compares by its bytes."""
    noted = field.metadata.get(_COLLATIONS)
    return None if noted is None else str(noted)
