"""The gate in front of every version and every commit of a table that has a log.

The question is asked of `halocline.compat.verdict` and answered for the terms of the table.

Who looks into a broken table may act as `UNCHECKED`. The gate then lets reads through with a warning, and what is read
may be wrong. It lets nothing else through: a change of a table that is not understood would damage it further.
"""

from __future__ import annotations

import warnings
from typing import Final

from halocline._version import __version__
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import check
from halocline.errors import IncompatibleError, InputError

WRITE: Final = "write"
MAINTENANCE: Final = "write.maintenance"

UNCHECKED: Final = Release.parse("unchecked@0")
"""Acts for a user who has switched the protocol check off."""


class UncheckedWarning(UserWarning):
    """A table is used without checking whether this release understands it."""


class LegacyProtocolWarning(UserWarning):
    """A table without a protocol action is read as (1,1)."""


def own_release() -> Release:
    """This release of Halocline: who acts, where nobody else is named."""
    return Release.parse(f"halocline@{__version__}")


def check_access(release: Release, terms: Terms, operation: str, table: str) -> None:
    """Returns if the release may do the operation to a table with these terms."""
    if release == UNCHECKED:
        if operation.startswith(WRITE):
            raise change_unchecked(table, operation)
        message = f"{table} with {terms.protocol} is used unchecked; rows may be wrong"
        warnings.warn(message, UncheckedWarning, stacklevel=3)
        return
    check(release, terms, operation, subject=table)


def change_unchecked(table: str, operation: str) -> InputError:
    """Return the error for a change of a table by somebody who has switched the protocol check off."""
    return InputError(
        f"{table} cannot be changed with the protocol check switched off, which is for looking and nothing else",
        sides={"asked for": operation, "setting": "halocline.protocol.checkEnabled=false"},
        next_step="Open the table without halocline.protocol.checkEnabled; where its protocol is broken, "
        "repair that first: halocline lint TABLE --fix",
    )


def check_transition(before: Protocol, after: Protocol, dropped: str | None, table: str) -> None:
    """Makes sure that a commit only adds features, or takes out exactly the one it says it drops."""
    if before.can_upgrade_to(after) or (dropped is not None and before.can_downgrade_to(after, dropped)):
        return
    lost = ", ".join(sorted(before.features - after.features))
    raise IncompatibleError(
        f"the new protocol of {table} lacks {lost or 'features'} of the old one",
        condition="PROTOCOL_NOT_DOWNGRADABLE",
        sides={"before": str(before), "after": str(after)},
        next_step=f"Drop one feature at a time: "
        f"Table.for_path({table!r}).drop_feature_support({lost.partition(',')[0] or 'FEATURE'!r})",
    )
