"""Dropping features: both ways, every recipe, others in between, and a crash at every write."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.support import arrow_rows
from tests.support.columns import field, of_type, schema
from tests.support.commit_builders import add
from tests.support.faulty_store import WRITES, CrashError, FaultyStore

from halocline.compat.features import features
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.errors import ConflictError, IncompatibleError, InputError, NotYetError, SchemaError
from halocline.formats.delta.actions import deletion_vectors
from halocline.formats.delta.actions.action import DomainMetadata, encode_commit
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.drop import drop_feature
from halocline.formats.delta.features.drop_plan import plan_drop
from halocline.formats.delta.features.drop_steps import EDITS, HANDLERS
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.log.file_actions import adds_from, removes_from
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.log.timestamps import text_of
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import complete_checkpoints, list_files, readable_versions
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore

HOUR = 3_600_000
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


class Clock:
    """The computer's clock, ahead by as much as a test likes."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


def nobody_objects(before, after) -> str:
    return "nobody objects"


def drop(store, name, *, truncate_history=False, clock=None, **more):
    more.setdefault("approve", nobody_objects)
    snapshot = Snapshot.load(store, operation="write.metadata")
    return drop_feature(snapshot, name, truncate_history=truncate_history, clock=clock or Clock(), **more)


def created(store, configuration=None, columns=("id",), *, named=()) -> None:
    state = new_table(schema(*columns), (), configuration, named=named)
    Transaction.create(store).commit((), "CREATE TABLE", configuration=state)


def committed(store, *actions, operation="WRITE", **more) -> int:
    return Transaction(Snapshot.load(store, operation="write.metadata")).commit(actions, operation, **more)


def state_of(store) -> TableConfiguration:
    snapshot = Snapshot.load(store, operation="write")
    return snapshot.configuration


# Each table has two files, and its feature in use.


def vacuum_protocol_check(store) -> None:
    created(store, {"delta.feature.vacuumProtocolCheck": "supported"})


def v2_checkpoint(store) -> None:
    created(store, {"delta.checkpointPolicy": "v2"})
    committed(store, add("zero"))
    write_checkpoint(store, 1)


def domain_metadata(store) -> None:
    created(store, {"delta.feature.domainMetadata": "supported"})
    committed(store, DomainMetadata("delta.leftBehind", "{}"))


def row_tracking(store) -> None:
    created(store, {"delta.enableRowTracking": "true", **row_ids.materialised_columns()})


def in_commit_timestamp(store) -> None:
    created(store)
    committed(store, configuration=alter.set_properties(state_of(store), {"delta.enableInCommitTimestamps": "true"}))


def check_constraints(store) -> None:
    created(store, {"delta.minReaderVersion": "1", "delta.minWriterVersion": "3"})


def materialize_partition_columns(store) -> None:
    state = new_table(schema("id"), (), {"delta.enableMaterializePartitionColumnsFeature": "true"})
    # Creating such a table takes a whole writer, which this release is not; another engine did it.
    store.put(DELTA.commit_path(0), encode_commit(state.actions_since(None)))
    files = [add("one", data_change=False), add("two", data_change=False)]
    store.put(DELTA.commit_path(1), encode_commit(files))


TABLES = {
    "vacuumProtocolCheck": vacuum_protocol_check,
    "v2Checkpoint": v2_checkpoint,
    "domainMetadata": domain_metadata,
    "rowTracking": row_tracking,
    "inCommitTimestamp": in_commit_timestamp,
    "checkConstraints": check_constraints,
    "materializePartitionColumns": materialize_partition_columns,
}
KEPT = {
    "vacuumProtocolCheck": "(1,7|W: appendOnly,checkpointProtection,invariants)",
    "v2Checkpoint": "(1,7|W: appendOnly,checkpointProtection,invariants)",
    "domainMetadata": "(1,2)",
    "rowTracking": "(1,7|W: appendOnly,domainMetadata,invariants)",
    "inCommitTimestamp": "(1,2)",
    "checkConstraints": "(1,2)",
    "materializePartitionColumns": "(1,2)",
}
BARRIER = [name for name in TABLES if features("delta")[name].drop.barrier]


def table(name, store=None):
    store = MemoryStore() if store is None else store
    TABLES[name](store)
    if name != "materializePartitionColumns":
        committed(store, add("one"))
        committed(store, add("two"))
    return store


def copied(store) -> MemoryStore:
    other = MemoryStore()
    for meta in store.list():
        other.put(meta.path, store.get(meta.path))
    return other


