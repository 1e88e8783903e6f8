"""Changes of type that data files may lag behind.

Type widening lets a column take a wider type while old files keep the narrower one. Each change is recorded in the
field's metadata. A reader must refuse changes it does not know, since it could not tell what the old files mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from halocline.errors import MalformedError, UnsupportedError

TYPE_CHANGES: Final = "delta.typeChanges"

_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
}
# How many digits before the decimal point hold every value of a whole-number type.
_WHOLE_DIGITS: Final[Mapping[str, int]] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)


def can_widen(old: str, new: str) -> bool:
    """Whether every value of the old type has its place in the new one, by the rules of the format.

    Example:
        >>> can_widen("integer", "decimal(12,2)"), can_widen("long", "double")
        (True, False)
    """
    if new in _WIDER.get(old, ()):
        return True
    wider = _DECIMAL.fullmatch(new)
    if wider is None:
        return False
    narrower = _DECIMAL.fullmatch(old)
    precision, scale = (int(narrower[1]), int(narrower[2])) if narrower else (_WHOLE_DIGITS.get(old, 99), 0)
    more_scale = int(wider[2]) - scale
    return 0 <= more_scale <= int(wider[1]) - precision


def check_type_changes(column: str, metadata: Mapping[str, Any]) -> None:
    """Makes sure that every recorded change of a column's type is a known one.

    Raises:
        MalformedError: The record cannot be read.
        UnsupportedError: It holds a change that this release does not know.
    """
    changes = metadata.get(TYPE_CHANGES)
    if changes is None:
        return
    if not isinstance(changes, list):
        raise _malformed(column, changes)
    for change in changes:
        if not isinstance(change, dict):
            raise _malformed(column, change)
        old, new = change.get("fromType"), change.get("toType")
        if not isinstance(old, str) or not isinstance(new, str):
            raise _malformed(column, change)
        if not can_widen(old, new):
            raise UnsupportedError(
                f"column {column} was changed from {old} to {new}, which this release does not read",
                condition="TYPE_CHANGE_UNKNOWN",
                sides={"column": f"{column}: {old} to {new}", "known": "the changes that Delta's type widening allows"},
                next_step="Upgrade Halocline, or rewrite the table's old files with the new type.",
            )


def _malformed(column: str, found: object) -> MalformedError:
    return MalformedError(
        f"the changes of type recorded for column {column} cannot be read",
        condition="MALFORMED_METADATA",
        sides={"expected": '[{"fromType": ..., "toType": ...}]', "found": str(found)[:80]},
        next_step="Restore the metadata by reading an earlier version of the table.",
    )
