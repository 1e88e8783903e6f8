"""Columns and schemas for tests, short to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halocline.schema import Array, DataType, Field, Struct
from halocline.schema.json_edge import type_from_json


def field(name: str, type: Any = "long", nullable: bool = True, metadata: Mapping[str, Any] | None = None) -> Field:
    """A field; its type as the log spells it, or a type."""
    return Field(name, of_type(type), nullable, metadata or {})


def schema(*columns: Field | str) -> Struct:
    """A struct out of fields, or of names of long columns."""
    return Struct([field(each) if isinstance(each, str) else each for each in columns])


def array(element: Any) -> Array:
    """An array of a type."""
    return Array(of_type(element))


def of_type(type: Any) -> DataType:
    """The type that a text or a JSON object stands for."""
    return type_from_json(type) if isinstance(type, str | Mapping) else type
