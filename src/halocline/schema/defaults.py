"""Default values: what a column gets where a row brings nothing.

The *current* default is SQL that later writes evaluate; the *existing* one is what rows have that are older than the
column. Spark keeps both as text in the field's metadata.
"""

from __future__ import annotations

from typing import Final

from halocline.schema.types import Field

FEATURE: Final = "allowColumnDefaults"
"""The feature's name in a protocol of Delta."""

_CURRENT: Final = "CURRENT_DEFAULT"
_EXISTS: Final = "EXISTS_DEFAULT"
ANNOTATIONS: Final = frozenset({_CURRENT, _EXISTS})
"""All that defaults add to a field."""


def default_of(field: Field) -> str | None:
    """The SQL of a column's default; None if it has none."""
    default = field.metadata.get(_CURRENT)
    return None if default is None else str(default)


def without_existing(field: Field) -> Field:
    """The field without what rows have that are older than it; only the table that it came from has such rows."""
    return field.without([_EXISTS])


def with_default(field: Field, expression: str | None) -> Field:
    """The field with a default for later writes, or without one."""
    return field.annotated(_CURRENT, expression)
