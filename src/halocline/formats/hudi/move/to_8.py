"""7 and 8: the other timeline. Merge modes take the place of payload classes, types that of key generator classes.

The mode is the one that the payload class stands for. A copy-on-write table of a release before 1.0 names no class;
its writers let the latest write win unless they were told otherwise, and so does the mode that it is given.
"""

from __future__ import annotations

from typing import Final

from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import FIRST_OF_LAYOUT_2, HudiTableConfig, KeyGeneratorType, MergeMode
from halocline.formats.hudi.merge.rules import DEFAULT, OVERWRITE
from halocline.formats.hudi.move.step import (
    CLASSES,
    MODES,
    Obstacle,
    Pairs,
    VersionStep,
    full_payload,
    merging,
    ordering_as,
    payload_of,
)
from halocline.formats.hudi.properties import CHECKSUM, NAME, VERSION, checksum

_ONLY_ABOVE: Final = (
    keys.INITIAL_VERSION,
    keys.MERGE_MODE,
    keys.MERGE_STRATEGY,
    keys.KEY_GENERATOR_TYPE,
    keys.TIMELINE_PATH,
    keys.HISTORY_PATH,
    keys.WATERMARK,
    keys.COPIED_TIMELINE,
)


def _up(pairs: Pairs) -> dict[str, str]:
    config = HudiTableConfig.parse(pairs, pairs.get(NAME, ""))
    made = {**pairs, VERSION: "8", keys.LAYOUT: "2", keys.TIMELINE_PATH: "timeline", CHECKSUM: checksum(pairs)}
    made.setdefault(keys.INITIAL_VERSION, "6")
    ordering_as(made, keys.PRECOMBINE_FIELD)
    payload = payload_of(pairs) or _written_by(config)
    merging(made, payload, MODES.get(payload, MergeMode.CUSTOM))
    if config.key_generator is not None:
        made.setdefault(keys.KEY_GENERATOR_TYPE, str(config.key_generator))
    return made


def _written_by(config: HudiTableConfig) -> str:
    return DEFAULT if config.created_by_1x and config.ordering_fields else OVERWRITE


def _down(pairs: Pairs) -> dict[str, str]:
    config = HudiTableConfig.parse(pairs, pairs.get(NAME, ""))
    made = {key: value for key, value in pairs.items() if key not in _ONLY_ABOVE}
    made |= {VERSION: "7", keys.LAYOUT: "1", keys.ARCHIVE_FOLDER: "archived"}
    ordering_as(made, keys.PRECOMBINE_FIELD)
    if keys.PAYLOAD_CLASS not in made:
        made[keys.PAYLOAD_CLASS] = full_payload(_payload_for(config))
    if keys.OLD_MERGE_STRATEGY in made:
        del made[keys.OLD_MERGE_STRATEGY]
    if keys.KEY_GENERATOR_CLASS not in made and config.key_generator in CLASSES:
        made[keys.KEY_GENERATOR_CLASS] = CLASSES[KeyGeneratorType(str(config.key_generator))]
    if made.get(keys.PARTITION_FIELDS):
        made[keys.PARTITION_FIELDS] = ",".join(
            each.strip().partition(":")[0] for each in made[keys.PARTITION_FIELDS].split(",")
        )
    return made


def _payload_for(config: HudiTableConfig) -> str:
    ordered = config.merge_mode is MergeMode.EVENT_TIME_ORDERING or (
        config.merge_mode is None and config.ordering_fields
    )
    return DEFAULT if ordered else OVERWRITE


def _not_bootstrapped(pairs: Pairs) -> Obstacle | None:
    """Its index has another name on the other side; what readers make of that was not measured."""
    if not pairs.get(keys.BOOTSTRAP_PATH):
        return None
    reason = "what the other side makes of a bootstrap's properties was not measured"
    return Obstacle(keys.BOOTSTRAP_PATH, reason, "Copy the rows to a new table at that version.")


def _not_down(pairs: Pairs) -> Obstacle | None:
    if found := _not_bootstrapped(pairs):
        return found
    below = FIRST_OF_LAYOUT_2 - 1
    if pairs.get(keys.MERGE_MODE) == MergeMode.CUSTOM and not payload_of(pairs):
        strategy = pairs.get(keys.MERGE_STRATEGY) or "none"
        return Obstacle(
            f"a custom merger ({keys.MERGE_STRATEGY}={strategy})",
            f"version {below} merges by a payload class, and the table names none",
            f"Set {keys.PAYLOAD_CLASS} to the class that merges its rows.",
        )
    user_made = pairs.get(keys.KEY_GENERATOR_TYPE, "").upper() == KeyGeneratorType.USER_PROVIDED
    if user_made and not pairs.get(keys.KEY_GENERATOR_CLASS):
        return Obstacle(
            "a key generator of its owner without a class",
            f"version {below} names key generators by their class",
            f"Set {keys.KEY_GENERATOR_CLASS}.",
        )
    return None


STEP: Final = VersionStep(7, _up, _down, not_up=_not_bootstrapped, not_down=_not_down)
