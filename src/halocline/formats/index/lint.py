"""What can be wrong with the log of a real index table, and the repair where there is one.

Releases of IndexTables4Spark have left all of these behind, or make a table slower or harder to search. A finding says
what is the matter and whom it hurts. A repair records what the table requires and nothing else, as one commit; nobody
who could use the table as it is loses it by that without being asked first.
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
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, needed_by
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage.base import Store

HURTS: Final[Mapping[str, str]] = {
    "PROTOCOL_MISSING": "releases that cannot read the table are not told so",
    "PROTOCOL_TOO_LOW": "releases that do not know what is in use open the table and go wrong",
    "SPLITS_RESTING": "an operation could not use them; their rows are served, at the cost of a scan",
    "SPLITS_OF_TWO_KINDS": "searches are refused: words in splits of IndexTables4Spark cannot be searched here",
    "ROWS_UNCOUNTED": "counts open every split that does not say how many rows it has",
}
"""The codes of findings, and whom each one hurts."""


@dataclass(frozen=True)
class IndexFinding:
    """Something that is wrong.

    Attributes:
        code: Its name.
        what: What is the matter.
        by_hand: What to do where there is no repair; empty if there is one.
    """

    code: str
    what: str
    by_hand: str = ""

    @property
    def hurts(self) -> str:
        """Whom it hurts, and how."""
        return HURTS[self.code]

    @property
    def safe(self) -> bool:
        """Whether it can be repaired."""
        return not self.by_hand

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {"code": self.code, "what": self.what, "hurts": self.hurts, "safe": self.safe, "byHand": self.by_hand}


def lint(store: Store, *, clients: Sequence[Client] = ()) -> LintReport[IndexFinding]:
    """Looks for what is wrong with a table's log; of one that this release may not read, nothing is known.

    Raises:
        MalformedError: The log is damaged.
        NotFoundError: There is no table.
    """
    try:
        snapshot = _loaded(store)
    except IncompatibleError:
        replay = IndexReplay.open(store)
        protocol = replay.header.protocol or LEGACY
        return LintReport(store.root, replay.version, protocol, protocol, ())
    return LintReport(store.root, snapshot.version, snapshot.protocol, _repaired(snapshot), tuple(_findings(snapshot)))


def fix(store: Store, approve: Callable[..., str], *, clients: Sequence[Client] = ()) -> Fixed:
    """Records what the table requires, if that is wrong.

    Raises:
        IncompatibleError: Somebody known would break.
    """
    snapshot = _loaded(store, "write")
    codes = tuple(each.code for each in _findings(snapshot) if each.safe)
    version, checked = None, ""
    if codes:
        transaction = IndexTransaction(snapshot, at_least=_repaired(snapshot))
        after = transaction.terms_after([])
        if after.protocol != snapshot.protocol:
            checked = approve(snapshot.terms, after)
        version = transaction.commit([], "REPAIR PROTOCOL")
    found = lint(store)
    return Fixed(version, snapshot.protocol, found.protocol, (), codes, checked, found.findings)


def _loaded(store: Store, operation: str = "read") -> IndexSnapshot:
    with catch_warnings():
        simplefilter("ignore")  # that there is no protocol is one of the findings
        return IndexSnapshot.load(store, operation=operation)


def _repaired(snapshot: IndexSnapshot) -> Protocol:
    """The protocol that the table should have."""
    return snapshot.protocol.merged(needed_by([*snapshot.files.values(), *snapshot.skips.values()]))


def _findings(snapshot: IndexSnapshot) -> Iterator[IndexFinding]:
    splits = snapshot.files.values()
    own = sum(each.is_own for each in splits)
    if not snapshot.has_protocol:
        yield IndexFinding("PROTOCOL_MISSING", f"no commit says what the table requires; it is {snapshot.protocol}")
    needed = needed_by([*splits, *snapshot.skips.values()])
    lacking = sorted(needed.features - snapshot.protocol.features)
    if lacking:
        yield IndexFinding("PROTOCOL_TOO_LOW", f"{', '.join(lacking)} in use, and the protocol is {snapshot.protocol}")
    now_ms = time.time_ns() // 1_000_000
    resting = [path for path, each in snapshot.skips.items() if path in snapshot.files and each.rests_at(now_ms)]
    if resting:
        what = f"{len(resting)} of {len(splits)} splits rest: {min(resting)}: {snapshot.skips[min(resting)].reason}"
        yield IndexFinding("SPLITS_RESTING", what[:300], "merge_splits() when they may be tried again")
    if 0 < own < len(splits):
        what = f"{own} splits of Halocline's own, and {len(splits) - own} of IndexTables4Spark"
        yield IndexFinding("SPLITS_OF_TWO_KINDS", what, "reindex()")
    uncounted = sum(each.num_records is None for each in splits)
    if uncounted:
        yield IndexFinding("ROWS_UNCOUNTED", f"{uncounted} of {len(splits)} splits", "reindex()")