def paths(store) -> set[str]:
    return set(Snapshot.load(store, operation="read").files(columns=["path"])["path"].to_pylist())


def checkpoints(store) -> list[int]:
    return [each.version for each in complete_checkpoints(list_files(store, DELTA))]


# ---------------------------------------------------------------------- recipes


def test_every_step_of_every_record_is_known():
    named = {step.name for each in features("delta").values() if each.drop for step in each.drop.steps}
    assert named - EDITS - HANDLERS.keys() == set()


@pytest.mark.parametrize("name", TABLES)
def test_a_feature_is_dropped_at_once_where_history_is_kept(name):
    store = table(name)
    before = paths(store)
    dropped = drop(store, name)
    header = read_header(store)
    assert str(header.protocol) == str(dropped.after) == KEPT[name]
    assert dropped.version == header.version
    assert paths(store) == before
    assert header.findings() == ()
    assert not header.facts.configuration.keys() & {"delta.rowTrackingSuspended", "delta.enableRowTracking"}


@pytest.mark.parametrize("name", BARRIER)
def test_kept_history_is_behind_three_checkpoints_and_protected(name):
    store = table(name)
    start = read_header(store).version
    dropped = drop(store, name)
    made = [version for version in checkpoints(store) if version > start]
    assert made[-4:] == [dropped.version - 3, dropped.version - 2, dropped.version - 1, dropped.version]
    assert read_header(store).metadata.configuration[PROTECTED] == str(dropped.version)
    assert readable_versions(list_files(store, DELTA)).start == 0


@pytest.mark.parametrize("name", sorted(set(TABLES) - set(BARRIER)))
def test_a_feature_without_a_barrier_needs_no_truncation(name):
    store = table(name)
    with pytest.raises(InputError, match="history is not truncated for it"):
        drop(store, name, truncate_history=True)
    assert read_header(store).protocol.supports(name)


def test_v2_checkpoints_go_with_their_history_once_it_is_old_enough():
    store, clock = table("v2Checkpoint"), Clock()
    before = paths(store)
    with pytest.raises(NotYetError, match="not out of its history") as early:
        drop(store, "v2Checkpoint", truncate_history=True, clock=clock)
    assert early.value.condition == "DROP_WAIT_FOR_RETENTION"
    assert early.value.sides["come back"] == f"at {text_of(early.value.until_ms)}"
    assert read_header(store).protocol.supports("v2Checkpoint")
    waiting = read_header(store).version
    clock.ahead_ms = early.value.until_ms - clock() - 60_000
    with pytest.raises(NotYetError) as again:
        drop(store, "v2Checkpoint", truncate_history=True, clock=clock)
    assert again.value.until_ms == early.value.until_ms, "asking again must not put the time off"
    assert read_header(store).version == waiting
    clock.ahead_ms += 60_001
    dropped = drop(store, "v2Checkpoint", truncate_history=True, clock=clock)
    assert str(dropped.after) == str(read_header(store).protocol) == "(1,2)"
    assert paths(store) == before
    assert min(file.version for file in list_files(store, DELTA)) > 1


def test_a_feature_without_traces_is_dropped_in_one_call_even_with_truncation():
    store = table("vacuumProtocolCheck")
    assert str(drop(store, "vacuumProtocolCheck", truncate_history=True).after) == "(1,2)"


def test_the_retention_is_the_tables_own():
    store, clock = table("v2Checkpoint"), Clock()
    key = "delta.dropFeatureTruncateHistory.retentionDuration"
    committed(store, configuration=alter.set_properties(state_of(store), {key: "interval 2 hours"}))
    with pytest.raises(NotYetError) as early:
        drop(store, "v2Checkpoint", truncate_history=True, clock=clock)
    assert 0 <= clock() + 2 * HOUR - early.value.until_ms < HOUR
    clock.ahead_ms = 2 * HOUR + 1000
    assert str(drop(store, "v2Checkpoint", truncate_history=True, clock=clock).after) == "(1,2)"


def test_row_ids_are_gone_after_dropping_row_tracking():
    store = table("rowTracking")
    assert Snapshot.load(store).files()["base_row_id"].null_count == 0
    drop(store, "rowTracking")
    snapshot = Snapshot.load(store)
    assert snapshot.files()["base_row_id"].null_count == 2
    assert snapshot.files()["default_row_commit_version"].null_count == 2
    assert dict(snapshot.domains) == {}
    assert dict(snapshot.properties) == {}
    assert str(drop(store, "domainMetadata").after) == "(1,2)"


