"""Whether a commit still holds after somebody else's, and what it becomes.

`rebased` takes an intent and one *winner*, a commit that came first, and runs the checks in their fixed order:

     1  protocol        may we still write, and does nobody else move it under us
     2  metadata        only changes that leave what we prepared right
     3  domains         one writer per domain at a time
     4  applications    nobody else moved a transaction that we asked for
     5  row ids         fresh ones are taken again above the winner's
     6  type changes    versions noted in the schema follow ours
     7  appends         no new file that we should have read
     8  deletes, reads  no file gone that we read
     9  both delete     no file gone that we remove
    10  vacuums         no file deleted that we bring back
    11  timestamps      ours is later than the winner's

Checks 1, 2, 5, 6 and 11 may change the intent; the others only refuse. Files are compared by decoded path, never by
deletion vector: two changes to the rows of one file contradict each other.

Pure: what a winner's protocol means to this release, which files match a predicate and whether a feature can still be
dropped are asked through `Ground`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from halocline.compat.terms import Terms
from halocline.errors import ConflictError
from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import Action, Add, Commit, Remove
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.commit import metadata_rebase
from halocline.formats.delta.commit.intent import Intent, Isolation, Reads
from halocline.formats.delta.configuration import in_commit_timestamps, row_tracking, type_widening
from halocline.formats.delta.configuration.commit_rules import check_no_duplicates
from halocline.formats.delta.configuration.metadata_rules import terms_of
from halocline.formats.delta.configuration.table_configuration import TableConfiguration

PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"


@dataclass(frozen=True)
class WinningCommit:
    """Somebody else's commit that came first.

    Attributes:
        version: Its version.
        commit: What it did.
        modified_ms: When its file was written.
    """

    version: int
    commit: Commit
    modified_ms: int

    @property
    def operation(self) -> str:
        """The word for what it did."""
        return (self.commit.commit_info and self.commit.commit_info.operation) or "an unnamed operation"

    @property
    def timestamp_ms(self) -> int:
        """When it was committed, by its own word or by its file."""
        info = self.commit.commit_info
        told = None if info is None else info.in_commit_timestamp
        return self.modified_ms if told is None else told

    def __str__(self) -> str:
        engine = self.commit.commit_info and self.commit.commit_info.engine_info
        return f"version {self.version}, {self.operation}" + (f" by {engine}" if engine else "")


@dataclass(frozen=True)
class Ground:
    """What stays the same while a transaction tries to commit.

    Attributes:
        table: The table's name for messages.
        locations: How the table's log spells paths.
        read: What the table was at the version that was read.
        check_access: Raises if this release may not write a table with these terms.
        first_match: The first of some files that may hold rows of a predicate, by partition values and statistics.
        revalidate: For a commit that drops a feature: raises if that cannot be done after a version.
    """

    table: str
    locations: Locations
    read: TableConfiguration
    check_access: Callable[[Terms], None]
    first_match: Callable[[str, Sequence[Add]], Add | None]
    revalidate: Callable[[int], None] | None = None


def rebased(intent: Intent, winner: WinningCommit, ground: Ground) -> Intent:
    """The intent as it would have been, had its writer started after the winner."""
    intent = _after_protocol(intent, winner, ground)
    intent = _after_metadata(intent, winner, ground)
    _check_domains(intent, winner, ground)
    _check_applications(intent, winner, ground)
    actions, mark = row_tracking.rebased(
        intent.actions,
        intent.protocol,
        intent.metadata.configuration,
        intent.operation,
        intent.row_id_mark,
        winner.commit,
        winner.version,
        ground.locations.decode,
    )
    intent = replace(intent, actions=actions, row_id_mark=mark, reads=_reads_beside_backfill(intent, winner, ground))
    intent = _after_type_changes(intent, winner)
    _check_appends(intent, winner, ground)
    _check_deleted_reads(intent, winner, ground)
    _check_deleted_twice(intent, winner, ground)
    _check_vacuumed(intent, winner, ground)
    intent = _after_timestamp(intent, winner, ground)
    check_no_duplicates(intent.actions, ground.locations)
    return intent


def _decoded(actions: Iterable[Add | Remove], ground: Ground) -> dict[str, Add | Remove]:
    return {ground.locations.decode(each.path): each for each in actions}


# ---------------------------------------------------------------------- 1: protocol


def _after_protocol(intent: Intent, winner: WinningCommit, ground: Ground) -> Intent:
    action = winner.commit.protocol
    if action is not None:
        theirs, metadata = protocol_of(action), winner.commit.metadata or intent.metadata
        ground.check_access(terms_of(theirs, metadata))
        sides = {"table": str(theirs), "you started from": str(ground.read.protocol)}
        if intent.commit.protocol is not None:
            raise _conflict("CONCURRENT_PROTOCOL_CHANGE", "both change the protocol", intent, winner, ground, sides)
        if dropped := ground.read.protocol.features - theirs.features:
            what = f"it dropped {', '.join(sorted(dropped))}"
            raise _conflict("CONCURRENT_PROTOCOL_CHANGE", what, intent, winner, ground, sides)
        # Their metadata is looked at next; until then ours goes with their protocol, which may only have grown.
        intent = replace(intent, configuration=replace(intent.configuration, protocol=theirs))
    if intent.commit.protocol is not None and ground.read.protocol.features - intent.protocol.features:
        if ground.revalidate is not None:
            ground.revalidate(winner.version)
        intent = _with_protection_moved(intent, winner.version)
    return intent


def _with_protection_moved(intent: Intent, old_version: int) -> Intent:
    """History is protected up to the commit that drops the feature, which is now one version later."""
    metadata = intent.commit.metadata
    if metadata is None or metadata.configuration.get(PROTECTED_BEFORE) != str(old_version):
        return intent
    moved = {**metadata.configuration, PROTECTED_BEFORE: str(old_version + 1)}
    return intent.with_metadata(metadata.with_configuration(moved))


# ---------------------------------------------------------------------- 2: metadata


def _after_metadata(intent: Intent, winner: WinningCommit, ground: Ground) -> Intent:
    theirs = winner.commit.metadata
    if theirs is None:
        return intent
    if intent.commit.metadata is not None:
        raise _conflict("CONCURRENT_METADATA_CHANGE", "both change the metadata", intent, winner, ground)
    after = metadata_rebase.rebased(intent.metadata, theirs, intent.protocol)
    if after is None:
        what = "it changed the metadata that the commit was prepared for"
        raise _conflict("CONCURRENT_METADATA_CHANGE", what, intent, winner, ground)
    if metadata_rebase.enables_row_tracking(intent.metadata, theirs):
        tags = {**(intent.info.get("tags") or {}), row_tracking.PRESERVED_TAG: "false"}
        intent = intent.with_info(tags=tags)
    return replace(intent, configuration=intent.configuration.with_metadata(after))


# ---------------------------------------------------------------------- 3, 4: domains and applications


def _check_domains(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    theirs = {each.domain for each in winner.commit.domains} - {row_tracking.DOMAIN}
    if both := sorted(theirs & {each.domain for each in intent.commit.domains}):
        what = f"both change domain {both[0]}"
        raise _conflict("CONCURRENT_DOMAIN_CHANGE", what, intent, winner, ground)


def _check_applications(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    if both := sorted(intent.reads.app_ids & {each.app_id for each in winner.commit.txns}):
        what = f"it recorded a transaction of application {both[0]}, which this one depends on"
        raise _conflict("CONCURRENT_TRANSACTION", what, intent, winner, ground)


# ---------------------------------------------------------------------- 5, 6: numbers that follow the version


def _reads_beside_backfill(intent: Intent, winner: WinningCommit, ground: Ground) -> Reads:
    if intent.operation not in operations.BACKFILLS:
        return intent.reads
    touched = _decoded([*winner.commit.adds, *winner.commit.removes], ground).keys()
    return replace(intent.reads, paths=intent.reads.paths - touched)


def _after_type_changes(intent: Intent, winner: WinningCommit) -> Intent:
    metadata = intent.commit.metadata
    if metadata is None:
        return intent
    later = type_widening.with_later_version(metadata.schema, winner.version, winner.version + 1)
    return intent.with_metadata(metadata.with_schema(later))


# ---------------------------------------------------------------------- 7, 8, 9, 10: files


def _check_appends(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    if intent.is_blind_append or {intent.operation, winner.operation} & operations.BACKFILLS:
        return
    found = _first_unread(intent, _candidates(intent, winner), ground)
    if found is not None:
        what = f"it added {found.path}{_partition(found)}, which this one should have read"
        raise _conflict("CONCURRENT_APPEND", what, intent, winner, ground)


def _candidates(intent: Intent, winner: WinningCommit) -> list[Add]:
    if intent.isolation is Isolation.SNAPSHOT:
        return []
    info = winner.commit.commit_info
    blind = info is not None and info.is_blind_append is True
    if intent.isolation is Isolation.WRITE_SERIALIZABLE and blind and intent.commit.metadata is None:
        return []
    return winner.commit.adds


def _first_unread(intent: Intent, candidates: list[Add], ground: Ground) -> Add | None:
    if not candidates:
        return None
    reads = intent.reads
    if reads.whole_table or not (reads.predicates or ground.read.metadata.partition_columns):
        return candidates[0]
    for predicate in intent.reads.predicates:
        found = ground.first_match(predicate, candidates)
        if found is not None:
            return found
    return None


def _check_deleted_reads(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    removed = _decoded(winner.commit.removes, ground)
    gone = next((path for path in removed if path in intent.reads.paths), None)
    if gone is None and intent.reads.whole_table:
        gone = next(iter(removed), None)
    if gone is not None:
        what = f"it removed {gone}{_partition(removed[gone])}, which this one read"
        raise _conflict("CONCURRENT_DELETE_READ", what, intent, winner, ground)


def _check_deleted_twice(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    removed = _decoded(winner.commit.removes, ground)
    if not removed:
        return
    ours = _decoded(intent.commit.removes, ground)
    gone = next((path for path in removed if path in ours), None)
    if gone is not None:
        what = f"both remove {gone}{_partition(removed[gone])}"
        raise _conflict("CONCURRENT_DELETE_DELETE", what, intent, winner, ground)


def _check_vacuumed(intent: Intent, winner: WinningCommit, ground: Ground) -> None:
    """Files that a restore brings back were there when it looked for them, which was before the vacuum."""
    if intent.operation in operations.RESTORES and winner.operation in operations.VACUUMS and intent.commit.adds:
        what = "it deletes files, which may be among those that this one brings back"
        raise _conflict("CONCURRENT_DELETE_READ", what, intent, winner, ground)


def _partition(file: Action) -> str:
    values = getattr(file, "partition_values", None)
    return f" in partition {', '.join(f'{key}={value}' for key, value in values.items())}" if values else ""


# ---------------------------------------------------------------------- 11: timestamps


def _after_timestamp(intent: Intent, winner: WinningCommit, ground: Ground) -> Intent:
    if not in_commit_timestamps.is_enabled(intent.metadata.configuration):
        return intent
    ours = intent.info.get("inCommitTimestamp", intent.info["timestamp"])
    timestamp = in_commit_timestamps.next_timestamp(ours, winner.timestamp_ms)
    intent = intent.with_info(inCommitTimestamp=timestamp)
    metadata = intent.commit.metadata
    if metadata is None:
        return intent
    # The winner cannot have changed metadata if we do, so the table's properties before us are those we read.
    before = ground.read.metadata.configuration
    return intent.with_metadata(in_commit_timestamps.with_enablement(metadata, before, winner.version + 1, timestamp))


def _conflict(
    condition: str,
    what: str,
    intent: Intent,
    winner: WinningCommit,
    ground: Ground,
    sides: dict[str, str] | None = None,
) -> ConflictError:
    return ConflictError(
        f"{ground.table} changed while {intent.operation} was under way: {what}",
        condition=condition,
        sides={
            "they": str(winner),
            "you": f"{intent.operation}, started from version {intent.read_version}",
            **(sides or {}),
        },
        next_step="Nothing was written. Read the table again and repeat the operation.",
    )
