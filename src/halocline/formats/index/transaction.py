"""Transactions on index tables: read a version, prepare actions, commit them as the next version or not at all.

`commit` works out the protocol that the actions need and records it where the table has less, passes the gate for the
protocol before and the one after, and only then writes. What it adds says who did it and when.

Others may commit first. Then the actions stand if they still mean the same: splits that are only added always do; a
split that is removed must not have been removed by somebody else, nor have lost rows to them; rows that both delete are
deleted once, unless this commit puts others in their place; a transaction that read the whole table gives way to any
change of its rows; and a change of the metadata by somebody else is always given way to. A protocol that was raised
meanwhile is checked again, and raised further if need be.

When `commit` returns, the version is there. When it raises, nothing was committed, but for an `UnavailableError`, whose
message says that the outcome is unknown.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from halocline._version import __version__
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import ConflictError, InputError
from halocline.formats.index.log.actions import (
    IndexAction,
    IndexCommitInfo,
    IndexMetadata,
    IndexTxn,
    SplitAdd,
    SplitRemove,
    decode_lines,
    encode_actions,
    header_in,
)
from halocline.formats.index.log.checkpoints import INTERVAL
from halocline.formats.index.log.encodings import decoded, encoded
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, OWN, check_use, raised, terms_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.masks import deleted_rows, write_masks
from halocline.formats.log.commit import Winner, land
from halocline.formats.log.fence import fenced
from halocline.formats.log.gate import WRITE, check_transition, own_release
from halocline.formats.log.names import INDEX
from halocline.schema.json_edge import dump
from halocline.schema.types import Struct
from halocline.storage.base import Store

_LARGE = 64 * 1024


class IndexTransaction:
    """One change of an index table.

    Args:
        snapshot: The version to start from.
        reads_all: Whether what is committed depends on every row of it.
        auto_upgrade: Whether the protocol may be raised to what the actions need.
        at_least: What the table is to require from here on, besides.
        permit: Raises if a higher protocol may not become visible any more.

    Example:
        >>> from halocline.schema import Field, Primitive
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore()
        >>> IndexTransaction.create(store, Struct([Field("id", Primitive("long"))])).commit([], "CREATE TABLE")
        0
        >>> IndexTransaction(IndexSnapshot.load(store, operation="write")).commit(
        ...     [SplitAdd("a.split.parquet", {}, 9, 0, True, num_records=1)], "WRITE"
        ... )
        1
        >>> print(IndexSnapshot.load(store).protocol)
        index(5,5|R: parquetSplit,tantivyFst7|W: parquetSplit,tantivyFst7)
    """

    def __init__(
        self,
        snapshot: IndexSnapshot,
        *,
        reads_all: bool = False,
        auto_upgrade: bool = True,
        at_least: Protocol | None = None,
        permit: Callable[[], None] | None = None,
    ) -> None:
        self.store = snapshot.store
        self.snapshot: IndexSnapshot | None = snapshot.reopened(WRITE)
        self._release = snapshot.release
        self._reads_all = reads_all
        self._auto_upgrade = auto_upgrade
        self._permit = permit
        self._metadata: IndexMetadata | None = None
        self._floor = at_least or LEGACY
        self._start = snapshot.protocol.merged(self._floor)

    @classmethod
    def create(
        cls,
        store: Store,
        schema: Struct,
        *,
        partition_columns: Iterable[str] = (),
        configuration: Mapping[str, str] | None = None,
        name: str | None = None,
        protocol: Protocol = OWN,
        release: Release | None = None,
        permit: Callable[[], None] | None = None,
    ) -> IndexTransaction:
        """A transaction that creates a table where none is. Version 0 has its protocol and its metadata.

        Args:
            store: Where the table is to lie.
            schema: Its columns.
            partition_columns: Those of them that the splits are grouped by.
            configuration: Properties.
            name: A name.
            protocol: What it requires from the start; what our own splits need if not given.
            release: Who acts; this release if not given.
            permit: Raises if the table may not come to be.

        Raises:
            InputError: A partition column is none of the columns.
        """
        partitions = tuple(partition_columns)
        unknown = [each for each in partitions if each not in {field.name for field in schema.fields}]
        if unknown or len(partitions) >= len(schema.fields):
            raise InputError(
                f"a table cannot be partitioned by {', '.join(partitions)}",
                sides={"columns": ", ".join(field.name for field in schema.fields), "unknown": ", ".join(unknown)},
                next_step="Name some of the columns, and leave at least one for the splits.",
            )
        transaction = cls.__new__(cls)
        transaction.store, transaction.snapshot = store, None
        transaction._release = release or own_release()
        transaction._reads_all, transaction._auto_upgrade, transaction._permit = True, True, permit
        transaction._start = transaction._floor = protocol
        transaction._metadata = IndexMetadata(
            id=str(uuid.uuid4()),
            schema_string=dump(schema),
            partition_columns=partitions,
            configuration=dict(configuration or {}),
            name=name,
            created_time=_now_ms(),
        )
        return transaction

    @property
    def read_version(self) -> int:
        """The version it started from, -1 for a new table."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def metadata(self) -> IndexMetadata:
        """What the table is, or is going to be."""
        if self._metadata is not None:
            return self._metadata
        assert self.snapshot is not None, "a new table brings its metadata"
        return self.snapshot.metadata

    def terms_after(self, actions: Iterable[IndexAction]) -> Terms:
        """What the table would ask of those who use it.

        Raises:
            IncompatibleError: The protocol would have to be raised, and may not be.
        """
        after = raised(self._start, actions, auto_upgrade=self._auto_upgrade, table=self.store.root)
        return terms_of(after, has_avro_state=self.snapshot is not None and self.snapshot.replay.has_avro_state)

    def commit(self, actions: Iterable[IndexAction], operation: str, **parameters: Any) -> int:
        """Commits the actions as the next version, and returns it.

        Args:
            actions: Splits to add, remove or skip; metadata that replaces the table's.
            operation: The word for what is done.
            parameters: Details of it, for the history.

        Raises:
            InputError: The actions cannot be one commit of this table.
            IncompatibleError: The release may not write the table, before or after.
            ConflictError: Somebody else's commit contradicts this one.
            UnavailableError: The store could not be reached; whether the commit took effect is unknown.
        """
        listed = tuple(actions) if self._metadata is None else (self._metadata, *actions)
        _check(listed, self.snapshot)
        terms = self.terms_after(listed)
        check_use(self._release, terms, WRITE, self.store.root)
        before = None if self.snapshot is None or not self.snapshot.has_protocol else self.snapshot.protocol
        if before is not None:
            check_transition(before, terms.protocol, None, self.store.root)
        info = {
            "timestamp": _now_ms(),
            "operation": operation,
            "operationParameters": parameters,
            "readVersion": self.read_version if self.read_version >= 0 else None,
            "engineInfo": f"Halocline/{__version__}",
            "txnId": str(uuid.uuid4()),
        }
        proposal = _IndexProposal(listed, before, terms, IndexCommitInfo(info), self)
        with fenced(self._permit) if self._permit is not None and before != terms.protocol else nullcontext():
            landed = land(
                self.store,
                proposal,
                self.read_version + 1,
                path=INDEX.commit_path,
                read=None if self.snapshot is None else self.snapshot.replay.segment.last_commit,
                is_same=self._is_same_table,
            )
        self._keep_up(landed.version)
        return landed.version

    def _is_same_table(self) -> bool:
        """Whether the table in the store is the one that was read, by its id."""
        assert self.snapshot is not None, "a new table was not read"
        return IndexReplay.open(self.store, self.read_version).metadata.id == self.snapshot.metadata.id

    def check_again(self, protocol: Protocol, actions: Iterable[IndexAction]) -> Terms:
        """The terms of the table after the actions, on top of a protocol that somebody else has committed.

        Raises:
            IncompatibleError: The release may not write it any more.
        """
        floor = protocol.merged(self._floor)
        after = raised(floor, actions, auto_upgrade=self._auto_upgrade, table=self.store.root)
        terms = terms_of(after, has_avro_state=False)
        check_use(self._release, terms, WRITE, self.store.root)
        return terms

    @property
    def reads_all(self) -> bool:
        """Whether what is committed depends on every row."""
        return self._reads_all

    def _keep_up(self, version: int) -> None:
        """Writes a checkpoint when one is due. The commit stands whether or not that works."""
        if version == 0 or version % INTERVAL:
            return
        try:
            IndexSnapshot.load(self.store, version=version, release=self._release).write_checkpoint()
        except Exception:  # the commit holds, whatever happens here
            return


