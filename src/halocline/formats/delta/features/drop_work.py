"""A table that a feature is being taken out of: what is at hand for it.

Rows are moved by a *rewriter*, which the caller brings along, since it takes an engine. Everything else needs the log
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from halocline.compat.features import DropStep, Feature
from halocline.formats.delta.actions.action import Add, Metadata
from halocline.formats.delta.commit.transaction import Clock, Transaction
from halocline.formats.delta.snapshot.snapshot import Snapshot


class Rewriter(Protocol):
    """Writes rows of a table again."""

    def __call__(self, snapshot: Snapshot, files: pa.Table, target: Metadata) -> Sequence[Add]:
        """Writes the live rows of some files into new files, laid out as other metadata says.

        Args:
            snapshot: The table as it is, to read the rows through.
            files: Rows of its file list.
            target: The metadata to write by: names, types and properties. Row ids are kept where they are tracked.

        Returns:
            The new files, with statistics, without deletion vectors, and with `data_change` false.
        """


class DropWork:
    """A table that a feature is being taken out of.

    The log is opened again only after something was written to it, or taken from it. What others commit meanwhile is
    noticed by the commits.

    Args:
        snapshot: The newest version, opened for `operation`.
        record: The feature.
        clock: Tells the present.
        rewriter: Writes rows again; None if no engine is at hand.

    Attributes:
        store: Where the table lies.
        release: Who acts.
    """

    def __init__(self, snapshot: Snapshot, record: Feature, clock: Clock, rewriter: Rewriter | None = None) -> None:
        self.store = snapshot.store
        self.release = snapshot.release
        self.record = record
        self.clock = clock
        self.rewriter = rewriter
        self._first = snapshot
        self._newest: Snapshot | None = snapshot

    def snapshot(self) -> Snapshot:
        """The newest version, behind the gate."""
        if self._newest is None:
            self._newest = self.at(None)
        return self._newest

    def at(self, version: int | None) -> Snapshot:
        """A version of the table, the newest if None, opened anew behind the gate."""
        return self._first.again(version)

    def begin(self, snapshot: Snapshot) -> Transaction:
        """A transaction on a version, after which there is another newest one."""
        self.reopen()
        return Transaction(snapshot, clock=self.clock)

    def reopen(self) -> None:
        """Has the log opened again when it is needed next."""
        self._newest = None

    @property
    def steps(self) -> tuple[DropStep, ...]:
        """The steps that come before the drop itself."""
        return tuple(step for step in self._recipe if not step.at_drop)

    @property
    def final_steps(self) -> tuple[DropStep, ...]:
        """The steps that are part of the drop itself."""
        return tuple(step for step in self._recipe if step.at_drop)

    @property
    def _recipe(self) -> tuple[DropStep, ...]:
        return self.record.drop.steps if self.record.drop is not None else ()