def test_row_ids_are_cleared_in_batches(monkeypatch):
    monkeypatch.setattr(row_ids, "BATCH", 1)
    store = table("rowTracking")
    version = read_header(store).version
    dropped = drop(store, "rowTracking")
    assert dropped.version == version + 4, "one commit to suspend, one for each file, one to drop"


def test_in_commit_timestamps_leave_no_property_that_means_anything():
    store = table("inCommitTimestamp")
    assert len([key for key in read_header(store).metadata.configuration if "inCommitTimestamp" in key]) == 2
    drop(store, "inCommitTimestamp")
    assert dict(read_header(store).metadata.configuration) == {"delta.enableInCommitTimestamps": "false"}


# ---------------------------------------------------------------------- refusals


def test_constraints_are_never_dropped_along_with_their_feature():
    store = table("checkConstraints")
    committed(store, configuration=alter.add_constraint(state_of(store), "positive", "id > 0"))
    version = read_header(store).version
    with pytest.raises(InputError, match="would change what the table means") as refused:
        drop(store, "checkConstraints")
    assert refused.value.condition == "FEATURE_NOT_DROPPABLE"
    assert read_header(store).version == version


def test_domains_of_users_are_never_dropped_along_with_their_feature():
    store = table("domainMetadata")
    committed(store, DomainMetadata("billing", "{}"))
    with pytest.raises(InputError, match="would be lost: billing"):
        drop(store, "domainMetadata")
    assert set(Snapshot.load(store).domains) == {"billing", "delta.leftBehind"}


@pytest.mark.parametrize(
    ("name", "condition", "match"),
    [
        ("domainMetadata", "FEATURE_DEPENDENCY", "required by rowTracking"),
        ("appendOnly", "FEATURE_NOT_DROPPABLE", "cannot be taken out"),
        ("deletionVectors", "FEATURE_NOT_DROPPABLE", "does not have feature"),
        ("shiny", "FEATURE_UNKNOWN", "no feature 'shiny'"),
    ],
)
def test_what_cannot_be_dropped_is_refused_before_anything_is_written(name, condition, match):
    store = table("rowTracking")
    version = read_header(store).version
    with pytest.raises(InputError, match=match) as refused:
        drop(store, name)
    assert refused.value.condition == condition
    assert read_header(store).version == version


def test_who_would_break_is_asked_before_anything_is_written():
    store = table("v2Checkpoint")
    version, asked = read_header(store).version, []

    def object_to(before, after):
        asked.append((str(before.protocol), str(after.protocol), after.in_use))
        raise IncompatibleError("etl-nightly would break")

    with pytest.raises(IncompatibleError, match="etl-nightly"):
        drop(store, "v2Checkpoint", approve=object_to)
    assert read_header(store).version == version
    now, then = "(3,7|R: v2Checkpoint|W: appendOnly,invariants,v2Checkpoint)", KEPT["v2Checkpoint"]
    assert asked == [(now, then, {"checkpointProtection"})]


@pytest.mark.parametrize("name", TABLES)
def test_log_is_opened_again_only_after_it_was_written_to(name, monkeypatch):
    store = table(name)
    snapshot, opened, load = Snapshot.load(store, operation="write.metadata"), [], Snapshot.load
    monkeypatch.setattr(Snapshot, "load", staticmethod(lambda *args, **more: opened.append(1) or load(*args, **more)))
    dropped = drop_feature(snapshot, name, approve=nobody_objects, clock=Clock())
    written = dropped.version - snapshot.version
    assert len(opened) < written or (len(opened), written) == (0, 1), f"{len(opened)} openings for {written} commits"


# ---------------------------------------------------------------------- protection


def test_protection_goes_only_with_the_history_it_protects():
    store, clock = table("v2Checkpoint"), Clock()
    before = paths(store)
    protected = drop(store, "v2Checkpoint").version
    with pytest.raises(InputError, match="only by truncating the history it protects"):
        drop(store, "checkpointProtection")
    with pytest.raises(NotYetError, match="checkpointProtection is out of the newest version") as early:
        drop(store, "checkpointProtection", truncate_history=True, clock=clock)
    assert f"versions before {protected}" in early.value.sides["history"]
    clock.ahead_ms = 25 * HOUR
    assert str(drop(store, "checkpointProtection", truncate_history=True, clock=clock).after) == "(1,2)"
    assert min(file.version for file in list_files(store, DELTA) if file.kind is FileKind.COMMIT) >= protected
    assert PROTECTED not in read_header(store).metadata.configuration
    assert paths(store) == before