@dataclass(frozen=True)
class _IndexProposal:
    """Actions on their way into the log."""

    actions: tuple[IndexAction, ...]
    before: Protocol | None
    terms: Terms
    info: IndexCommitInfo
    transaction: IndexTransaction

    def encode(self, version: int) -> bytes:
        protocol = self.terms.protocol
        written: list[IndexAction] = [protocol] if protocol != self.before else []
        text = encode_actions([*written, *self.actions, self.info])
        return encoded(text, compress=len(text) > _LARGE and OWN.can_upgrade_to(protocol))

    def is_own(self, winner: Winner) -> bool:
        text = decoded(winner.data, winner.path)
        mine = self.info.txn_id
        lines = decode_lines(text, winner.path)
        return any(each.commit_info is not None and each.commit_info.get("txnId") == mine for each in lines)

    def rebased(self, winner: Winner) -> _IndexProposal:
        lines = decode_lines(decoded(winner.data, winner.path), winner.path)
        theirs = header_in(lines, winner.path)
        if theirs.metadata is not None:
            raise _conflict("CONCURRENT_METADATA_CHANGE", winner, "the metadata was changed")
        added = {each.add.path for each in lines if each.add is not None and each.add.data_change}
        removed = {each.remove.path for each in lines if each.remove is not None}
        masked = {each.add.path: each.add for each in lines if each.add is not None and each.add.deletion_mask}
        mine = {each.path for each in self.actions if isinstance(each, SplitRemove)}
        masked_here = {each.path for each in self.actions if isinstance(each, SplitAdd) and each.deletion_mask}
        if both := (mine | masked_here) & removed:
            raise _conflict("CONCURRENT_DELETE_DELETE", winner, f"{min(both)} was removed")
        if both := mine & masked.keys():
            raise _conflict("CONCURRENT_DELETE_READ", winner, f"rows of {min(both)} were deleted")
        seen = {each.app_transaction.app_id for each in lines if each.app_transaction is not None}
        if both := seen & {each.app_id for each in self.actions if isinstance(each, IndexTxn)}:
            raise _conflict("CONCURRENT_TRANSACTION", winner, f"application {min(both)} has written")
        if self.transaction.reads_all and added:
            raise _conflict("CONCURRENT_APPEND", winner, f"{min(added)} was added")
        if self.transaction.reads_all and removed:
            raise _conflict("CONCURRENT_DELETE_READ", winner, f"{min(removed)} was removed")
        if masked_here & masked.keys():
            return replace(self, actions=self._with_masks(masked, winner)).after(theirs.protocol)
        return self.after(theirs.protocol)

    def after(self, protocol: Protocol | None) -> _IndexProposal:
        """The same actions on top of a protocol that somebody else has committed, if they have."""
        if protocol is None:
            return self
        terms = self.transaction.check_again(protocol, self.actions)
        return replace(self, before=protocol, terms=terms)

    def _with_masks(self, theirs: Mapping[str, SplitAdd], winner: Winner) -> tuple[IndexAction, ...]:
        """The actions, with the rows that somebody else has deleted in the same splits."""
        store = self.transaction.store
        replaces = any(isinstance(each, SplitAdd) and each.deletion_mask is None for each in self.actions)
        found: list[IndexAction] = []
        for action in self.actions:
            other = theirs.get(action.path) if isinstance(action, SplitAdd) else None
            if other is not None and isinstance(action, SplitAdd):
                if replaces:
                    raise _conflict("CONCURRENT_DELETE_DELETE", winner, f"rows of {action.path} were deleted")
                (action,) = write_masks(store, [(other, deleted_rows(store, action).tolist())])
            found.append(action)
        return tuple(found)


