"""What can be wrong with a real index table, whom it hurts, and the repair where there is one.

A repair raises the protocol to what the table has in it already, and does nothing else: whoever it locks out would have
read or written the table wrongly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from warnings import catch_warnings, simplefilter

from halocline.compat.breaks import Client
from halocline.compat.protocol import Protocol
from halocline.compat.reports import Fixed, LintReport
from halocline.errors import IncompatibleError
from halocline.formats.index.companion.identity import Companion
from halocline.formats.index.history import read_commit
from halocline.formats.index.log.actions import IndexLine, header_in
from halocline.formats.index.log.checkpoints import INTERVAL
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.merge.plan import merge_groups
from halocline.formats.index.protocol import LEGACY, needed_by
from halocline.formats.index.skips import rested
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.partition_nulls import has_exact_nulls
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import INDEX, FileKind, LogEntry
from halocline.formats.log.segment import list_files
from halocline.storage.base import Store

HURTS: Final[Mapping[str, str]] = {
    "PROTOCOL_MISSING": "nothing stops a release that does not understand the table",
    "PROTOCOL_TOO_LOW": "releases that do not know what is in the table work on it all the same",
    "FEATURES_LOST": "a later protocol forgot features of an earlier one, so they are no longer asked for",
    "SKIP_UNDER_OLD_NAME": "IndexTables4Spark from 0.5.5 on passes over such skips, and tries the splits at once",
    "SPLITS_RESTING": "they are not merged, and searched from their rows, which takes long",
    "SPLITS_OF_TWO_KINDS": "searches are refused: words in splits of IndexTables4Spark cannot be searched here",
    "EMPTY_TEXT_AS_NULL": "rows whose partition value was empty text are found as rows without a value",
    "ROWS_UNCOUNTED": "counting opens the splits, where the log could tell",
    "SMALL_SPLITS": "every search opens each of them",
    "COMPANION_UNBOUND": "it does not answer any more: nothing tells whether it shows all rows, and of which table",
    "CHECKPOINT_OVERDUE": "opening the table reads every commit since the last checkpoint",
}
"""The codes of findings, and whom each one hurts."""

_MANY_GROUPS: Final = 1
_MANY_SMALL: Final = 10
_OVERDUE: Final = 5 * INTERVAL
_TEXT: Final = ("string", "binary")


@dataclass(frozen=True)
class IndexFinding:
    """Something that is wrong.

    Attributes:
        code: Its name.
        what: What is the matter.
        safe: Whether a repair puts it right.
        by_hand: What to do where there is no repair.
    """

    code: str
    what: str
    safe: bool = False
    by_hand: str = ""

    @property
    def hurts(self) -> str:
        """Whom it hurts, and how."""
        return HURTS[self.code]

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "code": self.code,
            "what": self.what,
            "hurts": self.hurts,
            "safe": self.safe,
            "byHand": self.by_hand,
        }


def lint(store: Store, *, clients: Sequence[Client] = ()) -> LintReport[IndexFinding]:
    """Looks for what is wrong with an index table, without opening its splits.

    Nothing is told of a table that this release may not read.

    Raises:
        MalformedError: The log is damaged; see `halocline.formats.index.maintain.log`.
    """
    try:
        snapshot = _loaded(store)
    except IncompatibleError:
        replay = IndexReplay.open(store)
        protocol = replay.header.protocol or LEGACY
        return LintReport(store.root, replay.version, protocol, protocol, ())
    now_ms = time.time_ns() // 1_000_000
    found = (*_protocol(snapshot), *_companion(snapshot), *_log(snapshot), *_splits(snapshot, now_ms))
    repaired = _wanted(snapshot) if any(each.safe for each in found) else snapshot.protocol
    return LintReport(store.root, snapshot.version, snapshot.protocol, repaired, found)


def fix(store: Store, approve: Callable[..., str], *, clients: Sequence[Client] = ()) -> Fixed:
    """Raises the protocol to what the table has in it, if who is asked approves.

    Raises:
        IncompatibleError: The release may not write the table, or somebody would break.
    """
    report = lint(store, clients=clients)
    if not report.fixable:
        return Fixed(None, report.protocol, report.protocol, (), (), "", report.findings)
    snapshot = _loaded(store)
    codes = tuple(each.code for each in report.fixable)
    transaction = IndexTransaction(snapshot, at_least=report.repaired)
    after = transaction.terms_after([])
    checked = approve(snapshot.terms, after) if after.protocol != snapshot.protocol else ""
    version = transaction.commit([], "REPAIR PROTOCOL", findings=list(codes))
    left = lint(store, clients=clients).findings
    return Fixed(version, snapshot.protocol, after.protocol, (), codes, checked, left)


def _loaded(store: Store) -> IndexSnapshot:
    with catch_warnings():
        simplefilter("ignore")  # that there is no protocol is one of the findings
        return IndexSnapshot.load(store)


def _wanted(snapshot: IndexSnapshot) -> Protocol:
    wanted = snapshot.protocol.merged(needed_by((*snapshot.files.values(), *snapshot.skips.values())))
    for each in _protocols(snapshot.store):
        wanted = wanted.merged(each)
    return wanted


def _protocols(store: Store) -> Iterator[Protocol]:
    """Every protocol that the commits that are left have recorded, oldest first."""
    for file, lines in _commits(store):
        if (protocol := header_in(lines, file.name).protocol) is not None:
            yield protocol


def _commits(store: Store) -> Iterator[tuple[LogEntry, list[IndexLine]]]:
    for file in list_files(store, INDEX):
        if file.kind is FileKind.COMMIT:
            yield file, read_commit(store, file)


def _protocol(snapshot: IndexSnapshot) -> Iterator[IndexFinding]:
    writable = not snapshot.replay.has_avro_state
    by_hand = "" if writable else "the state is in Avro and not written here; index the table anew into another one"
    needed = needed_by((*snapshot.files.values(), *snapshot.skips.values()))
    if not snapshot.has_protocol:
        yield IndexFinding("PROTOCOL_MISSING", f"the log has no protocol, and is taken as {LEGACY}", writable, by_hand)
    if snapshot.protocol.merged(needed) != snapshot.protocol:
        what = f"the table has in it what needs {needed}, and its protocol is {snapshot.protocol}"
        yield IndexFinding("PROTOCOL_TOO_LOW", what, writable, by_hand)
    before = [each for each in _protocols(snapshot.store) if snapshot.protocol.merged(each) != snapshot.protocol]
    if before:
        what = f"{before[-1]} was recorded once, and the protocol is {snapshot.protocol}"
        yield IndexFinding("FEATURES_LOST", what, writable, by_hand)


def _companion(snapshot: IndexSnapshot) -> Iterator[IndexFinding]:
    companion = Companion.of(snapshot)
    if companion is not None and companion.mark is None:
        what = f"it is a companion of {companion.source}, and was made by a release that did not record of which table"
        yield IndexFinding("COMPANION_UNBOUND", what, by_hand="sync(rebuild=True)")


def _log(snapshot: IndexSnapshot) -> Iterator[IndexFinding]:
    old = [each.skip.path for _, lines in _commits(snapshot.store) for each in lines if each.skip is not None]
    if old:
        what = f"{len(old)} skips are under the name skip, the newest of {old[-1]}"
        yield IndexFinding("SKIP_UNDER_OLD_NAME", what, by_hand="merge_splits(), which records them anew")
    base = snapshot.replay.segment.checkpoint
    since = snapshot.version - (-1 if base is None else base.version)
    if since > _OVERDUE:
        yield IndexFinding(
            "CHECKPOINT_OVERDUE", f"there are {since} commits since the last checkpoint", by_hand="write a checkpoint"
        )


def _splits(snapshot: IndexSnapshot, now_ms: int) -> Iterator[IndexFinding]:
    splits = snapshot.files.values()
    resting = [each for each in snapshot.skips.values() if each.path in snapshot.files and each.rests_at(now_ms)]
    if resting:
        what = f"{len(resting)} splits rest, {resting[0].path} because {resting[0].reason}"
        yield IndexFinding("SPLITS_RESTING", what, by_hand="reindex()")
    own = sum(each.is_own for each in splits)
    if 0 < own < len(splits):
        what = f"{own} splits of Halocline's own, and {len(splits) - own} of IndexTables4Spark"
        yield IndexFinding("SPLITS_OF_TWO_KINDS", what, by_hand="reindex()")
    yield from _doubtful_nulls(snapshot)
    silent = [each for each in splits if each.num_records is None]
    if silent:
        what = f"{len(silent)} splits do not say how many rows they have"
        yield IndexFinding("ROWS_UNCOUNTED", what, by_hand="reindex()")
    groups = merge_groups(rested(snapshot, now_ms))
    small = sum(len(each.splits) for each in groups)
    if len(groups) >= _MANY_GROUPS and small >= _MANY_SMALL:
        what = f"{small} small splits would be {len(groups)}"
        yield IndexFinding("SMALL_SPLITS", what, by_hand="merge_splits()")


def _doubtful_nulls(snapshot: IndexSnapshot) -> Iterator[IndexFinding]:
    """Nulls of partition columns that were written when empty text was kept as null."""
    metadata = snapshot.metadata
    columns = [name for name in metadata.partition_columns if snapshot.schema.find([name])[1].type.name in _TEXT]
    splits = [each for each in snapshot.files.values() if each.is_own and not has_exact_nulls(each, columns)]
    if splits:
        doubtful = {name for each in splits for name in columns if each.partition_values.get(name, "") is None}
        where = " OR ".join(f"{name} IS NULL" for name in columns if name in doubtful)
        names = " and ".join(sorted(doubtful))
        what = f"{len(splits)} splits hold null in {names} where empty text may have been written"
        by_hand = f"overwrite(rows, where={where!r}), with the rows of the source, or those of to_df if null is right"
        yield IndexFinding("EMPTY_TEXT_AS_NULL", what, by_hand=by_hand)