# ---------------------------------------------------------------------- others in between


def racing(store, interfere):
    """A store on which somebody else acts just before the commit that drops a feature."""

    class Racing(FaultyStore):
        def put_if_absent(self, path, data):
            if b'"DROP FEATURE"' in data and not done:
                done.append(path)
                interfere(store)
            return super().put_if_absent(path, data)

    done: list[str] = []
    return Racing(store)


def test_an_append_in_between_moves_the_protected_version():
    store = table("v2Checkpoint")
    dropped = drop(racing(store, lambda store: committed(store, add("three"))), "v2Checkpoint")
    assert read_header(store).metadata.configuration[PROTECTED] == str(dropped.version)
    assert paths(store) == {"zero", "one", "two", "three"}


def test_who_switches_the_feature_on_again_wins():
    store = table("rowTracking")
    later = {"delta.rowTrackingSuspended": "false"}

    def resume(store):
        committed(store, configuration=alter.set_properties(state_of(store), later), operation="SET TBLPROPERTIES")

    with pytest.raises(ConflictError):
        drop(racing(store, resume), "rowTracking")
    assert read_header(store).protocol.supports("rowTracking")


def test_domains_that_come_back_in_between_stop_the_drop():
    store = table("domainMetadata")
    again = racing(store, lambda store: committed(store, DomainMetadata("billing", "{}")))
    with pytest.raises(ConflictError, match="brought domainMetadata back"):
        drop(again, "domainMetadata")
    assert set(Snapshot.load(store).domains) == {"billing"}


@pytest.mark.parametrize("name", ["v2Checkpoint", "vacuumProtocolCheck"])
def test_asking_again_after_the_drop_is_refused_and_says_when_it_was(name):
    store = table(name)
    first = drop(store, name)
    with pytest.raises(InputError, match=f"does not have feature {name}: version {first.version}") as refused:
        drop(store, name)
    assert refused.value.condition == "FEATURE_NOT_DROPPABLE"


# ---------------------------------------------------------------------- crashes


def walk_through_crashes(built, run, expected):
    """Crashes after every write: then the table must read as before, and the next run must finish."""
    before = paths(built)
    counted = FaultyStore(copied(built))
    run(counted)
    writes = sum(operation.name in WRITES for operation in counted.operations)
    assert writes
    for number in range(1, writes + 1):
        store = copied(built)
        with pytest.raises(CrashError):
            run(FaultyStore(store).crash_after(number, on=WRITES))
        assert paths(store) == before, f"crash at write {number}"
        with suppress(InputError) if str(read_header(store).protocol) == expected else nullcontext():
            run(store)
        assert str(read_header(store).protocol) == expected, f"crash at write {number}"
        assert paths(store) == before, f"crash at write {number}, then a second run"


@pytest.mark.parametrize("name", TABLES)
def test_a_crash_at_any_write_leaves_a_table_that_reads_the_same_and_can_go_on(name):
    walk_through_crashes(table(name), lambda store: drop(store, name), KEPT[name])


def test_a_crash_while_history_is_truncated_leaves_a_table_that_can_go_on():
    store, clock = table("v2Checkpoint"), Clock()
    with pytest.raises(NotYetError):
        drop(store, "v2Checkpoint", truncate_history=True, clock=clock)
    clock.ahead_ms = 25 * HOUR
    walk_through_crashes(store, lambda store: drop(store, "v2Checkpoint", truncate_history=True, clock=clock), "(1,2)")


def test_a_crash_before_the_last_checkpoint_is_made_up_for():
    store = table("v2Checkpoint")
    counted = FaultyStore(copied(store))
    drop(counted, "v2Checkpoint")
    writes = [operation for operation in counted.operations if operation.name in WRITES]
    last = max(at for at, each in enumerate(writes, start=1) if each.path.endswith(".checkpoint.parquet"))
    with pytest.raises(CrashError):
        drop(FaultyStore(store).crash_before(last, on=WRITES), "v2Checkpoint")
    dropped = drop(store, "v2Checkpoint")
    assert dropped.already
    assert checkpoints(store)[-1] >= dropped.version


# ---------------------------------------------------------------------- rows that must be written again


def numbers(*ids, **columns) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


