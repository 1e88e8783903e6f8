"""Taking a feature out of a table: when it is possible at all.

A feature can be dropped if the table has it, its record says how, and no other feature of the table requires it. What
the steps are stands in the record; carrying them out is the formats' work.

Old versions of the table may still use the feature. Then its record has a *barrier*: the history is truncated, or it
is protected by the feature `checkpointProtection`, which becomes a requirement of its own.
"""

from __future__ import annotations

from typing import Final

from halocline.compat.features import Feature, feature
from halocline.errors import InputError

CHECKPOINT_PROTECTION: Final = "checkpointProtection"
"""The feature that protects history after another one was dropped without truncating it."""


def check_droppable(
    record: Feature, supported: frozenset[str], table: str, *, defined: bool = True, protect_history: bool = False
) -> None:
    """Refuses a feature that cannot be taken out of a table with these features."""

    def refused(message: str, next_step: str, condition: str = "FEATURE_NOT_DROPPABLE") -> InputError:
        sides = {"table": table, "to drop": record.name}
        return InputError(message, condition=condition, sides=sides, next_step=next_step)

    if not defined:
        raise refused(
            f"the table's versions are higher than any that is defined, so {record.name} may be needed by them",
            "Drop it with the release that wrote the table.",
        )
    if record.name not in supported:
        others = f"Name one of: {', '.join(sorted(supported))}." if supported else "There is nothing to drop."
        raise refused(f"the table does not have feature {record.name}", others)
    if record.drop is None:
        why = "is not known" if not record.known else "cannot be taken out of a table"
        raise refused(f"feature {record.name} {why}", "Copy the rows into a new table without it.")
    if dependents := sorted(each for each in supported if record.name in feature(record.format, each).requires):
        names = ", ".join(dependents)
        raise refused(f"feature {record.name} is required by {names}", f"Drop {names} first.", "FEATURE_DEPENDENCY")
    if protect_history and record.drop.only_with_truncation:
        message = f"feature {record.name} can be dropped only by truncating the history it protects"
        raise refused(message, "Truncate the history with it.")
