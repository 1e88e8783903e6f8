"""The log itself: what is in it, how it is shortened, and how a damaged one becomes readable again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from halocline.errors import HaloclineError, InputError, MalformedError, NotFoundError
from halocline.formats.index.history import read_commit
from halocline.formats.index.log.actions import (
    IndexCommitInfo,
    IndexHeader,
    IndexLine,
    SplitAdd,
    header_in,
)
from halocline.formats.index.log.checkpoints import read_checkpoint, write_checkpoint
from halocline.formats.index.log.replay import IndexState
from halocline.formats.index.log.states import read_state
from halocline.formats.index.protocol import LEGACY, OWN, check_use, terms_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.location import below_root
from halocline.formats.log.gate import WRITE, own_release
from halocline.formats.log.names import INDEX, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.storage.base import Store

_DESCRIBED: Final = pa.schema(
    {
        "version": pa.int64(),
        "file": pa.string(),
        "action": pa.string(),
        "path": pa.string(),
        "partition_values": pa.map_(pa.string(), pa.string()),
        "size": pa.int64(),
        "records": pa.int64(),
        "deleted_records": pa.int64(),
        "data_change": pa.bool_(),
        "modified_ms": pa.int64(),
        "merges": pa.int64(),
        "reason": pa.string(),
        "retry_after_ms": pa.int64(),
        "operation": pa.string(),
        "engine": pa.string(),
        "detail": pa.string(),
    }
)


def describe_log(store: Store) -> pa.Table:
    """Every action of the commits that the log still has, and of the newest checkpoint if commits before it are gone.

    Raises:
        MalformedError: A file is damaged.

    Example:
        >>> from halocline.formats.index.transaction import IndexTransaction
        >>> from halocline.schema import Field, Primitive, Struct
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore()
        >>> IndexTransaction.create(store, Struct([Field("id", Primitive("long"))])).commit([], "CREATE TABLE")
        0
        >>> describe_log(store)["action"].to_pylist()
        ['protocol', 'metaData', 'commitInfo']
    """
    files = list_files(store, INDEX)
    commits = [each for each in files if each.kind is FileKind.COMMIT]
    bases = [each for each in files if each.kind in (FileKind.CHECKPOINT, FileKind.STATE)]
    rows: list[dict[str, Any]] = []
    if bases and (not commits or commits[0].version > 0):
        rows += _described(bases[-1], _base_lines(store, bases[-1]))
    for commit in commits:
        rows += _described(commit, read_commit(store, commit))
    return pa.Table.from_pylist(rows, _DESCRIBED)


def truncate_history(snapshot: IndexSnapshot, *, dry_run: bool = True) -> tuple[str, ...]:
    """Forgets all versions before the newest one: it gets a checkpoint, and older files of the log go.

    Args:
        snapshot: The table.
        dry_run: Whether to delete nothing and only tell what would go.

    Returns:
        The files of the log that go.

    Raises:
        IncompatibleError: The release may not write the table.
    """
    snapshot = snapshot.reopened(WRITE).newest()
    old = tuple(each.path for each in list_files(snapshot.store, INDEX) if each.version < snapshot.version)
    if not dry_run and old:
        snapshot.write_checkpoint()
        snapshot.store.delete_many(old)
    return old


@dataclass(frozen=True)
class LogRepair:
    """What is left of a log, and what it adds up to.

    Attributes:
        version: The newest version of which anything is left.
        problems: What cannot be read, with the reason.
        splits: How many splits it adds up to.
        missing: Splits that are named and not there; they are left out.
        unnamed: Splits that are there and that no readable file names: of a lost commit, or orphans.
        written: Whether the repaired log was written.
    """

    version: int
    problems: tuple[str, ...]
    splits: int
    missing: tuple[str, ...]
    unnamed: tuple[str, ...]
    written: bool

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to repair."""
        return not self.problems and not self.missing