def with_vectors(store) -> None:
    """Three files of three rows; the first two have a row deleted by a vector."""
    created(store, {"delta.enableDeletionVectors": "true"})
    adds = [arrow_rows.written(store, numbers(at, at + 1, at + 2)) for at in (0, 10, 20)]
    committed(store, *adds)
    snapshot = Snapshot.load(store, operation="write")
    vectors = deletion_vectors.write_file(store, [[1], [2]])
    files = snapshot.files()
    old = list(removes_from(files, timestamp_ms=Clock()(), data_change=True))
    marked = {add.path: vector for add, vector in zip(adds, vectors, strict=False)}
    again = [
        replace(each, deletion_vector=marked[each.path])
        for each in adds_from(files, data_change=True)
        if each.path in marked
    ]
    Transaction(snapshot).commit([*(row for row in old if row.path in marked), *again], "DELETE")


VECTORS_LEFT = [0, 2, 10, 11, 20, 21, 22]


def ids(store) -> list[int]:
    return sorted(arrow_rows.rows_of(Snapshot.load(store))["id"].to_pylist())


def test_deleted_rows_stay_deleted_when_vectors_are_dropped():
    store = MemoryStore()
    with_vectors(store)
    assert ids(store) == VECTORS_LEFT
    untouched = paths(store)
    dropped = drop(store, "deletionVectors", rewriter=arrow_rows.rewritten)
    assert str(dropped.after) == "(1,7|W: appendOnly,checkpointProtection,invariants)"
    assert ids(store) == VECTORS_LEFT
    assert len(paths(store) & untouched) == 1, "the file without a vector stays"
    told = {row["path"] for row in Snapshot.load(store).tombstones().to_pylist() if row["deletion_vector"] is None}
    assert [path for path in told if path.endswith(".bin")] == [
        meta.path for meta in store.list() if meta.path.endswith(".bin")
    ]


def test_vectors_need_an_engine_to_be_dropped():
    store = MemoryStore()
    with_vectors(store)
    with pytest.raises(InputError, match="writes 2 files again, which takes Spark"):
        drop(store, "deletionVectors")
    assert ids(store) == VECTORS_LEFT


