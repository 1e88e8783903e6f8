"""Type widening: columns whose type grows without rewriting data.

A *widening* is a change of a primitive type that every old value survives. The schema notes each one, so that readers
know which files hold the narrower type: in the metadata of the nearest struct field, with the steps inside arrays and
maps as `fieldPath`. A reader must refuse changes it does not know, since it could not tell what the old files mean.
Tables under the preview of the feature also note the version of the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from halocline.compat.protocol import Protocol
from halocline.errors import MalformedError, SchemaError, UnsupportedError
from halocline.schema.types import DataType, Field, Path, Primitive, Struct, decimal_of
from halocline.schema.visitor import map_fields, paired

FEATURES: Final = ("typeWidening", "typeWidening-preview")
"""The feature's names in a protocol, the finished one first."""

ENABLED: Final = "delta.enableTypeWidening"
"""The property that lets columns change their type."""

_CHANGES: Final = "delta.typeChanges"
_VERSION: Final = "tableVersion"

_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
}
# How many digits before the decimal point hold every value of a whole-number type.
_WHOLE_DIGITS: Final[Mapping[str, int]] = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def can_widen(old: DataType, new: DataType) -> bool:
    """Whether every value of the old type has its place in the new one, by the rules of the format."""
    if not isinstance(old, Primitive) or not isinstance(new, Primitive):
        return False
    if new.name in _WIDER.get(old.name, ()):
        return True
    wider, narrower = decimal_of(new), decimal_of(old)
    if wider is None:
        return False
    precision, scale = narrower or (_WHOLE_DIGITS.get(old.name, 99), 0)
    more_scale = wider[1] - scale
    return 0 <= more_scale <= wider[0] - precision


def can_read_as(then: DataType, now: DataType, *, widened: bool = True) -> bool:
    """Whether files with one type can be read as another; the fields of structs are looked at one by one elsewhere.

    Example:
        >>> can_read_as(Primitive("integer"), Primitive("long")), can_read_as(Primitive("long"), Primitive("string"))
        (True, False)
    """
    inner = paired(then, now)
    if inner is not None:
        return all(can_read_as(one, other, widened=widened) for _, one, other in inner)
    same = then == now if isinstance(then, Primitive) else type(then) is type(now)
    return same or (widened and can_widen(then, now))


def has_changed(field: Field) -> bool:
    """Whether files may hold the field in another type than it has now."""
    return _CHANGES in field.metadata


def widened_to(schema: Struct) -> frozenset[str]:
    """The types that columns were widened to, without their parameters: clients differ in which ones they read."""
    if _CHANGES not in schema.annotations:
        return frozenset()
    changes = (change for noted in schema.annotated(_CHANGES) if isinstance(noted, tuple) for change in noted)
    types = (change.get("toType") for change in changes if isinstance(change, Mapping))
    return frozenset(Primitive(each).name for each in types if isinstance(each, str))


def noted_version(protocol: Protocol, version: int | None) -> int | None:
    """The version that a change is noted with: its own under the preview of the feature, none otherwise."""
    return version if protocol.supports(FEATURES[1]) else None


def unrecorded(field: Field) -> Field:
    """The field without its recorded changes, for a table whose files never had another type."""
    return field.without([_CHANGES])


def check_type_changes(path: Path, field: Field) -> None:
    """Makes sure that every recorded change of a field's type is a known one."""
    changes = field.metadata.get(_CHANGES)
    if changes is None:
        return
    column = ".".join(path)
    if not isinstance(changes, tuple):
        raise _malformed(column, changes)
    for change in changes:
        if not isinstance(change, Mapping):
            raise _malformed(column, change)
        old, new = change.get("fromType"), change.get("toType")
        if not isinstance(old, str) or not isinstance(new, str):
            raise _malformed(column, change)
        if not can_widen(Primitive(old), Primitive(new)):
            raise UnsupportedError(
                f"column {column} was changed from {old} to {new}, which this release does not read",
                condition="TYPE_CHANGE_UNKNOWN",
                sides={"column": f"{column}: {old} to {new}", "known": "the changes that Delta's type widening allows"},
                next_step="Upgrade Halocline, or rewrite the table's old files with the new type.",
            )


def widened(field: Field, type: DataType, path: Path, version: int | None = None) -> Field:
    """The field with another type, and the changes noted that lead there.

    Only primitive types change here, also inside arrays and maps; the fields of a struct are looked at one by one.
    """
    noted = [*field.metadata.get(_CHANGES, ())]
    for steps, narrow, wide in _differences(field.type, type, ()):
        if not can_widen(narrow, wide):
            raise SchemaError(
                f"column {'.'.join(path)} cannot change its type that way without rewriting data",
                sides={"from": str(narrow)[:80], "to": str(wide)[:80]},
                next_step="Widen it to a type that holds every value, or overwrite the table.",
            )
        change: dict[str, Any] = {} if version is None else {_VERSION: version}
        change |= {"fromType": str(narrow), "toType": str(wide)}
        noted.append(change | ({"fieldPath": ".".join(steps)} if steps else {}))
    return replace(field, type=type).annotated(_CHANGES, noted or None)


def with_later_version(schema: Struct, version: int, later: int) -> Struct:
    """The schema with the changes of one version noted as those of another, for a commit that comes later."""

    def moved(_: Path, field: Field) -> Field:
        changes = field.metadata.get(_CHANGES)
        if not changes:
            return field
        ours = [{**each, _VERSION: later} if each.get(_VERSION) == version else each for each in changes]
        return field.annotated(_CHANGES, ours)

    return map_fields(schema, moved)


def _differences(old: DataType, new: DataType, steps: Path) -> Iterator[tuple[Path, DataType, DataType]]:
    if old == new:
        return
    inner = paired(old, new)
    if inner is None:
        yield steps, old, new
        return
    for step, one, other in inner:
        yield from _differences(one, other, (*steps, step))


def _malformed(column: str, found: object) -> MalformedError:
    return MalformedError(
        f"the changes of type recorded for column {column} cannot be read",
        condition="MALFORMED_METADATA",
        sides={"expected": '[{"fromType": ..., "toType": ...}]', "found": str(found)[:80]},
        next_step="Restore the metadata by reading an earlier version of the table.",
    )