def repair_log(store: Store, *, into: Store | None = None, dry_run: bool = True) -> LogRepair:
    """Makes a damaged log readable: what can be read of it, without splits that are gone, becomes a checkpoint.

    Nothing is deleted. A lost commit may have added splits, which are told as unnamed, or removed some, whose rows are
    then back; the problems name every file that could not be read, so that a backup can be asked first.

    Args:
        store: Where the table lies.
        into: Another place for the repaired log; beside the damaged one if not given.
        dry_run: Whether to write nothing and only tell.

    Raises:
        IncompatibleError: This release may not write such a table.
        InputError: There is a log where the repaired one was to go.
        MalformedError: No metadata is left.
        NotFoundError: There is no log.
    """
    files = list_files(store, INDEX)
    if not files:
        raise NotFoundError(
            f"no log of a table in {store.root}",
            condition="TABLE_NOT_FOUND",
            sides={"looked for": f"{INDEX.folder}/", "found": "nothing"},
            next_step="Check the path; it is the folder that holds the log folder.",
        )
    header, state, problems = _salvaged(store, files)
    if header.metadata is None:
        raise MalformedError(
            f"nothing that is left of the log of {store.root} says what its columns are",
            condition="MALFORMED_LOG",
            sides={"files": str(len(files)), "unreadable": str(len(problems))},
            next_step="Restore the log from a backup.",
        )
    protocol = header.protocol or LEGACY
    check_use(own_release(), terms_of(protocol, has_avro_state=False), WRITE, store.root)
    there = {each.path for each in store.list() if not each.path.startswith(f"{INDEX.folder}/")}
    missing = tuple(path for path in state.files if below_root(store, path) not in there)
    named = {below_root(store, path) for path in state.files}
    split_names = (each for each in sorted(there - named) if each.endswith((".split", ".split.parquet")))
    kept = replace(state, files={path: each for path, each in state.files.items() if path not in missing})
    version = max(each.version for each in files)
    told = LogRepair(
        version=version,
        problems=problems,
        splits=len(kept.files),
        missing=missing,
        unnamed=tuple(split_names),
        written=not dry_run and (into is not None or bool(problems or missing)),
    )
    if told.written:
        target = store if into is None else into
        if into is not None and list_files(into, INDEX):
            raise InputError(
                f"{into.root} has a log already",
                sides={"log of": into.root, "wanted": "a place without one"},
                next_step="Choose another place for the repaired log.",
            )
        actions = kept.actions(header, time.time_ns() // 1_000_000)
        write_checkpoint(target, version, actions, compress=OWN.can_upgrade_to(protocol))
    return told


def _salvaged(store: Store, files: list[LogEntry]) -> tuple[IndexHeader, IndexState, tuple[str, ...]]:
    """The newest header, the state that readable files add up to, and what could not be read."""
    problems: list[str] = []
    read: dict[str, list[IndexLine]] = {}
    for file in files:
        try:
            read[file.path] = read_commit(store, file) if file.kind is FileKind.COMMIT else _base_lines(store, file)
        except HaloclineError as error:
            problems.append(error.message)
    usable = [each for each in files if each.path in read]
    bases = [each for each in usable if each.kind is not FileKind.COMMIT]
    base = max(bases, key=lambda each: each.version, default=None)
    header, state = IndexHeader(), IndexState()
    if base is not None:
        header, state = header_in(read[base.path], base.name), state.after([(base.name, read[base.path])])
    start = -1 if base is None else base.version
    expected = start + 1
    for file in (each for each in files if each.kind is FileKind.COMMIT):
        if file.path in read and header.metadata is None and file.version <= start:
            header = header.over(header_in(read[file.path], file.name))
        if file.version <= start:
            continue
        if file.version > expected:
            problems.append(f"versions {expected} to {file.version - 1} are missing")
        expected = file.version + 1
        if file.path in read:
            header = header_in(read[file.path], file.name).over(header)
            state = state.after([(file.name, read[file.path])])
    # What lies before a readable base is not needed, damaged or not.
    later = {each.name for each in files if each.version > start}
    return header, state, tuple(each for each in problems if base is None or _concerns(each, later))


def _concerns(problem: str, names: set[str]) -> bool:
    return any(name in problem for name in names) or problem.startswith("versions ")


def _base_lines(store: Store, file: LogEntry) -> list[IndexLine]:
    if file.kind is FileKind.STATE:
        return [IndexLine(add=each) for each in read_state(store, file).files().values()]
    return read_checkpoint(store, file.path, file.version)


def _described(file: LogEntry, lines: list[IndexLine]) -> Iterator[dict[str, Any]]:
    for line in lines:
        row: dict[str, Any] = {"version": file.version, "file": file.name}
        if (add := line.add) is not None:
            yield row | _of_add(add)
        elif (remove := line.remove) is not None:
            values = None if remove.partition_values is None else list(remove.partition_values.items())
            yield row | {
                "action": "remove",
                "path": remove.path,
                "partition_values": values,
                "size": remove.size,
                "data_change": remove.data_change,
                "modified_ms": remove.deletion_timestamp,
            }
        elif (skip := line.mergeskip or line.skip) is not None:
            yield row | {
                "action": "mergeskip",
                "path": skip.path,
                "size": skip.size,
                "modified_ms": skip.skip_timestamp,
                "reason": skip.reason,
                "retry_after_ms": skip.retry_after,
                "operation": skip.operation,
            }
        elif line.commit_info is not None:
            info = IndexCommitInfo(line.commit_info)
            yield row | {
                "action": "commitInfo",
                "modified_ms": info.timestamp,
                "operation": str(info.values.get("operation", "")),
                "engine": str(info.values.get("engineInfo", "")),
            }
        elif bytes(line.protocol) not in (b"", b"null"):
            yield row | {"action": "protocol", "detail": bytes(line.protocol).decode()}
        elif bytes(line.meta_data) not in (b"", b"null"):
            yield row | {"action": "metaData", "detail": bytes(line.meta_data).decode()}


def _of_add(add: SplitAdd) -> dict[str, Any]:
    return {
        "action": "add",
        "path": add.path,
        "partition_values": list(add.partition_values.items()),
        "size": add.size,
        "records": add.num_records,
        "deleted_records": None if add.deletion_mask is None else add.deletion_mask.rows,
        "data_change": add.data_change,
        "modified_ms": add.modification_time,
        "merges": add.num_merge_ops,
    }
