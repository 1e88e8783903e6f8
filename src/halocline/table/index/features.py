"""What an index table requires of others: more of it, by name or by number. There is no way back."""

from __future__ import annotations

from halocline.compat.features import find_feature
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.index.protocol import AVRO_STATE
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation


@as_operation
def upgrade(table: IndexOpened, to: str | int) -> Terms:
    """Raises the protocol to a version, or to what a feature needs, and returns what the table asks of others now.

    What the table has stays. Nothing is done if it requires that already.

    Args:
        table: The table.
        to: A version, 2 to 5, or the name of a feature.

    Raises:
        IncompatibleError: Somebody known would break, or this release cannot write such a table.
        InputError: There is no such version.
        NotFoundError: No feature of that name is known.

    Example:
        >>> Table.for_path("lake/logs").upgrade(2).protocol.writer  # doctest: +SKIP
        2
    """
    snapshot = table.snapshot("write")
    wanted = _protocol(to)
    transaction = table.transaction(snapshot, at_least=wanted)
    after = transaction.terms_after([])
    if after.protocol == snapshot.protocol and snapshot.has_protocol:
        return snapshot.terms
    table.commit(transaction, [], "UPGRADE PROTOCOL")
    return after


def _protocol(to: str | int) -> Protocol:
    wanted: Protocol | None = None
    if isinstance(to, str) and not to.isdigit():
        wanted = Protocol.of("index", [find_feature("index", to).name])
    elif int(to) in range(1, 6):
        wanted = Protocol.index(int(to), int(to))
    if wanted is None or wanted.reader == Protocol.of("index", [AVRO_STATE]).reader:
        raise InputError(
            f"there is no version {to} to move an index table to",
            sides={"asked for": str(to), "possible": "1, 2, 3 and 5; 4 is for tables with an Avro state"},
            next_step="Choose one of them.",
        )
    return wanted
