"""Properties that ask a Delta table for a protocol.

A *request* is a property that people set and that is never stored: `delta.minReaderVersion` and
`delta.minWriterVersion` ask for all features that a pair of numbers stands for, `delta.feature.<name>` asks for one
feature, `delta.ignoreProtocolDefaults` asks a new table to start from nothing. Their keys and values are read without
regard to case. What they ask for becomes part of the protocol, and only the protocol is kept.

A request that cannot be met, such as a version that is not defined or a feature that nobody knows, is refused here,
before there is anything to commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halocline.compat.features import features, find_feature, rules
from halocline.errors import InputError

MIN_READER_VERSION: Final = "delta.minReaderVersion"
MIN_WRITER_VERSION: Final = "delta.minWriterVersion"
IGNORE_PROTOCOL_DEFAULTS: Final = "delta.ignoreProtocolDefaults"
FEATURE_PREFIX: Final = "delta.feature."

_KEYS: Final = {key.casefold(): key for key in (MIN_READER_VERSION, MIN_WRITER_VERSION, IGNORE_PROTOCOL_DEFAULTS)}


@dataclass(frozen=True, slots=True)
class Request:
    """What the properties ask for.

    Args:
        reader: The reader version asked for, if any.
        writer: The writer version asked for, if any.
        named: The features asked for by name.
        ignore_defaults: True if a new table is to start from nothing.
    """

    reader: int | None = None
    writer: int | None = None
    named: tuple[str, ...] = ()
    ignore_defaults: bool = False

    @staticmethod
    def read(configuration: Mapping[str, str]) -> Request:
        """Reads the requests among the properties, and refuses values that no writer may set."""
        _check_values(configuration)
        asked = {_KEYS[key.casefold()]: value for key, value in configuration.items() if key.casefold() in _KEYS}
        how = rules("delta")
        return Request(
            _version(asked, MIN_READER_VERSION, how.readers),
            _version(asked, MIN_WRITER_VERSION, how.writers),
            tuple(_named(configuration)),
            asked.get(IGNORE_PROTOCOL_DEFAULTS, "").casefold() == "true",
        )


def is_request(key: str) -> bool:
    """True for a property that asks for a protocol and is never stored."""
    folded = key.casefold()
    return folded in _KEYS or folded.startswith(FEATURE_PREFIX)


def stored_configuration(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties that are stored with a table: all but the requests."""
    return {key: value for key, value in configuration.items() if not is_request(key)}


def _version(asked: Mapping[str, str], key: str, defined: tuple[int, ...]) -> int | None:
    if key not in asked:
        return None
    digits = asked[key].strip()
    if digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) in defined:
        return int(digits)
    raise InputError(
        f"{key}={asked[key]} is no version that is defined",
        sides={"asked for": f"{key}={asked[key]}", "defined": f"{defined[0]} to {defined[-1]}"},
        next_step=f"Set {key} to one of the defined versions, or leave it out.",
    )


def _named(configuration: Mapping[str, str]) -> list[str]:
    names = []
    for key, value in configuration.items():
        if not key.casefold().startswith(FEATURE_PREFIX):
            continue
        record = find_feature("delta", key[len(FEATURE_PREFIX) :])
        if value.casefold() not in ("supported", "enabled"):
            raise _refused(key, value, "supported")
        if not record.by_property:
            raise InputError(
                f"{record.name} is not asked for by a property",
                condition="FEATURE_DEPENDENCY",
                sides={"asked for": f"{key}={value}", record.name: record.note},
                next_step=f"Leave {key} out.",
            )
        names.append(record.name)
    return names


def _check_values(configuration: Mapping[str, str]) -> None:
    for record in features("delta").values():
        for rule in record.enabled_by:
            if rule.refuses(configuration):
                raise _refused(rule.key, configuration[rule.key], ", ".join(sorted(rule.among)))


def _refused(key: str, value: str, allowed: str) -> InputError:
    return InputError(
        f"{key}={value} cannot be used",
        sides={"asked for": f"{key}={value}", "allowed": allowed},
        next_step=f"Set {key} to an allowed value, or leave it out.",
    )
