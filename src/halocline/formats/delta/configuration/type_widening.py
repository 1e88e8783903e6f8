"""Type widening: columns whose type grows without rewriting data.

A *widening* is a change of a primitive type that every old value survives. The schema notes each one, so that readers
know which files hold the narrower type: in the metadata of the nearest struct field, with the steps inside arrays and
maps as `fieldPath`. Tables under the preview of the feature also note the version of the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import schema_edit
from halocline.formats.delta.configuration.type_changes import TYPE_CHANGES, can_widen


def changes(old: Any, new: Any, path: schema_edit.Path, version: int | None = None) -> list[dict[str, Any]]:
    """The changes to note in a struct field whose type goes from one to another.

    Only primitive types change here, also inside arrays and maps; the fields of a struct are looked at one by one.

    Args:
        old: The type so far.
        new: The type asked for.
        path: The column, for messages.
        version: The version of the change, for tables under the preview.

    Raises:
        SchemaError: The change is no widening.
    """
    found = []
    for steps, narrow, wide in _differences(old, new, (), path):
        if not (isinstance(narrow, str) and isinstance(wide, str) and can_widen(narrow, wide)):
            raise SchemaError(
                f"column {'.'.join(path)} cannot change its type that way without rewriting data",
                sides={"from": _text(narrow), "to": _text(wide)},
                next_step="Widen it to a type that holds every value, or overwrite the table.",
            )
        change: dict[str, Any] = {"fromType": narrow, "toType": wide}
        if steps:
            change["fieldPath"] = ".".join(steps)
        found.append(change if version is None else {"tableVersion": version, **change})
    return found


def noted(field: schema_edit.Node, found: list[dict[str, Any]]) -> schema_edit.Node:
    """The field with further changes noted."""
    if not found:
        return field
    before = (field.get("metadata") or {}).get(TYPE_CHANGES) or []
    return schema_edit.with_annotation(field, TYPE_CHANGES, [*before, *found])


def _differences(
    old: Any, new: Any, steps: tuple[str, ...], path: schema_edit.Path
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if old == new:
        return
    inner_old, inner_new = list(schema_edit.children(old)), list(schema_edit.children(new))
    if inner_old and [step for step, _ in inner_old] == [step for step, _ in inner_new]:
        for (step, one), (_, other) in zip(inner_old, inner_new, strict=True):
            yield from _differences(one, other, (*steps, step), path)
        return
    yield steps, old, new


def _text(type: Any) -> str:
    return type if isinstance(type, str) else schema_edit.dump(type)[:80]
