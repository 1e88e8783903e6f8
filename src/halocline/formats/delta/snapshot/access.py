"""What the gate in front of a Delta table asks besides its protocol: that the log and the metadata agree with it."""

from __future__ import annotations

from halocline.compat.agreement import disagreements
from halocline.compat.features import FeatureKind, feature, features
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import IncompatibleError
from halocline.formats.delta.configuration.table_configuration import contradiction
from halocline.formats.log.gate import UNCHECKED, WRITE, check_access


def check(release: Release, terms: Terms, facts: TableMetadata, operation: str, table: str) -> None:
    """Refuses an operation that the release may not do, or that this log and this metadata do not allow."""
    check_access(release, terms, operation, table)
    check_log(release, facts, operation, table)
    check_agreement(terms.protocol, facts, operation, table)


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
