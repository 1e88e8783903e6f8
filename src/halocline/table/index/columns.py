"""The columns of an index table, and how each of them is indexed, as users say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from halocline.errors import InputError, UnsupportedError
from halocline.formats.index.split.fields import OPTIONS_KEY, FieldOptions
from halocline.schema.char_types import DECLARED, declared_type
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import check_columns


def table_columns(what: Any) -> Struct:
    """The columns of a table that takes rows like these, or is declared so.

    Raises:
        SchemaError: There is none.
        UnsupportedError: One of them cannot be in a split.
    """
    if input_schema.is_frame(what):
        found = nullable(input_schema.columns_of(input_schema.checked_frame(what)))
        found = found.with_fields(field.without([DECLARED]) for field in found.fields)
    else:
        found = input_schema.declared(what)
    for field in found.fields:
        if declared_type(field) is not None:
            raise UnsupportedError(
                f"column {field.name} has text of limited length, which index tables do not check",
                sides={"column": field.name, "possible": "STRING"},
                next_step="Declare the column as STRING.",
            )
    return check_columns(found)


def field_options(given: Mapping[str, Any], columns: Struct) -> dict[str, str]:
    """How columns are indexed, as the property that holds it; nothing if nothing is said.

    Raises:
        InputError: There is no such option.
        NotFoundError: There is no such column.
    """
    known = FieldOptions.__struct_fields__
    found: dict[str, Any] = {}
    for column, said in given.items():
        options = {"type": said} if isinstance(said, str) else said
        if not isinstance(options, Mapping):
            raise InputError(
                f"fields says nothing of column {column!r} that can be used",
                sides={"given": repr(said)[:80], "expected": "a kind, or a dict of options"},
            )
        for key in options:
            if key not in known:
                raise InputError.unknown(f"column {column!r} has no option {key!r}", key, known)
        found[columns.find([column])[0][0]] = dict(options)
    return {OPTIONS_KEY: json.dumps(found, separators=(",", ":"))} if found else {}
