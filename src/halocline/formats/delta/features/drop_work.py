"""A table that a feature is being taken out of: what is at hand for it.

Rows are moved by a *rewriter*, which the caller brings along, since it takes an engine. Everything else needs the log
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from halocline.compat.features import DropStep, Feature
from halocline.compat.release import Release
from halocline.formats.delta.actions.action import Add, Metadata
from halocline.formats.delta.commit.transaction import Clock, Transaction
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.base import Store


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


@dataclass(frozen=True)
class DropWork:
    """A table that a feature is being taken out of.

    Attributes:
        store: Where the table lies.
        record: The feature.
        release: Who acts.
        clock: Tells the present.
        engine: What to call ourselves in the provenance.
        rewriter: Writes rows again; None if no engine is at hand.
        operation: What the gate is asked for.
        legacy_protocol: Whether a table without a protocol counts as (1,1).
    """

    store: Store
    record: Feature
    release: Release
    clock: Clock
    engine: str | None = None
    rewriter: Rewriter | None = None
    operation: str = "write"
    legacy_protocol: bool = False

    def snapshot(self, version: int | None = None) -> Snapshot:
        """A version of the table, the newest if not given, behind the gate."""
        return Snapshot.load(
            self.store,
            version=version,
            release=self.release,
            operation=self.operation,
            legacy_protocol=self.legacy_protocol,
        )

    def begin(self, snapshot: Snapshot) -> Transaction:
        """A transaction on a version."""
        return Transaction(snapshot, clock=self.clock, engine=self.engine)

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
