"""Taking a feature out of a table, in one of two ways.

First its *steps* are done: it is switched off, so that nobody brings it back, and the newest version is freed of its
traces. Old versions still have them. Then

- *history kept*: a barrier of checkpoints is put between them and what follows, and the commit that drops the feature
  makes the table protect that barrier. It is done at once, but `checkpointProtection` is a feature of its own, which
  most clients cannot write under.
- *history truncated*: the old versions are deleted once they are past their retention. The first call ends with a
  `NotYetError` that says when to come back, the next one drops the feature. Nothing is left behind, so the protocol
  may become a plain pair of numbers again.

Features whose traces harm nobody need neither: they go in one commit and history stays as it is.

Every call looks at the newest version and does what is left to do. A crash anywhere leaves a table that reads as
before or as after, and the next call finishes; a call for a feature that was dropped already finishes what may be
missing, and is refused if nothing is, as for any other feature that the table lacks. If somebody else commits first,
the conditions are checked again on top of that commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from halocline.compat.dropping import check_droppable
from halocline.compat.features import DropStep, Feature, find_feature
from halocline.compat.protocol import Protocol
from halocline.errors import ConflictError, InputError
from halocline.formats.delta.actions.action import Action, Metadata
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.conflicts import PROTECTED_BEFORE
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Clock, system_clock
from halocline.formats.delta.configuration import column_mapping
from halocline.formats.delta.features.approval import Approve
from halocline.formats.delta.features.drop_steps import domain_tombstones, edited, pending_steps, run_steps
from halocline.formats.delta.features.drop_work import DropWork, Rewriter
from halocline.formats.delta.features.history_barrier import (
    checkpoint,
    checkpointed_commit,
    has_checkpoint_from,
    not_yet,
    raise_barrier,
    truncate,
)
from halocline.formats.delta.features.usage import history_traces
from halocline.formats.delta.snapshot.protocol_history import DROP_FEATURE, read_protocol_history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.progress import working

METADATA_ONLY = "write.metadata"
"""What the gate is asked for where a drop writes no data files."""


@dataclass(frozen=True)
class Dropped:
    """A feature that is out of a table.

    Attributes:
        feature: Its name.
        version: The version from which it is out.
        before: The protocol before.
        after: The protocol after.
        already: Whether it was out before this call.
        checked: Who was asked; empty if nobody had to be.
    """

    feature: str
    version: int
    before: Protocol
    after: Protocol
    already: bool = False
    checked: str = ""

    def __str__(self) -> str:
        if self.already:
            return f"{self.feature} was dropped in version {self.version} already; the protocol is {self.after}"
        checked = f". Checked: {self.checked}" if self.checked else ""
        return f"{self.feature} is dropped in version {self.version}: {self.before} became {self.after}{checked}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


def drop_feature(
    snapshot: Snapshot,
    name: str,
    *,
    truncate_history: bool = False,
    approve: Approve,
    rewriter: Rewriter | None = None,
    clock: Clock = system_clock,
) -> Dropped:
    """Takes a feature out of a table; see the module for how.

    Args:
        snapshot: The newest version of the table.
        name: The feature, in any case.
        truncate_history: Whether to delete old versions that use the feature, rather than to protect them.
        approve: Asked before the protocol changes.
        rewriter: Writes rows again, for the features that need it.
        clock: Tells the present.

    Raises:
        NotYetError: History must grow older first; the error says until when.
        InputError: The table does not have the feature, it cannot be dropped as things stand, or not this way.
        ConflictError: Somebody else brought it back, or changed the protocol first.
        IncompatibleError: Somebody known would break, or this release may not write the table.
    """
    record = find_feature("delta", name)
    rewrites = record.drop is not None and any(step.name == "rewrite-files" for step in record.drop.steps)
    work = DropWork(snapshot.reopened("write" if rewrites else METADATA_ONLY), record, clock, rewriter)
    if not snapshot.protocol.supports(record.name):
        finished = _finished_before(work)
        if finished is not None:
            return finished
    before = snapshot.protocol
    protocol_without(record, before, truncate_history=truncate_history)
    now = snapshot.configuration.terms
    checked = approve(now, now.without(record.name, protect_history=not truncate_history))
    with working(f"drop {record.name} from {snapshot.store.root}") as tell:
        tell("clearing the newest version of it")
        run_steps(work)
        if has_barrier(record):
            tell("truncating history" if truncate_history else "protecting history")
            if truncate_history:
                _clear_history(work)
            else:
                raise_barrier(work)
        version, after = _commit(work, truncate_history)
        if has_barrier(record) and not truncate_history:
            checkpoint(work, version)
    return Dropped(record.name, version, before, after, checked=checked)


def remove_column_mapping(
    snapshot: Snapshot, *, keeps_mode: bool, rewriter: Rewriter | None = None, clock: Clock = system_clock
) -> None:
    """Writes the files of a table by the names that its columns have, and leaves the feature in the protocol.

    Args:
        snapshot: The newest version of the table.
        keeps_mode: Whether the properties say that there is no mapping, rather than nothing about it.
        rewriter: Writes rows again.
        clock: Tells the present.
    """
    record = find_feature("delta", column_mapping.FEATURE)
    if keeps_mode and record.drop is not None:
        to_none = DropStep("set", (f"{column_mapping.MODE}=none",))
        gone = DropStep("unset", (column_mapping.MAX_ID,))
        others = (step for step in record.drop.steps if step.name != "unset")
        record = replace(record, drop=replace(record.drop, steps=(to_none, gone, *others)))
    run_steps(DropWork(snapshot, record, clock, rewriter))


def has_barrier(record: Feature) -> bool:
    """Whether old versions with the feature must be kept from clients without it."""
    return record.drop is not None and record.drop.barrier


def protocol_without(record: Feature, before: Protocol, *, truncate_history: bool) -> Protocol:
    """The protocol after a drop.

    Example:
        >>> from halocline.compat.features import feature
        >>> table = Protocol.delta(1, 2).upgraded("deletionVectors")
        >>> print(protocol_without(feature("delta", "deletionVectors"), table, truncate_history=True))
        (1,2)
    """
    protect = not truncate_history
    check_droppable(record, before.features, str(before), defined=before.defined, protect_history=protect)
    if truncate_history and not has_barrier(record) and not (record.drop and record.drop.only_with_truncation):
        raise InputError(
            f"feature {record.name} leaves nothing in old versions that harms, so history is not truncated for it",
            condition="FEATURE_NOT_DROPPABLE",
            sides={"asked for": "to truncate history", "needed": "nothing"},
            next_step="Drop it without truncating history.",
        )
    return before.without_feature(record.name, protect_history=protect)


def _finished_before(work: DropWork) -> Dropped | None:
    """The drop that an earlier call made, with what it did not come to do afterwards; None if there is none.

    Raises:
        InputError: Nothing is left to do.
    """
    history = read_protocol_history(work.store)
    step = history.dropped(work.record.name)
    if step is None:
        return None
    snapshot = work.snapshot()
    protected = snapshot.properties.protected_before == step.version
    if not protected or has_checkpoint_from(work, step.version):
        raise InputError(
            f"the table does not have feature {work.record.name}: version {step.version} dropped it",
            condition="FEATURE_NOT_DROPPABLE",
            sides={"table": str(snapshot.protocol), "to drop": work.record.name},
            next_step="There is nothing left to do.",
        )
    checkpoint(work, snapshot.version)
    return Dropped(work.record.name, step.version, snapshot.protocol, snapshot.protocol, already=True)


def _clear_history(work: DropWork) -> None:
    """Deletes what is old enough, and makes sure that no trace of the feature is left in the rest."""
    snapshot = work.snapshot()
    traces = list(history_traces(work.store, work.record, snapshot.version))
    if traces:
        clean_from = max(trace.version for trace in traces) + 1
        if not has_checkpoint_from(work, clean_from):
            checkpointed_commit(work)
            snapshot = work.snapshot()
        truncate(work, snapshot)
        traces = list(history_traces(work.store, work.record, snapshot.version))
        if traces:
            raise not_yet(work, snapshot, clean_from, f"{traces[-1]} still uses it")


def _commit(work: DropWork, truncate_history: bool) -> tuple[int, Protocol]:
    """The commit that drops the feature, if nothing of it is left in the newest version, and the protocol it leaves."""
    snapshot = work.snapshot()
    _check_gone(work, snapshot)
    record = work.record
    protocol = protocol_without(record, snapshot.protocol, truncate_history=truncate_history)
    metadata = edited(snapshot.metadata, work.final_steps)
    if has_barrier(record) and not truncate_history:
        metadata = _protecting(metadata, snapshot.version + 1)
    domains = [name for step in work.final_steps if step.name == "remove-domains" for name in step.detail]
    actions: list[Action] = [action_of(protocol), *domain_tombstones(snapshot, domains)]
    if metadata != snapshot.metadata:
        actions.append(metadata)
    version = work.begin(snapshot).commit(
        actions,
        CommitDescription(DROP_FEATURE, {"featureName": record.name, "truncateHistory": truncate_history}),
        dropped_feature=record.name,
        revalidate=_revalidation(work),
    )
    return version, protocol


def _protecting(metadata: Metadata, version: int) -> Metadata:
    return metadata.with_configuration({**metadata.configuration, PROTECTED_BEFORE: str(version)})


def _revalidation(work: DropWork) -> Callable[[int], None]:
    return lambda version: _check_gone(work, work.at(version))


def _check_gone(work: DropWork, snapshot: Snapshot) -> None:
    left = pending_steps(work, snapshot)
    if left:
        raise ConflictError(
            f"somebody else brought {work.record.name} back into {work.store.root} while it was being dropped",
            sides={"you": f"drop {work.record.name}", "they": f"left to do in version {snapshot.version}: {left[0]}"},
            next_step="Drop it again once nobody switches it on any more.",
        )
