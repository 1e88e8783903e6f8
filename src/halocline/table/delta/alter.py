"""The one way in which a table changes what it is: its properties, constraints, columns and features.

The newest version is opened behind the gate, the change is worked out as a value, the gatekeeper is asked if the table
would require anything new, and one transaction commits it. What comes back says what changed and who was checked. A
change that changes nothing commits nothing. Rows are not moved here.

The verbs stand in `features`, `properties`, `constraints` and `columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features.approval import Approval, approve_change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema import Path
from halocline.table.delta.opened import Opened
from halocline.table.opening import as_operation

ColumnPath = str | Sequence[str]
"""A column: its name, with dots between the steps of a nested one, or the steps themselves."""


@dataclass(frozen=True)
class Altered:
    """A change that was made.

    Attributes:
        version: The version that holds it; the one that was read if there was nothing to change.
        committed: Whether there was anything to change.
        approval: What became of the protocol, and who was checked.
    """

    version: int
    committed: bool
    approval: Approval

    def __str__(self) -> str:
        if not self.committed:
            return f"nothing to change in version {self.version}"
        return f"version {self.version}: {self.approval}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


@as_operation
def alter(
    table: Opened,
    change: Callable[[TableConfiguration], TableConfiguration],
    operation: str,
    parameters: Mapping[str, Any] | None = None,
    snapshot: Snapshot | None = None,
    *,
    asked: frozenset[str] | None = frozenset(),
    depends_on_rows: bool = False,
) -> Altered:
    """Makes a change, which the history knows by an operation and its parameters, else by the protocol that came of it.

    It starts from the newest version, unless one was opened already. `asked` are the features that the user asked for;
    None if any may come in. If it depends on rows, those that come in meanwhile are a conflict.
    """
    newest = snapshot or table.snapshot("write")
    after = change(newest.configuration)
    approval = approve_change(newest.configuration, after, table.approve, asked=asked)
    if after == newest.configuration:
        return Altered(newest.version, False, approval)
    transaction = table.transaction(newest)
    if depends_on_rows:
        transaction.read_whole_table()
    told = {"newProtocol": after.protocol.to_action()} if parameters is None else parameters
    version = transaction.commit((), CommitDescription(operation, told), configuration=after)
    return Altered(version, True, approval)


def path_of(column: ColumnPath) -> Path:
    """The steps to a column."""
    if isinstance(column, str):
        return tuple(column.split("."))
    if not isinstance(column, Sequence) or not all(isinstance(step, str) for step in column):
        raise InputError(
            f"{column!r} is no name of a column",
            sides={"given": type(column).__name__, "expected": "text such as 'address.city', or a list of such names"},
        )
    return tuple(column)
