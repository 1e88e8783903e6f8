"""Shortening the log: what goes, what stays, and in which order."""

from __future__ import annotations

import pytest
from tests.support.commit_builders import add, metadata

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import ProtocolAction, encode_commit
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.log_cleanup import DAY_MS, boundaries_at, clean_log, expired_files
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.log.checkpoint_write import classic_path, write_checkpoint
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import list_files
from halocline.storage.base import ObjectMeta
from halocline.storage.memory import MemoryStore

START = 1_700_000_000_000 // DAY_MS * DAY_MS


class DatedStore(MemoryStore):
    """A store in which log files of version n were written n days after the start."""

    def _dated(self, meta: ObjectMeta) -> ObjectMeta:
        name = meta.path.rpartition("/")[2]
        day = int(name[:20]) if name[:20].isdigit() else self.sidecar_day
        return ObjectMeta(meta.path, meta.size, START + day * DAY_MS, meta.etag)

    sidecar_day = 0

    def list(self, prefix="", *, start_after=None, follow_links=True):
        return map(self._dated, super().list(prefix, start_after=start_after))

    def fetch(self, path):
        data, meta = super().fetch(path)
        return data, self._dated(meta)


def day(number: float) -> int:
    return int(START + number * DAY_MS)


def log(versions: int, *checkpoints: int, protocol=None, **settings) -> DatedStore:
    store = DatedStore()
    first = [protocol or ProtocolAction(1, 2), metadata(**settings), add("0")]
    for version in range(versions):
        store.put(DELTA.commit_path(version), encode_commit(first if version == 0 else [add(f"{version}")]))
        store.put(f"{DELTA.prefix(version)}.crc", b"{}")
        if version in checkpoints:
            write_checkpoint(store, version, now_ms=START)
    return store


def clean(store, now: float, supports=lambda protocol, operation: False, **options):
    configuration = Snapshot.load(store).configuration
    return clean_log(store, configuration, now_ms=day(now), supports=supports, **options)


def names(store) -> set[str]:
    return {meta.path.removeprefix("_delta_log/").lstrip("0") or "0" for meta in store.list("_delta_log")}


def versions(store) -> set[int]:
    return {file.version for file in list_files(store, DELTA)}


def test_everything_before_the_newest_expired_checkpoint_goes():
    store = log(12, 3, 7, 10)
    cleaned = clean(store, 38.5)  # the cutoff is midnight of day 8
    assert cleaned.boundary == 7
    assert versions(store) == {7, 8, 9, 10, 11}
    assert store.exists(classic_path(7))
    assert not store.exists(classic_path(3))
    assert store.exists(DELTA.commit_path(7)), "the boundary keeps its own commit"
    assert Snapshot.load(store).files().num_rows == 12
    assert Snapshot.load(store, version=7).files().num_rows == 8


def test_cutoff_is_rounded_down_to_midnight():
    store = log(6, 2, 4)
    assert clean(store, 34.0).boundary == 4
    store = log(6, 2, 4)
    assert clean(store, 33.999).boundary == 2
    store = log(6, 2, 4)
    assert clean(store, 33.999, retention_ms=int(29.9 * DAY_MS), whole_days=False).boundary == 4


@pytest.mark.parametrize(
    ("store", "now"),
    [(log(12), 1000), (log(12, 10), 35), (log(12, 3), 32)],
    ids=["no checkpoint", "only a young checkpoint", "nothing old enough"],
)
def test_without_an_expired_checkpoint_nothing_goes(store, now):
    before = names(store)
    assert clean(store, now).log_files == ()
    assert names(store) == before


def test_table_can_forbid_it():
    store = log(12, 7, enableExpiredLogCleanup="false")
    assert clean(store, 1000).skipped == "delta.enableExpiredLogCleanup is false"
    assert len(versions(store)) == 12
    assert clean(store, 1000, retention_ms=0).boundary == 7


def test_own_retention_of_the_table_counts():
    store = log(12, 3, 7, logRetentionDuration="interval 2 days")
    assert clean(store, 9.5).boundary == 7


def test_checkpoint_without_its_commit_is_no_boundary():
    store = log(12, 3, 7)
    store.delete(DELTA.commit_path(7))
    assert [each.version for each in boundaries_at(list_files(store, DELTA), day(8))] == [3]


