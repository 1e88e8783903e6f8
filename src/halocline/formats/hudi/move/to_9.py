"""8 and 9: only properties. Hudi's own payload classes become merge modes, the precombine field ordering fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import MergeMode
from halocline.formats.hudi.merge.rules import DEFAULT, DMS, NON_DEFAULTS, OVERWRITE, PARTIAL
from halocline.formats.hudi.move.step import (
    MODES,
    PARTIAL_MODES,
    Obstacle,
    Pairs,
    VersionStep,
    full_payload,
    merging,
    ordering_as,
    payload_of,
)
from halocline.formats.hudi.properties import VERSION

_RETIRED: Final[Mapping[str, MergeMode]] = {
    **MODES,
    PARTIAL: MergeMode.EVENT_TIME_ORDERING,
    NON_DEFAULTS: MergeMode.COMMIT_TIME_ORDERING,
    DMS: MergeMode.COMMIT_TIME_ORDERING,
}
"""The payload classes that version 9 no longer has, with the mode that takes the place of each."""

_DELETES: Final = {
    f"{keys.MERGE_PROPERTY}hoodie.payload.delete.field": "Op",
    f"{keys.MERGE_PROPERTY}hoodie.payload.delete.marker": "D",
}
_DEBEZIUM: Final = ("MySqlDebeziumAvroPayload", "PostgresDebeziumAvroPayload")


def _up(pairs: Pairs) -> dict[str, str]:
    made = {**pairs, VERSION: "9"}
    ordering_as(made, keys.ORDERING_FIELDS)
    payload = payload_of(pairs)
    mode = _RETIRED.get(payload or "")
    if payload is None or mode is None:
        if made.get(keys.MERGE_MODE) != MergeMode.CUSTOM:
            made.pop(keys.MERGE_STRATEGY, None)
        return made
    made[keys.LEGACY_PAYLOAD_CLASS] = full_payload(payload)
    made[keys.MERGE_MODE] = str(mode)
    made.pop(keys.PAYLOAD_CLASS, None)
    made.pop(keys.MERGE_STRATEGY, None)
    if payload in (PARTIAL, NON_DEFAULTS):
        made[keys.PARTIAL_UPDATE_MODE] = "IGNORE_DEFAULTS"
    if payload == DMS:
        made |= _DELETES
    return made


def _down(pairs: Pairs) -> dict[str, str]:
    made = {key: value for key, value in pairs.items() if not key.startswith(keys.MERGE_PROPERTY)}
    made[VERSION] = "8"
    partial = made.pop(keys.PARTIAL_UPDATE_MODE, "").upper()
    made.pop(keys.LEGACY_PAYLOAD_CLASS, None)
    ordering_as(made, keys.PRECOMBINE_FIELD)
    mode = MergeMode(pairs.get(keys.MERGE_MODE) or MergeMode.COMMIT_TIME_ORDERING)
    payload = payload_of(pairs) or PARTIAL_MODES.get((partial, mode))
    if mode is MergeMode.CUSTOM and payload is None:
        return made
    if payload is None:
        payload = DEFAULT if mode is MergeMode.EVENT_TIME_ORDERING else OVERWRITE
    merging(made, payload, MODES.get(payload, MergeMode.CUSTOM))
    return made


def _not_up(pairs: Pairs) -> Obstacle | None:
    payload = payload_of(pairs)
    if payload in _DEBEZIUM:
        return Obstacle(
            f"payload class {payload}",
            "version 9 keeps what it does in properties that this release does not write",
            "Move the table with Apache Hudi, or stay at version 8.",
        )
    return None


def _not_down(pairs: Pairs) -> Obstacle | None:
    fields = [each for each in pairs.get(keys.ORDERING_FIELDS, "").split(",") if each.strip()]
    if len(fields) > 1:
        return Obstacle(
            f"{len(fields)} ordering fields ({keys.ORDERING_FIELDS}={','.join(fields)})",
            "version 8 orders rows by one field",
            "Rewrite the table with one ordering field.",
        )
    mode = MergeMode(pairs.get(keys.MERGE_MODE) or MergeMode.COMMIT_TIME_ORDERING)
    partial = pairs.get(keys.PARTIAL_UPDATE_MODE, "").upper()
    if partial in ("", "NONE") or payload_of(pairs) or (partial, mode) in PARTIAL_MODES:
        return None
    return Obstacle(
        f"{keys.PARTIAL_UPDATE_MODE}={partial}",
        "no payload class of version 8 merges like that",
        f"Remove {keys.PARTIAL_UPDATE_MODE} if the table no longer needs it.",
    )


STEP: Final = VersionStep(8, _up, _down, _not_up, _not_down)
