"""Column mapping: every column has an id and a physical name that never change, whatever people call it.

The *mode* of a table says by what readers find a column in a file: by its name (`none`), by its physical name (`name`)
or by its id (`id`). Ids are given out once: the highest one is a property of the table and only grows. A column of a
new table gets a random physical name; the columns that a table has when mapping is switched on keep their names as
physical names, since that is how their files call them.

Every key of column mapping stands here and nowhere else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions.action import Metadata, repeated
from halocline.formats.delta.configuration import properties
from halocline.schema.json_edge import malformed
from halocline.schema.types import Field, Path, Struct
from halocline.schema.visitor import map_fields, types, walk

FEATURE: Final = "columnMapping"
"""The feature's name in a protocol."""

MODE: Final = "delta.columnMapping.mode"
MAX_ID: Final = "delta.columnMapping.maxColumnId"
_ID: Final = "delta.columnMapping.id"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_NESTED_IDS: Final = "delta.columnMapping.nested.ids"
_PARQUET_ID: Final = "parquet.field.id"
_ANNOTATIONS: Final = frozenset({_ID, _PHYSICAL_NAME, _NESTED_IDS, _PARQUET_ID, "parquet.field.nested.ids"})


# ---------------------------------------------------------------------- asking


def mode_of(configuration: Mapping[str, str]) -> str:
    """The mode that a table's properties name: `none`, `name` or `id`."""
    return properties.choice(configuration, MODE)


def field_id(field: Field) -> int | None:
    """The id of a field; None if it has none."""
    value = field.metadata.get(_ID)
    return value if isinstance(value, int) else None


def stored_name(field: Field) -> str | None:
    """The physical name that a field carries, whether or not the table goes by it; None if it has none."""
    name = field.metadata.get(_PHYSICAL_NAME)
    return name if isinstance(name, str) and name else None


def is_mapped(field: Field) -> bool:
    """Whether a field has both an id and a physical name."""
    return field_id(field) is not None and stored_name(field) is not None


def physical_name(field: Field, mode: str) -> str:
    """What files, statistics and partition values call a field."""
    if mode == "none":
        return field.name
    name = stored_name(field)
    if name is None or field_id(field) is None:
        raise malformed(
            f"columns are mapped, but {field.name!r} has no physical name or no id", dict(field.metadata.items())
        )
    return name


def physical_field(field: Field, mode: str) -> Field:
    """A field as files have it: with its physical name and, under mapping, its id in the way that Spark writes ids."""
    notes = {} if mode == "none" else {_PARQUET_ID: field_id(field)}
    return Field(physical_name(field, mode), field.type, metadata=notes)


def parquet_id(field: Field) -> int | None:
    """The id that a field of a file is going to have."""
    value = field.metadata.get(_PARQUET_ID)
    return value if isinstance(value, int) else None


def physical_partition_columns(metadata: Metadata) -> frozenset[str]:
    """The keys that partition values carry: physical names under column mapping, names otherwise."""
    if mode_of(metadata.configuration) == "none":
        return frozenset(metadata.partition_columns)
    fields = ((name, metadata.schema.get(name)) for name in metadata.partition_columns)
    return frozenset(name if field is None else stored_name(field) or name for name, field in fields)


# ---------------------------------------------------------------------- giving out ids


def random_name(_: str) -> str:
    """A physical name for a new column."""
    return f"col-{uuid.uuid4()}"


def same_name(name: str) -> str:
    """The physical name of a column that files know by its name."""
    return name


def mapped_field(field: Field, id: int, name: str) -> Field:
    """The field with an id and a physical name where it has none."""
    return replace(field, metadata={**field.metadata, _ID: id, _PHYSICAL_NAME: name} | dict(field.metadata))


def unmapped(schema: Struct) -> Struct:
    """The schema without anything that mapping adds."""
    return map_fields(schema, lambda _, field: unmapped_field(field))


def unmapped_field(field: Field) -> Field:
    """The field without anything that mapping adds."""
    return field.without(_ANNOTATIONS)


def assigned(schema: Struct, highest: int, physical: Callable[[str], str]) -> tuple[Struct, int]:
    """The schema with ids and physical names where they are missing, and the highest id then given out."""
    highest = max([highest, *(field_id(field) or 0 for _, field in walk(schema))])
    ids: dict[Path, int] = {}
    for path, field in walk(schema):
        if field_id(field) is None:
            highest += 1
            ids[path] = highest

    def mapped(path: Path, field: Field) -> Field:
        if is_mapped(field):
            return field
        return mapped_field(field, ids.get(path, 0), physical(field.name))

    return map_fields(schema, mapped), highest


def mapped(
    schema: Struct, configuration: Mapping[str, str], physical: Callable[[str], str]
) -> tuple[Struct, dict[str, str]]:
    """Schema and properties with mapping complete, if the properties ask for mapping."""
    if configuration.get(MODE, "none").lower() == "none":
        return schema, dict(configuration)
    schema, highest = assigned(schema, int(configuration.get(MAX_ID, "0")), physical)
    return schema, {**configuration, MAX_ID: str(highest)}


def with_ids_of(schema: Struct, known: Struct) -> Struct:
    """The schema with the ids and physical names that columns of the same path have in another one."""
    others = dict(walk(known))

    def kept(path: Path, field: Field) -> Field:
        other = others.get(path)
        if other is None:
            return field
        ids = {key: value for key, value in other.metadata.items() if key in (_ID, _PHYSICAL_NAME)}
        return replace(field, metadata={**ids, **field.metadata})

    return map_fields(schema, kept)


# ---------------------------------------------------------------------- rules


def check_column_mapping(metadata: Metadata, before: Metadata | None) -> None:
    """Makes sure that column mapping is complete and only changes in the ways that readers survive."""
    mode = mode_of(metadata.configuration)
    if before is not None:
        _check_mode_change(mode_of(before.configuration), mode)
        was = properties.count(before.configuration, MAX_ID) or 0
        now = properties.count(metadata.configuration, MAX_ID) or 0
        if mode != "none" and now < was:
            raise SchemaError(
                f"{MAX_ID} cannot fall from {was} to {now}: an id would be given out twice",
                sides={"before": str(was), "after": str(now)},
            )
    if mode == "none":
        return
    for path, field in walk(metadata.schema):
        if not is_mapped(field):
            raise SchemaError(
                f"column {'.'.join(path)} has no id or no physical name, which column mapping needs",
                sides={"column": ".".join(path), "mode": mode},
            )
    ids = [field_id(field) or 0 for _, field in walk(metadata.schema)]
    highest = properties.count(metadata.configuration, MAX_ID) or 0
    if doubled := repeated(ids):
        raise SchemaError(f"column mapping id {doubled} is given to two columns", sides={"id": str(doubled)})
    if ids and max(ids) > highest:
        raise SchemaError(
            f"column mapping id {max(ids)} is above the highest id given out",
            sides={"id": str(max(ids)), MAX_ID: str(highest)},
        )
    for _, struct in types(metadata.schema):
        names = [str(stored_name(each)).lower() for each in struct.fields] if isinstance(struct, Struct) else []
        if twice := repeated(names):
            raise SchemaError(f"physical name {twice!r} is given to two columns", sides={"name": str(twice)})


def _check_mode_change(was: str, now: str) -> None:
    if was == now or (was, now) == ("none", "name"):
        return
    raise InputError(
        f"column mapping cannot change from {was} to {now} on an existing table",
        condition="PROPERTY_INVALID",
        sides={"before": was, "after": now, "allowed": "none to name"},
        next_step=f"To remove column mapping, drop the feature {FEATURE}; it rewrites the files.",
    )
