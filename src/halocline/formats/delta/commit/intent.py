"""What a transaction wants: its actions, what it has read, and how strictly it must be kept apart from others.

*Reads* are what the commit's rightness depends on: predicates, files, the whole table, application transactions. A
*blind append* depends on nothing and only adds files. *Isolation* says which of other people's commits would have
made a difference: all of them (`Serializable`), all but blind appends (`WriteSerializable`), or only those that took
away the same files (`SnapshotIsolation`, for commits that change no data).

An intent is immutable. `halocline.formats.delta.commit.conflicts` turns it into the intent it would have been after
somebody else's commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import (
    Action,
    Add,
    Cdc,
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Remove,
    encode_commit,
)
from halocline.formats.delta.configuration import row_tracking
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.table_configuration import TableConfiguration


class Isolation(StrEnum):
    """How far a commit is kept apart from others; the words stand in commits."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


@dataclass(frozen=True, slots=True)
class Reads:
    """What a transaction has read.

    Attributes:
        predicates: Conditions that rows were read by, in SQL. Against files that others add, only what they say
            about partition columns counts.
        paths: Files that were read, decoded paths.
        whole_table: Whether every row counted.
        app_ids: Applications whose last transaction was asked for.
    """

    predicates: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
    whole_table: bool = False
    app_ids: frozenset[str] = frozenset()

    @property
    def depends_on_files(self) -> bool:
        """Whether other files in the table could have led to another commit."""
        return bool(self.predicates or self.paths or self.whole_table)


@dataclass(frozen=True)
class Intent:
    """What is to be committed, as it stands after every commit looked at so far.

    Attributes:
        read_version: The version that was read, -1 for a new table.
        operation: The word for what is done.
        actions: The actions without the provenance, ids and versions assigned.
        info: The provenance.
        configuration: What the table is after the commit.
        reads: What the commit depends on.
        isolation: How strictly it is kept apart.
        row_id_mark: The high-water mark that fresh row ids were assigned above.
    """

    read_version: int
    operation: str
    actions: tuple[Action, ...]
    info: Mapping[str, Any]
    configuration: TableConfiguration
    reads: Reads = field(default_factory=Reads)
    isolation: Isolation = Isolation.SERIALIZABLE
    row_id_mark: int = row_tracking.NO_MARK

    @property
    def protocol(self) -> Protocol:
        """The table's protocol after the commit."""
        return self.configuration.protocol

    @property
    def metadata(self) -> Metadata:
        """The table's metadata after the commit."""
        return self.configuration.metadata

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it depends on nothing and takes nothing away."""
        return is_blind_append(self.actions, self.reads)

    @cached_property
    def commit(self) -> Commit:
        """The actions, by their kinds."""
        return Commit("", self.actions)

    def with_metadata(self, metadata: Metadata) -> Intent:
        """The same intent on, or setting, other metadata."""
        actions = tuple(metadata if isinstance(each, Metadata) else each for each in self.actions)
        return replace(self, configuration=self.configuration.with_metadata(metadata), actions=actions)

    def with_info(self, **values: Any) -> Intent:
        """The same intent with other provenance."""
        return replace(self, info={**self.info, **values})

    def encode(self) -> bytes:
        """The commit file: provenance first, with its in-commit timestamp in front if there is one."""
        order = ("inCommitTimestamp", "timestamp")
        first = {key: self.info[key] for key in order if key in self.info}
        return encode_commit((CommitInfo({**first, **self.info}), *self.actions))


def is_blind_append(actions: Iterable[Action], reads: Reads) -> bool:
    """Whether a commit of these actions depends on nothing and takes nothing away."""
    return not reads.depends_on_files and not any(isinstance(each, Remove | Cdc) for each in actions)


def isolation_for(actions: Iterable[Action], operation: str, properties: TableProperties) -> Isolation:
    """How strictly a commit must be kept apart."""
    chosen = Isolation(properties.isolation_level)
    for each in actions:
        if isinstance(each, Add | Remove | Cdc):
            if each.data_change:
                return chosen
        elif not (isinstance(each, DomainMetadata) and each.domain == row_tracking.DOMAIN):
            return chosen
    # A restore that finds nothing to change when it looks still promises the rows of the old version.
    if operation in operations.RESTORES:
        return chosen
    if chosen is Isolation.WRITE_SERIALIZABLE and operation in operations.CHANGES_DATA:
        return chosen
    return Isolation.SNAPSHOT
