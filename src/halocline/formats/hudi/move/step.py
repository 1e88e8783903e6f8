"""A step between two neighbouring table versions: how properties read on both sides, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import KeyGeneratorType, MergeMode
from halocline.formats.hudi.merge.rules import (
    DEFAULT,
    EVENT_TIME,
    NON_DEFAULTS,
    OVERWRITE,
    PARTIAL,
    PAYLOAD_STRATEGY,
    STRATEGY_IDS,
)

Pairs = Mapping[str, str]

PAYLOADS: Final = "org.apache.hudi.common.model."
"""Where Hudi's own payload classes live."""

MODES: Final[Mapping[str, MergeMode]] = {
    DEFAULT: MergeMode.EVENT_TIME_ORDERING,
    EVENT_TIME: MergeMode.EVENT_TIME_ORDERING,
    OVERWRITE: MergeMode.COMMIT_TIME_ORDERING,
}
"""The payload classes that a merge mode stands for."""

CLASSES: Final[Mapping[KeyGeneratorType, str]] = {
    KeyGeneratorType.SIMPLE: "org.apache.hudi.keygen.SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: "org.apache.hudi.keygen.ComplexKeyGenerator",
    KeyGeneratorType.TIMESTAMP: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: "org.apache.hudi.keygen.CustomKeyGenerator",
    KeyGeneratorType.NON_PARTITION: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    KeyGeneratorType.GLOBAL_DELETE: "org.apache.hudi.keygen.GlobalDeleteKeyGenerator",
}
"""The class that stands for each type of key generator."""

PARTIAL_MODES: Final[Mapping[tuple[str, MergeMode], str]] = {
    ("IGNORE_DEFAULTS", MergeMode.COMMIT_TIME_ORDERING): NON_DEFAULTS,
    ("IGNORE_DEFAULTS", MergeMode.EVENT_TIME_ORDERING): PARTIAL,
}
"""The payload class that merged in this way before version 9."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stands in the way of a move.

    Attributes:
        feature: What the table has.
        reason: Why the other version cannot hold it.
        fix: What to do about it.
    """

    feature: str
    reason: str
    fix: str


def no_obstacle(pairs: Pairs) -> Obstacle | None:
    """Nothing stands in the way."""
    return None


@dataclass(frozen=True)
class VersionStep:
    """A step between two neighbouring versions.

    Attributes:
        lower: The lower version.
        up: The properties at the upper version, from those at the lower.
        down: The properties at the lower version, from those at the upper.
        not_up: What stands in the way up.
        not_down: What stands in the way down.
    """

    lower: int
    up: Callable[[Pairs], dict[str, str]]
    down: Callable[[Pairs], dict[str, str]]
    not_up: Callable[[Pairs], Obstacle | None] = no_obstacle
    not_down: Callable[[Pairs], Obstacle | None] = no_obstacle

    @property
    def upper(self) -> int:
        """The upper version."""
        return self.lower + 1


def payload_of(pairs: Pairs) -> str | None:
    """The payload class, by its short name where it is Hudi's own."""
    name = pairs.get(keys.PAYLOAD_CLASS) or pairs.get(keys.LEGACY_PAYLOAD_CLASS)
    return name.removeprefix(PAYLOADS) if name else None


def full_payload(name: str) -> str:
    """The full name of a payload class."""
    return name if "." in name else PAYLOADS + name


def merging(pairs: dict[str, str], payload: str, mode: MergeMode) -> None:
    """Writes down how version 8 merges: the class, the mode and the id of the strategy agree with each other."""
    strategy = STRATEGY_IDS.get(mode, PAYLOAD_STRATEGY)
    pairs[keys.PAYLOAD_CLASS] = full_payload(payload)
    pairs[keys.MERGE_MODE] = str(mode)
    pairs[keys.MERGE_STRATEGY] = strategy
    if keys.OLD_MERGE_STRATEGY in pairs:
        pairs[keys.OLD_MERGE_STRATEGY] = strategy


def ordering_as(pairs: dict[str, str], key: str) -> None:
    """Writes the ordering fields under one of the two keys that stand for them."""
    fields = pairs.pop(keys.ORDERING_FIELDS, "") or pairs.get(keys.PRECOMBINE_FIELD, "")
    pairs.pop(keys.PRECOMBINE_FIELD, None)
    if fields:
        pairs[key] = fields
