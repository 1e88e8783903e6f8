"""Properties as users give them: each has a value, and none asks for files that are not written here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from halocline.errors import InputError, UnsupportedError
from halocline.formats.delta.configuration import properties
from halocline.formats.delta.configuration.metadata_rules import ICEBERG_SWITCHES

_NOT_WRITTEN: Final = "partition columns inside of data files, and ids of the parts of arrays and maps in their footers"


def property_values(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The properties that a table is to have.

    Raises:
        InputError: One has no value.
        UnsupportedError: One asks for files that Iceberg can read.

    Example:
        >>> property_values({"delta.appendOnly": True})
        {'delta.appendOnly': 'true'}
    """
    missing = [key for key, value in (given or {}).items() if value is None]
    if missing:
        raise InputError(
            f"property {missing[0]} has no value",
            condition="PROPERTY_INVALID",
            sides={"given": "None", "expected": "text, a number, true or false"},
            next_step="unset_properties takes a property away.",
        )
    found = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (given or {}).items()}
    for key in ICEBERG_SWITCHES:
        if key in found and properties.flag(found, key):
            raise UnsupportedError(
                "files that Iceberg can read as well are not written here",
                sides={"given": f"{key}=true", "missing": _NOT_WRITTEN},
                next_step="Leave the property out, or have Delta Spark write this table.",
            )
    return found
