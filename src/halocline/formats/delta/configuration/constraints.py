"""Constraints: what a table demands of every row.

A *CHECK constraint* has a name and an SQL condition, kept as a property of the table. An *invariant* is the older form:
a condition in the metadata of one column. NOT NULL is part of the column itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from halocline.errors import MalformedError
from halocline.formats.delta.configuration.properties import CONSTRAINT_PREFIX
from halocline.schema.types import Field

_INVARIANT: Final = "delta.invariants"


def checks(configuration: Mapping[str, str]) -> dict[str, str]:
    """The CHECK constraints of a table, name to condition."""
    found = configuration.items()
    return {key.removeprefix(CONSTRAINT_PREFIX): value for key, value in found if key.startswith(CONSTRAINT_PREFIX)}


def check_key(configuration: Mapping[str, str], name: str) -> str | None:
    """The property that holds the constraint of a name, whatever its case; None if there is none."""
    wanted = (CONSTRAINT_PREFIX + name).lower()
    return next((key for key in configuration if key.lower() == wanted), None)


def invariant_of(field: Field) -> str | None:
    """The condition in a column's metadata; None if there is none."""
    text = field.metadata.get(_INVARIANT)
    if text is None:
        return None
    try:
        condition = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError):
        condition = None
    if not isinstance(condition, str):
        raise MalformedError(
            f"the invariant of column {field.name} cannot be read",
            condition="MALFORMED_METADATA",
            sides={"expected": '{"expression": {"expression": "<SQL>"}}', "found": str(text)[:200]},
        )
    return condition