def test_commits_go_first_and_checkpoints_last():
    kinds = [file.kind.value for file in expired_files(list_files(log(8, 2, 5), DELTA), 5)]
    assert kinds == ["commit"] * 5 + ["checksum"] * 5 + ["checkpoint"]


def test_compactions_and_staged_commits_before_the_boundary_go():
    store = log(10, 4)
    compaction = "_delta_log/00000000000000000004.00000000000000000006.compacted.json"
    later = "_delta_log/00000000000000000005.00000000000000000006.compacted.json"
    staged = "_delta_log/_staged_commits/00000000000000000003.11111111-2222-3333-4444-555555555555.json"
    newer = "_delta_log/_staged_commits/00000000000000000009.11111111-2222-3333-4444-555555555555.json"
    for path in (compaction, later, staged, newer):
        store.put(path, b"{}")
    clean(store, 40)
    assert [store.exists(path) for path in (compaction, later, staged, newer)] == [False, True, False, True]


# ---------------------------------------------------------------------- V2

V2 = ProtocolAction(3, 7, ["v2Checkpoint"], ["v2Checkpoint"])


def sidecars(store) -> set[str]:
    return {meta.path for meta in store.list("_delta_log/_sidecars")}


def test_sidecars_of_deleted_checkpoints_go_once_they_are_old():
    store = log(12, 3, 7, protocol=V2, checkpointPolicy="v2")
    before = sidecars(store)
    assert len(before) == 2
    store.sidecar_day = 40
    assert clean(store, 40).sidecars == ()
    store = log(12, 3, 7, protocol=V2, checkpointPolicy="v2")
    cleaned = clean(store, 40)
    assert len(cleaned.sidecars) == 1
    assert Snapshot.load(store).files().num_rows == 12


@pytest.mark.parametrize("asked", [{}, {"protocol": V2, "checkpointPolicy": "v2"}])
def test_checkpoint_that_is_torn_or_lacks_a_sidecar_is_no_boundary(asked):
    store = log(12, 3, **asked)
    others = sidecars(store)
    top = write_checkpoint(store, 7, now_ms=START).path
    if lost := sidecars(store) - others:
        store.delete(*lost)
    else:
        store.put(top, store.get(top)[:100])
    write_checkpoint(store, 10, now_ms=START)
    assert clean(store, 38.5).boundary == 3
    assert Snapshot.load(store, version=8).files().num_rows == 9


def test_boundary_gets_the_classic_name_so_that_old_clients_can_refuse():
    store = log(12, 7, protocol=V2, checkpointPolicy="v2")
    assert not store.exists(classic_path(7))
    clean(store, 40)
    assert store.exists(classic_path(7))
    assert Snapshot.load(store).files().num_rows == 12


# ---------------------------------------------------------------------- protected history

PROTECTED = Protocol.delta(1, 7, None, ["appendOnly", "checkpointProtection", "invariants"])


def protected_log(before: int) -> DatedStore:
    return log(12, 3, 7, protocol=action_of(PROTECTED), requireCheckpointProtectionBeforeVersion=str(before))


def test_protected_history_goes_only_past_the_protected_version_at_once():
    store = protected_log(9)
    assert "protected" in clean(store, 40).skipped
    assert len(versions(store)) == 12
    store = protected_log(7)
    assert clean(store, 40).boundary == 7
    assert min(versions(store)) == 7


@pytest.mark.parametrize(("supported", "first"), [(True, 7), (False, 0)], ids=["all protocols", "not all"])
def test_protected_history_may_go_if_every_protocol_on_the_way_is_supported(supported, first):
    store = protected_log(9)
    asked = []

    def supports(protocol, operation):
        asked.append(operation)
        return supported

    clean(store, 40, supports=supports)
    assert min(versions(store)) == first
    assert asked


# ---------------------------------------------------------------------- after commits


def test_commit_with_a_checkpoint_shortens_the_log():
    store = log(10, 5, checkpointInterval="10")
    transaction = Transaction(Snapshot.load(store), clock=lambda: day(60))
    assert transaction.commit([add("new")], "WRITE") == 10
    assert transaction.outcome.problems == ()
    assert versions(store) == {10}
    assert Snapshot.load(store).files().num_rows == 11