def _conflict(condition: str, winner: Winner, what: str) -> ConflictError:
    return ConflictError(
        f"{what} in version {winner.version}, which came first",
        condition=condition,
        sides={"this commit": "started before it", "other commit": winner.path},
        next_step="Open the table again and repeat the operation.",
    )


def _check(actions: tuple[IndexAction, ...], snapshot: IndexSnapshot | None) -> None:
    added = [each.path for each in actions if isinstance(each, SplitAdd)]
    removed = [each.path for each in actions if isinstance(each, SplitRemove)]
    live = {} if snapshot is None or not (added or removed) else snapshot.files
    twice = [path for path, times in Counter(added + removed).items() if times > 1]
    problem = None
    if twice:
        problem = f"names a split twice: {min(twice)}"
    elif known := {each.path for each in actions if isinstance(each, SplitAdd) and _is_known(each, live)}:
        problem = f"adds {min(known)}, which is in the table"
    elif unknown := set(removed) - live.keys():
        problem = f"removes {min(unknown)}, which is not in the table"
    elif any(isinstance(each, Protocol | IndexCommitInfo) for each in actions):
        problem = "brings its own protocol or commit information, which are worked out here"
    if problem:
        raise InputError(
            f"the commit {problem}",
            condition="COMMIT_INVALID",
            sides={"splits added": str(len(added)), "splits removed": str(len(removed))},
            next_step="Prepare the commit anew on the table as it is.",
        )


def _is_known(split: SplitAdd, live: Mapping[str, SplitAdd]) -> bool:
    """Whether a split is in the table, and not merely added again with more of its rows deleted."""
    known = live.get(split.path)
    if known is None or split.deletion_mask is None:
        return known is not None
    before = 0 if known.deletion_mask is None else known.deletion_mask.rows
    return (split.size, split.num_records) != (known.size, known.num_records) or split.deletion_mask.rows < before


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
