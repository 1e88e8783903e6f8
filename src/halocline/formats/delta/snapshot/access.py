"""The gate in front of every snapshot and every commit, for the protocol before it and the protocol after it.

The question is asked of `halocline.compat.verdict` and answered for the terms of the table.

Who looks into a broken table may act as `UNCHECKED`. The gate then lets everything through with a warning, and what is
read may be wrong.
"""

from __future__ import annotations

import warnings
from typing import Final

from halocline.compat.agreement import disagreements
from halocline.compat.features import FeatureKind, feature, features
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import check
from halocline.errors import IncompatibleError
from halocline.formats.delta.configuration.table_configuration import contradiction

WRITE: Final = "write"
MAINTENANCE: Final = "write.maintenance"

UNCHECKED: Final = Release.parse("unchecked@0")
"""Acts for a user who has switched the protocol check off."""


class UncheckedWarning(UserWarning):
    """A table is used without checking whether this release understands it."""


def check_access(release: Release, terms: Terms, operation: str, table: str) -> None:
    """Returns if the release may do the operation to a table with these terms."""
    if release == UNCHECKED:
        message = f"{table} with {terms.protocol} is used unchecked; rows may be wrong"
        warnings.warn(message, UncheckedWarning, stacklevel=3)
        return
    check(release, terms, operation, subject=table)


def check_agreement(protocol: Protocol, facts: TableMetadata, operation: str, table: str) -> None:
    """Makes sure that nothing is switched on that an operation depends on and the protocol does not tell of."""
    for finding in disagreements(protocol, facts):
        concerns = (
            operation.startswith(WRITE) or feature(protocol.format, finding.feature).kind is FeatureKind.READER_WRITER
        )
        if finding.code == "ENABLED_NOT_SUPPORTED" and finding.fatal and concerns:
            raise contradiction(protocol, str(finding), table)


def check_log(release: Release, facts: TableMetadata, operation: str, table: str) -> None:
    """Makes sure that the log alone says what the table is, whatever the protocol lists."""
    for record in features("delta").values():
        shown = next((rule for rule in record.log_elsewhere if rule.holds(facts)), None)
        if shown is not None and release != UNCHECKED:
            raise IncompatibleError(
                f"{table} uses {record.name}: commits that are not yet in its log would be missed",
                condition="WRITER_TOO_OLD" if operation.startswith(WRITE) else "READER_TOO_OLD",
                sides={"table has": str(shown), "you are": f"{release}, which goes by the log alone"},
                next_step=f"Drop {record.name} with the engine that set it, or use that engine.",
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
