"""Text of limited length: char and varchar.

A table stores such a column as plain text; its declared type stands in the field's metadata. Values of `char(n)` are
padded with blanks to n characters. Blanks at the end that are too many are cut off, as SQL asks; any other character
too many breaks the rule that `halocline.spark.write.rules` makes of the declared type.

The limit: only columns at the top of the schema can be declared so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import schema_edit
from halocline.spark.types.columns import Field

DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key under which Spark keeps the declared type."""

_TYPE: Final = re.compile(r"(?P<kind>char|varchar)\s*\(\s*(?P<length>\d+)\s*\)", re.IGNORECASE)


def stored(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a table stores it: text instead of char and varchar, the declared type in the metadata.

    Raises:
        SchemaError: A type of limited length stands inside another type.

    Example:
        >>> field = {"name": "c", "type": "char(3)", "nullable": True, "metadata": {}}
        >>> stored({"type": "struct", "fields": [field]})["fields"][0]["metadata"]
        {'__CHAR_VARCHAR_TYPE_STRING': 'char(3)'}
    """

    def changed(path: schema_edit.Path, field: schema_edit.Node) -> schema_edit.Node:
        if len(path) == 1 and isinstance(field["type"], str) and _TYPE.fullmatch(field["type"]):
            return schema_edit.with_annotation({**field, "type": "string"}, DECLARED, field["type"])
        if (found := _limited(field["type"])) is not None:
            raise SchemaError(
                f"column {'.'.join(path)} holds {found}, and text of limited length cannot stand inside another type",
                sides={"given": found, "possible": "string, or a column of its own"},
                next_step="Declare it as string.",
            )
        return field

    return dict(schema_edit.map_fields(schema, changed))


def fitted(sql: str, field: Field) -> str:
    """SQL for a text as its column keeps it: padded, or without blanks too many at the end.

    Example:
        >>> fitted("`n`", {"name": "n", "type": "string", "metadata": {}})
        '`n`'
    """
    declared = _TYPE.fullmatch(str((field.get("metadata") or {}).get(DECLARED, "")))
    if declared is None:
        return sql
    length = declared["length"]
    if declared["kind"].lower() == "varchar":
        return f"CASE WHEN length(rtrim({sql})) <= {length} THEN left({sql}, {length}) ELSE {sql} END"
    # Longer text stays as it is, for the rule on its length to find.
    return f"CASE WHEN length(rtrim({sql})) <= {length} THEN rpad({sql}, {length}, ' ') ELSE {sql} END"


def _limited(type: Any) -> str | None:
    if isinstance(type, str):
        return type if _TYPE.fullmatch(type) else None
    return next((found for _, child in schema_edit.children(type) if (found := _limited(child)) is not None), None)
