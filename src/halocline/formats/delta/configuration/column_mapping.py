"""Column mapping as writers keep it: every column has an id and a physical name that never change.

Ids are given out once: the highest one is a property of the table and only grows. A column of a new table gets a
random physical name; the columns that a table has when mapping is switched on keep their names as physical names,
since that is how their files call them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from halocline.formats.delta.configuration import schema_edit
from halocline.formats.delta.configuration.metadata_rules import ID, MAX_ID, MODE, PHYSICAL_NAME
from halocline.formats.delta.configuration.schema_edit import Node, Path


def random_name(_: str) -> str:
    """A physical name for a new column."""
    return f"col-{uuid.uuid4()}"


def same_name(name: str) -> str:
    """The physical name of a column that files know by its name."""
    return name


def assigned(schema: Node, highest: int, physical: Callable[[str], str]) -> tuple[dict[str, Any], int]:
    """The schema with ids and physical names where they are missing, and the highest id then given out.

    Example:
        >>> schema = {"type": "struct", "fields": [schema_edit.field("a", "long")]}
        >>> assigned(schema, 4, same_name)[0]["fields"][0]["metadata"]
        {'delta.columnMapping.id': 5, 'delta.columnMapping.physicalName': 'a'}
    """
    highest = max([highest, *((each.get("metadata") or {}).get(ID, 0) for _, each in schema_edit.fields(schema))])
    notes: dict[Path, dict[str, Any]] = {}
    for path, each in schema_edit.fields(schema):
        note = dict(each.get("metadata") or {})
        if ID not in note:
            highest += 1
            note[ID] = highest
        note.setdefault(PHYSICAL_NAME, physical(each["name"]))
        notes[path] = note
    return schema_edit.map_fields(schema, lambda path, field: {**field, "metadata": notes[path]}), highest


def mapped(
    schema: Node, configuration: Mapping[str, str], physical: Callable[[str], str]
) -> tuple[Node, dict[str, str]]:
    """Schema and properties with mapping complete, if the properties ask for mapping."""
    if configuration.get(MODE, "none").lower() == "none":
        return schema, dict(configuration)
    schema, highest = assigned(schema, int(configuration.get(MAX_ID, "0")), physical)
    return schema, {**configuration, MAX_ID: str(highest)}


def with_ids_of(schema: Node, known: Node) -> Any:
    """The schema with the ids and physical names that columns of the same path have in another one."""
    notes = {path: each.get("metadata") or {} for path, each in schema_edit.fields(known)}

    def kept(path: Path, field: Node) -> Node:
        ids = {key: value for key, value in notes.get(path, {}).items() if key in (ID, PHYSICAL_NAME)}
        return {**field, "metadata": {**ids, **(field.get("metadata") or {})}}

    return schema_edit.map_fields(schema, kept)