def test_another_client_writes_again_once_vectors_are_gone_from_history(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    store, clock = open_store(str(tmp_path / "orders")), Clock()
    with_vectors(store)
    with pytest.raises(NotYetError):
        drop(store, "deletionVectors", truncate_history=True, clock=clock, rewriter=arrow_rows.rewritten)
    clock.ahead_ms = 25 * HOUR
    dropped = drop(store, "deletionVectors", truncate_history=True, clock=clock, rewriter=arrow_rows.rewritten)
    assert str(dropped.after) == "(1,2)"
    deltalake.write_deltalake(tmp_path / "orders", numbers(99), mode="append")
    assert sorted(deltalake.DeltaTable(tmp_path / "orders").to_pyarrow_table()["id"].to_pylist()) == [*VECTORS_LEFT, 99]
    assert ids(store) == [*VECTORS_LEFT, 99]


@pytest.mark.parametrize("truncate_history", [False, True], ids=["history kept", "history truncated"])
def test_whether_another_client_can_write_afterwards_is_as_the_plan_says(truncate_history, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    store, clock = open_store(str(tmp_path / "orders")), Clock()
    created(store, {"delta.feature.vacuumProtocolCheck": "supported"})
    committed(store, arrow_rows.written(store, numbers(1)))
    plan = plan_drop(store, "vacuumProtocolCheck")
    way = "history truncated" if truncate_history else "history kept"
    drop(store, "vacuumProtocolCheck", truncate_history=truncate_history, clock=clock)
    release = Release.parse(f"deltalake@{deltalake.__version__}")
    assert (release in plan.left_able(way)) == truncate_history
    if truncate_history:
        deltalake.write_deltalake(tmp_path / "orders", numbers(2), mode="append")
        assert ids(store) == [1, 2]
    else:
        with pytest.raises(deltalake.exceptions.DeltaError, match="checkpointProtection"):
            deltalake.write_deltalake(tmp_path / "orders", numbers(2), mode="append")


def mapped(store) -> None:
    """A table whose column was renamed twice, with a file from before and one from after."""
    created(store, columns=("id", "amount"))
    committed(store, arrow_rows.written(store, numbers(1, amount=pa.array([10], pa.int64()))))
    committed(store, configuration=alter.set_properties(state_of(store), {"delta.columnMapping.mode": "name"}))
    committed(store, configuration=alter.rename_column(state_of(store), ["amount"], "total"), operation="RENAME COLUMN")
    committed(store, arrow_rows.written(store, numbers(2, amount=pa.array([20], pa.int64()))))


@pytest.mark.parametrize(
    ("truncate_history", "protocol"),
    [(False, "(1,7|W: appendOnly,checkpointProtection,invariants)"), (True, "(1,2)")],
)
def test_columns_keep_their_names_when_mapping_is_dropped(truncate_history, protocol, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    store, clock = open_store(str(tmp_path / "orders")), Clock()
    mapped(store)
    if truncate_history:
        with pytest.raises(NotYetError):
            drop(store, "columnMapping", truncate_history=True, clock=clock, rewriter=arrow_rows.rewritten)
        clock.ahead_ms = 25 * HOUR
    dropped = drop(
        store, "columnMapping", truncate_history=truncate_history, clock=clock, rewriter=arrow_rows.rewritten
    )
    assert str(dropped.after) == protocol
    header = read_header(store)
    assert not [key for key in header.metadata.configuration if "columnMapping" in key]
    assert not header.facts.field_annotations
    assert sorted(deltalake.DeltaTable(tmp_path / "orders").to_pyarrow_table()["total"].to_pylist()) == [10, 20]


def test_mapping_is_dropped_in_one_commit_so_that_no_reader_sees_half_of_it():
    store = MemoryStore()
    mapped(store)
    version = read_header(store).version
    drop(store, "columnMapping", rewriter=arrow_rows.rewritten)
    unmapped = store.get(DELTA.commit_path(version + 1))
    assert b'"REMOVE COLUMN MAPPING"' in unmapped
    assert all(key in unmapped for key in (b'"metaData"', b'"add"', b'"remove"'))


def test_names_that_files_cannot_hold_keep_their_mapping():
    store = MemoryStore()
    mapped(store)
    committed(
        store, configuration=alter.rename_column(state_of(store), ["total"], "the total"), operation="RENAME COLUMN"
    )
    before = {meta.path for meta in store.list()}
    with pytest.raises(SchemaError, match="which data files cannot"):
        drop(store, "columnMapping", rewriter=arrow_rows.rewritten)
    assert {meta.path for meta in store.list()} == before, "nothing is written for nothing"


def test_an_append_while_mapping_is_dropped_is_written_again_too():
    store = MemoryStore()
    mapped(store)
    interfered = []

    def rewrite(snapshot, files, target):
        added = arrow_rows.rewritten(snapshot, files, target)
        if not interfered:
            interfered.append(
                committed(store, arrow_rows.written(store, numbers(3, amount=pa.array([30], pa.int64()))))
            )
        return added

    drop(store, "columnMapping", rewriter=rewrite)
    rows = arrow_rows.rows_of(Snapshot.load(store))
    assert sorted(rows["total"].to_pylist()) == [10, 20, 30]


def test_only_files_with_older_types_are_written_again_when_widening_is_dropped():
    store, clock = MemoryStore(), Clock()
    created(store, {"delta.enableTypeWidening": "true"}, [field("id", "long"), field("amount", "integer")])
    narrow = arrow_rows.written(store, numbers(1, amount=pa.array([10], pa.int32())))
    committed(store, narrow)
    committed(store, configuration=alter.change_type(state_of(store), ["amount"], of_type("long")))
    wide = arrow_rows.written(store, numbers(2, amount=pa.array([2**40], pa.int64())))
    committed(store, wide)
    with pytest.raises(NotYetError):
        drop(store, "typeWidening", truncate_history=True, clock=clock, rewriter=arrow_rows.rewritten)
    clock.ahead_ms = 25 * HOUR
    dropped = drop(store, "typeWidening", truncate_history=True, clock=clock, rewriter=arrow_rows.rewritten)
    assert str(dropped.after) == "(1,2)"
    assert wide.path in paths(store)
    assert narrow.path not in paths(store)
    assert sorted(arrow_rows.rows_of(Snapshot.load(store))["amount"].to_pylist()) == [10, 2**40]
    assert b"delta.typeChanges" not in read_header(store).metadata.schema_string.encode()


def test_protocols_before_and_after_are_reported():
    store = table("checkConstraints")
    dropped = drop(store, "CHECKCONSTRAINTS")
    assert (dropped.before, dropped.after) == (Protocol.delta(1, 3), Protocol.delta(1, 2))
    assert str(dropped).endswith("(1,3) became (1,2). Checked: nobody objects")
