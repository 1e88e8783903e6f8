"""How a table's protocol came to be, as far as its log still tells.

A *step* is a commit that wrote a protocol, with the metadata that held then, the operation, and who wrote it. The log
begins with a checkpoint once it has been cleaned; then the first step is that checkpoint, and nobody knows who made it.

From the steps follows what a table *should* support: features only come in, and go only where a commit says so (a
feature was dropped, the table was replaced, a protocol was repaired). What is missing without such a word got lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from halocline.compat.protocol import Protocol
from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import Action, Commit, CommitInfo, Metadata, ProtocolAction, decode_commit
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.snapshot.writers import commit_bytes
from halocline.formats.log.names import DELTA, FileKind, LogEntry
from halocline.formats.log.segment import complete_checkpoints, list_files
from halocline.storage.base import Store

DROP_FEATURE: Final = "DROP FEATURE"
REPAIR_PROTOCOL: Final = "REPAIR PROTOCOL"
REPLACES_TABLE: Final = frozenset(
    {
        "CLONE",
        "CONVERT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE",
        "CREATE TABLE AS SELECT",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
    }
)
"""Operations after which a table is another one: what it supported before says nothing about it."""


@dataclass(frozen=True)
class ProtocolStep:
    """A commit, or the checkpoint that the log begins with, that holds a protocol.

    Attributes:
        version: Its version.
        protocol: The protocol as far as it can be read.
        metadata: The metadata that held then; None if none has been seen.
        operation: The word for what was done; empty if nobody said.
        parameters: Its details, as JSON text.
        engine: Who wrote it; empty if nobody said.
    """

    version: int
    protocol: Protocol
    metadata: Metadata | None
    operation: str = ""
    parameters: str = ""
    engine: str = ""

    @property
    def dropped(self) -> str:
        """The feature that the commit says it dropped; empty if none."""
        if self.operation != DROP_FEATURE:
            return ""
        name = json.loads(self.parameters or "{}").get("featureName")
        return name if isinstance(name, str) else ""

    def names(self, feature: str) -> bool:
        """Whether the details of the operation mention a feature by name."""
        return feature.casefold() in self.parameters.casefold()

    def __str__(self) -> str:
        what = " by ".join(filter(None, (self.operation, self.engine)))
        return f"version {self.version}" + (f" ({what})" if what else "")


@dataclass(frozen=True)
class ProtocolHistory:
    """The steps that the log still tells, oldest first. Made by `read_protocol_history`.

    Attributes:
        steps: The steps.
        begins_at: The first version that the log tells anything about.
        is_whole: Whether the log goes back to version 0.
    """

    steps: tuple[ProtocolStep, ...]
    begins_at: int
    is_whole: bool

    @property
    def expected(self) -> frozenset[str]:
        """The features that the table should support by now."""
        names: frozenset[str] = frozenset()
        for step in self.steps:
            names = _after(names, step)
        return names

    def lost(self) -> Iterator[tuple[ProtocolStep, ProtocolStep, frozenset[str]]]:
        """Each step that lost features, the step before it, and what got lost and never came back."""
        missing = self.expected - self.steps[-1].protocol.features if self.steps else frozenset()
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            gone = (before.protocol.features - after.protocol.features) & missing
            if gone:
                yield before, after, gone

    def added(self, feature: str) -> tuple[ProtocolStep, ProtocolStep] | None:
        """The last step that brought the feature in, after the step before it; None if the log does not tell."""
        pairs = list(zip(self.steps, self.steps[1:], strict=False))
        for before, after in reversed(pairs):
            if feature in after.protocol.features and feature not in before.protocol.features:
                return before, after
        return None

    def dropped(self, feature: str) -> ProtocolStep | None:
        """The last step that dropped the feature and said so; None if the log does not tell."""
        return next((step for step in reversed(self.steps) if step.dropped == feature), None)


def read_protocol_history(store: Store) -> ProtocolHistory:
    """Reads every protocol that the log still holds."""
    files = list_files(store, DELTA)
    commits = [file for file in files if file.kind is FileKind.COMMIT]
    first = commits[0].version if commits else 0
    steps: list[ProtocolStep] = []
    base = _base(store, files)
    metadata: Metadata | None = None
    if base is not None:
        steps.append(base)
        metadata = base.metadata
    for file, data in commit_bytes(store, files):
        if b'"protocol"' not in data and b'"metaData"' not in data:
            continue
        commit = decode_commit(data, file.name)
        metadata = commit.metadata or metadata
        if commit.protocol is not None:
            steps.append(_step(file.version, commit, commit.protocol, metadata))
    return ProtocolHistory(tuple(steps), base.version if base is not None else first, bool(commits) and first == 0)


def actions_since(store: Store, version: int) -> Iterator[Action]:
    """Every action of every commit from a version on that the log still holds, oldest first."""
    files = [file for file in list_files(store, DELTA) if file.version >= version]
    for file, data in commit_bytes(store, files):
        yield from decode_commit(data, file.name).actions


def _base(store: Store, files: list[LogEntry]) -> ProtocolStep | None:
    """What the oldest checkpoint says, where the log does not go back to the beginning."""
    if any(file.kind is FileKind.COMMIT and file.version == 0 for file in files):
        return None
    for checkpoint in complete_checkpoints(files):
        try:
            header = Checkpoint(store, DELTA, checkpoint).others.header
        except (MalformedError, NotFoundError):
            continue
        if header.protocol is not None:
            return ProtocolStep(checkpoint.version, _lenient(header.protocol), header.metadata)
    return None


def _step(version: int, commit: Commit, action: ProtocolAction, metadata: Metadata | None) -> ProtocolStep:
    info = commit.commit_info or CommitInfo({})
    parameters = info.values.get("operationParameters")
    told = json.dumps(parameters) if isinstance(parameters, dict) else ""
    return ProtocolStep(version, _lenient(action), metadata, info.operation or "", told, info.engine_info or "")


def _lenient(action: ProtocolAction) -> Protocol:
    return Protocol.read_leniently(msgspec.to_builtins(action))[0]


def _after(names: frozenset[str], step: ProtocolStep) -> frozenset[str]:
    if step.operation in REPLACES_TABLE or step.operation == REPAIR_PROTOCOL:
        return step.protocol.features
    return (names - {step.dropped}) | step.protocol.features
