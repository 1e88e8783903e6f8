"""Changing what a table is: its properties, constraints, columns, and the features that it requires of others.

Every change goes the same way: the newest version is opened behind the gate, the change is worked out as a value, the
gatekeeper is asked if the table would require anything new, and one transaction commits it. What comes back says what
changed and who was checked. A change that changes nothing commits nothing.

Nothing here moves rows by itself. Where existing rows must be looked at (a new constraint) or written again (some
features on their way out), a *validator* or a *rewriter* does it; the table brings them along where it has an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from halocline.compat.forecast import Client
from halocline.compat.protocol import Protocol
from halocline.errors import InputError
from halocline.formats.delta.commit.transaction import Clock, Transaction, system_clock
from halocline.formats.delta.configuration import alter, row_tracking, schema_edit
from halocline.formats.delta.configuration.properties import flag
from halocline.formats.delta.configuration.schema_edit import Node, Path
from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.features import drop, row_ids, support
from halocline.formats.delta.features.drop import Dropped
from halocline.formats.delta.features.drop_plan import DropPlan, plan_drop
from halocline.formats.delta.features.drop_work import Rewriter
from halocline.formats.delta.features.support import Admission
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.table.gatekeeper import Change
from halocline.table.opening import Opened

Validator = Callable[[Snapshot, str, str], None]
"""Called with a snapshot, the name and the expression of a constraint; raises if a row does not fit it."""

ColumnPath = str | Sequence[str]
"""A column: its name, with dots between the steps of a nested one, or the steps themselves."""


@dataclass(frozen=True)
class Altered:
    """A change that was made.

    Attributes:
        version: The version that holds it; the one that was read if there was nothing to change.
        committed: Whether there was anything to change.
        admission: What became of the protocol, and who was checked.
    """

    version: int
    committed: bool
    admission: Admission

    def __str__(self) -> str:
        if not self.committed:
            return f"nothing to change in version {self.version}"
        return f"version {self.version}: {self.admission}"


class Altering(Opened):
    """The part of `Table` that changes what a table is."""

    _clock: Clock = staticmethod(system_clock)

    # ------------------------------------------------------------------ features

    def add_feature_support(self, name: str) -> Altered:
        """Adds a feature, and what it requires, to the table's protocol, without switching it on.

        Raises:
            IncompatibleError: Somebody known would break, or this release cannot write such a table.
            NotFoundError: No feature of that name is known.
        """
        return self._alter(
            lambda state: support.with_feature(state, name),
            "UPGRADE PROTOCOL",
            _protocol_parameters,
            asked=None,
        )

    def upgrade_table_protocol(self, reader: int, writer: int) -> Altered:
        """Raises the table's protocol to what a pair of version numbers stands for; it is never lowered.

        Raises:
            IncompatibleError: Somebody known would break, or this release cannot write such a table.
            InputError: There is no such pair of versions.
        """
        return self._alter(
            lambda state: support.with_versions(state, reader, writer),
            "UPGRADE PROTOCOL",
            _protocol_parameters,
            asked=None,
        )

    def drop_feature_support(self, name: str, truncate_history: bool = False) -> Dropped:
        """Takes a feature out of the table; see `halocline.formats.delta.features.drop`.

        Args:
            name: The feature.
            truncate_history: Delete old versions that use it, rather than protect them. That takes two calls, a day
                apart, and leaves nothing behind that other clients do not know.

        Raises:
            NotYetError: History must grow older first; call again at the time that the error names.
            InputError: The table does not have the feature, or it cannot be dropped as things stand.
        """
        self.snapshot("write.metadata")
        return drop.drop_feature(
            self.store,
            name,
            truncate_history=truncate_history,
            admit=self._admit,
            rewriter=self._rewriter(),
            release=self.release,
            clock=self._clock,
            legacy_protocol=self.settings.allow_missing_protocol,
        )

    def plan_drop(self, name: str, clients: Iterable[Client] = ()) -> DropPlan:
        """What dropping a feature takes, and whom each way leaves able to write. Nothing is changed."""
        self.snapshot("write.metadata")
        return plan_drop(self.store, name, clients=tuple(clients))

    # ------------------------------------------------------------------ properties

    def set_properties(self, values: Mapping[str, str]) -> Altered:
        """Sets properties; one that switches a feature on also adds it to the protocol.

        Raises:
            InputError: A property cannot have that value, or an existing table gains the feature only by name.
            IncompatibleError: Somebody known would break.
        """
        wanted = {key: str(value) for key, value in values.items()}
        state = self._state(snapshot := self.snapshot("write"))
        target = alter.set_properties(state, wanted)
        if flag(target.metadata.configuration, row_ids.ENABLED) and not flag(snapshot.configuration, row_ids.ENABLED):
            return self._enable_row_tracking(wanted)
        return self._alter(
            lambda state: alter.set_properties(state, wanted),
            "SET TBLPROPERTIES",
            lambda _: {"properties": wanted},
            snapshot,
            asked=support.asked_by(wanted, snapshot.protocol),
        )

    def unset_properties(self, keys: Iterable[str], *, if_exists: bool = False) -> Altered:
        """Takes properties away. Features stay in the protocol; `drop_feature_support` takes one out."""
        names = list(keys)
        return self._alter(
            lambda state: alter.unset_properties(state, names, if_exists=if_exists),
            "UNSET TBLPROPERTIES",
            lambda _: {"properties": names, "ifExists": if_exists},
        )

    def set_comment(self, comment: str | None, column: ColumnPath | None = None) -> Altered:
        """Describes the table, or one of its columns, for people; None takes the description away."""
        if column is None:
            return self._alter(
                lambda state: _described(state, comment),
                "SET TBLPROPERTIES",
                lambda _: {"properties": {"comment": comment}},
            )
        path = _path(column)
        return self._alter(
            lambda state: state.evolved(schema=_commented(state, path, comment)),
            "CHANGE COLUMN",
            lambda _: {"column": {"name": ".".join(path), "metadata": {"comment": comment}}},
        )

    # ------------------------------------------------------------------ constraints

    def add_constraint(self, name: str, expression: str, *, validator: Validator | None = None) -> Altered:
        """Adds a CHECK constraint, once every existing row has been found to fit it.

        Args:
            name: The name of the constraint.
            expression: A Spark SQL condition over the table's columns.
            validator: Makes sure of the existing rows; the table's own if left out.

        Raises:
            ConstraintError: A row does not fit.
            InputError: The table has files, and nobody can look at their rows.
        """
        snapshot = self.snapshot("write")
        alter.add_constraint(self._state(snapshot), name, expression)
        if snapshot.totals[0]:
            check = validator or self._validator()
            if check is None:
                raise InputError(
                    f"existing rows of {self.url} must be checked against constraint {name}, which takes Spark",
                    sides={"table": f"{snapshot.totals[0]} files", "opened": "without a Spark session"},
                    next_step="Open the table with a session: Table.for_path(path, spark)",
                )
            check(snapshot, name, expression)
        return self._alter(
            lambda state: alter.add_constraint(state, name, expression),
            "ADD CONSTRAINT",
            lambda _: {"name": name, "expr": expression},
            snapshot,
            asked=frozenset({"checkConstraints"}),
            depends_on_rows=True,
        )

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> Altered:
        """Takes a CHECK constraint away; the feature stays in the protocol."""
        return self._alter(
            lambda state: alter.drop_constraint(state, name, if_exists=if_exists),
            "DROP CONSTRAINT",
            lambda _: {"name": name},
        )

    # ------------------------------------------------------------------ columns

    def add_columns(self, columns: Sequence[Node], parent: ColumnPath = ()) -> Altered:
        """Adds nullable columns at the end of the table or of a struct.

        A column whose type needs a feature that the table lacks is refused: add the feature first, or allow writes to
        raise the protocol with `halocline.protocol.autoUpgrade`.
        """
        where = _path(parent)

        def grown(state: TableState) -> TableState:
            future = {"type": "struct", "fields": [*state.schema["fields"], *columns]}
            ready = support.prepared_for(state, future, auto_upgrade=self.settings.auto_upgrade, table=self.url)
            return alter.add_columns(ready, columns, where)

        added = [{"column": dict(each)} for each in columns]
        asked = None if self.settings.auto_upgrade else frozenset[str]()
        return self._alter(grown, "ADD COLUMNS", lambda _: {"columns": added}, asked=asked)

    def rename_column(self, column: ColumnPath, name: str) -> Altered:
        """Gives a column another name; needs column mapping."""
        path = _path(column)
        to = ".".join((*path[:-1], name))
        return self._alter(
            lambda state: alter.rename_column(state, path, name),
            "RENAME COLUMN",
            lambda _: {"oldColumnPath": ".".join(path), "newColumnPath": to},
        )

    def drop_column(self, *columns: ColumnPath) -> Altered:
        """Takes columns away; needs column mapping. Their data stays in the files until those are written again."""
        paths = [_path(each) for each in columns]
        return self._alter(
            lambda state: alter.drop_columns(state, paths),
            "DROP COLUMNS",
            lambda _: {"columns": [".".join(path) for path in paths]},
        )

    def widen_column(self, column: ColumnPath, type: Any) -> Altered:
        """Gives a column a wider type, as the log spells types; needs type widening."""
        path = _path(column)
        snapshot = self.snapshot("write")
        return self._alter(
            lambda state: alter.change_type(state, path, type, version=snapshot.version + 1),
            "CHANGE COLUMN",
            lambda _: {"column": {"name": ".".join(path), "type": type}},
            snapshot,
        )

    def allow_nulls(self, column: ColumnPath) -> Altered:
        """Takes NOT NULL from a column."""
        path = _path(column)
        return self._alter(
            lambda state: alter.allow_nulls(state, path),
            "CHANGE COLUMN",
            lambda _: {"column": {"name": ".".join(path), "nullable": True}},
        )

    # ------------------------------------------------------------------ what a table with an engine brings along

    def _rewriter(self) -> Rewriter | None:
        """Writes rows again; None without an engine."""
        return None

    def _validator(self) -> Validator | None:
        """Holds existing rows against a constraint; None without an engine."""
        return None

    # ------------------------------------------------------------------ one way for all

    def _alter(
        self,
        change: Callable[[TableState], TableState],
        operation: str,
        parameters: Callable[[TableState], Mapping[str, Any]],
        snapshot: Snapshot | None = None,
        *,
        asked: frozenset[str] | None = frozenset(),
        depends_on_rows: bool = False,
    ) -> Altered:
        newest = snapshot or self.snapshot("write")
        before = self._state(newest)
        after = change(before)
        admission = support.admitted(before, after, self._admit, asked=asked)
        if not after.actions:
            return Altered(newest.version, False, admission)
        transaction = Transaction(newest, clock=self._clock)
        if depends_on_rows:
            transaction.read_whole_table()
        version = transaction.commit(after.actions, operation, parameters(after))
        return Altered(version, True, admission)

    def _enable_row_tracking(self, wanted: Mapping[str, str]) -> Altered:
        """Every row has an id before the table says so: the feature first, then ids for old files, then the switch."""
        supported = self._alter(
            lambda state: support.with_feature(state, row_tracking.FEATURE),
            "UPGRADE PROTOCOL",
            _protocol_parameters,
            asked=frozenset({row_tracking.FEATURE}),
        )
        if flag(self.snapshot("write").configuration, "delta.rowTrackingSuspended"):
            self._alter(
                lambda state: alter.set_properties(state, {"delta.rowTrackingSuspended": "false"}),
                "SET TBLPROPERTIES",
                lambda _: {"properties": {"delta.rowTrackingSuspended": "false"}},
            )
        row_ids.backfill(lambda: self.snapshot("write"), lambda snapshot: Transaction(snapshot, clock=self._clock))
        names = row_ids.materialised_columns()

        def switched_on(state: TableState) -> TableState:
            kept = {key: state.metadata.configuration.get(key, value) for key, value in names.items()}
            return alter.set_properties(state, {**kept, **wanted})

        asked = support.asked_by(wanted, self.snapshot("write").protocol)
        switched = self._alter(switched_on, "SET TBLPROPERTIES", lambda _: {"properties": dict(wanted)}, asked=asked)
        return replace(switched, admission=supported.admission) if supported.admission.grows else switched

    def _state(self, snapshot: Snapshot) -> TableState:
        return TableState(snapshot.metadata, snapshot.protocol)

    def _admit(self, before: Protocol, after: Protocol, enabled: frozenset[str]) -> str:
        return self.gatekeeper.admit(Change(self.url, before, after, enabled))


def _path(column: ColumnPath) -> Path:
    return tuple(column.split(".")) if isinstance(column, str) else tuple(column)


def _protocol_parameters(state: TableState) -> Mapping[str, Any]:
    return {"newProtocol": state.protocol.to_action()}


def _described(state: TableState, comment: str | None) -> TableState:
    described = replace(state.metadata, description=comment)
    return replace(state, metadata=described, before=state.before or replace(state, reasons=()))


def _commented(state: TableState, path: Path, comment: str | None) -> Any:
    here, _ = schema_edit.find(state.schema, path)

    def commented(each: Path, field: Node) -> Node:
        if each != here:
            return field
        notes = {key: value for key, value in (field.get("metadata") or {}).items() if key != "comment"}
        return {**field, "metadata": notes if comment is None else {**notes, "comment": comment}}

    return schema_edit.map_fields(state.schema, commented)
