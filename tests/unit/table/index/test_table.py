"""Index tables that are opened without a session: what they say, what they require, and the fleet in front of them."""

from __future__ import annotations

import math
import shutil
import uuid

import pytest
from tests.support.columns import field
from tests.support.fleets import running, until, users_of
from tests.support.index_tables import append, delete, table_of
from tests.support.splits import row

from halocline import connect
from halocline.cli import main
from halocline.compat.protocol import Protocol
from halocline.errors import ConflictError, IncompatibleError, InputError, MissingVerbError, NotFoundError
from halocline.formats.index.log.actions import IndexTxn, SplitAdd
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import INDEX
from halocline.schema import Struct
from halocline.storage import open_store
from halocline.table import IndexTable, Table

COLUMNS = Struct([field("id", "long"), field("message", "string")])


def made(path, protocol=None):
    """An empty table."""
    store = open_store(str(path))
    more = {} if protocol is None else {"protocol": protocol}
    IndexTransaction.create(store, COLUMNS, **more).commit([], "CREATE TABLE")
    return store


def test_a_table_is_found_and_says_what_it_is(tmp_path):
    made(tmp_path)
    table = Table.for_path(tmp_path)
    assert isinstance(table, IndexTable)
    assert (table.version, table.protocol.writer, table.detail()["numSplits"]) == (0, 5, 0)
    assert [each["name"] for each in table.schema["fields"]] == ["id", "message"]
    assert [each.operation for each in table.history()] == ["CREATE TABLE"]
    with pytest.raises(InputError, match="a history cannot have -1 entries"):
        table.history(-1)
    with pytest.raises(MissingVerbError, match="vacuum"):
        _ = table.vacuum
    with pytest.raises(MissingVerbError, match="downgrade"):
        table.downgrade(2)
    with pytest.raises(InputError, match="without a Spark session"):
        table.to_df()


def test_a_table_that_stays_open_reads_what_came_since_and_nothing_twice(tmp_path, monkeypatch):
    store = made(tmp_path)
    table = Table.for_path(tmp_path)
    table.snapshot()
    first = table.snapshot()
    read = []
    get_many = type(table.store).get_many

    def counted(self, paths):
        names = list(paths)
        read.extend(name.rpartition("/")[2] for name in names)
        return get_many(self, names)

    monkeypatch.setattr(type(table.store), "get_many", counted)
    assert table.snapshot() is first
    IndexTransaction(IndexSnapshot.load(store, operation="write")).commit(
        [SplitAdd("a.split.parquet", {}, 9, 0, True)], "WRITE"
    )
    read.clear()
    assert list(table.snapshot().files) == ["a.split.parquet"]
    assert read == [f"{1:020d}.json"]


def test_a_table_that_stays_open_is_read_anew_when_another_one_lies_there(tmp_path):
    made(tmp_path)
    table = Table.for_path(tmp_path)
    before = [table.snapshot().metadata.id for _ in range(2)]
    shutil.rmtree(tmp_path / "_transaction_log")
    with pytest.raises(NotFoundError):
        table.snapshot()
    other = made(tmp_path)
    assert table.snapshot().metadata.id == IndexSnapshot.load(other).metadata.id
    table.snapshot()
    other.put(INDEX.commit_path(0), other.get(INDEX.commit_path(0)).replace(b"message", b"subject") + b"\n")
    assert (before[0] == before[1], table.snapshot().schema.names) == (True, ("id", "subject"))


def test_a_table_that_stays_open_with_a_checkpoint_alone_is_read_anew_when_another_one_lies_there(tmp_path):
    store = made(tmp_path)
    IndexTransaction(IndexSnapshot.load(store, operation="write")).commit(
        [SplitAdd("a.split.parquet", {}, 9, 0, True)], "WRITE"
    )
    IndexSnapshot.load(store).write_checkpoint()
    for version in range(2):
        store.delete(INDEX.commit_path(version))
    table = Table.for_path(tmp_path)
    first = table.snapshot()
    assert (table.snapshot() is first, list(first.files)) == (True, ["a.split.parquet"])
    shutil.rmtree(tmp_path / "_transaction_log")
    made(tmp_path)
    assert list(table.snapshot().files) == [], "rows of a table that is gone"


def test_an_upgrade_keeps_what_the_table_has_and_is_done_once(tmp_path):
    made(tmp_path, Protocol.index(1, 1))
    table = Table.for_path(tmp_path)
    assert table.upgrade("skippedFiles").protocol == Protocol.index(2, 2)
    assert table.upgrade(2).protocol == Protocol.index(2, 2)
    assert table.version == 1
    assert table.upgrade(3).protocol == Protocol.index(3, 3)
    assert "parquetSplit" in table.upgrade("deletionMasks").protocol.features
    for avro in (4, "avroState"):
        with pytest.raises(InputError, match="Avro"):
            table.upgrade(avro)
    with pytest.raises(NotFoundError, match="parquetSplit"):
        table.upgrade("parquetSplits")


def test_what_an_application_has_written_is_known_after_a_checkpoint_and_to_whoever_comes_second(tmp_path):
    store = made(tmp_path)
    first = IndexSnapshot.load(store, operation="write")
    IndexTransaction(first).commit([SplitAdd("a.split.parquet", {}, 9, 0, True), IndexTxn("q", 7)], "WRITE")
    with pytest.raises(ConflictError) as refused:
        IndexTransaction(first).commit([SplitAdd("b.split.parquet", {}, 9, 0, True), IndexTxn("q", 7)], "WRITE")
    assert refused.value.condition == "CONCURRENT_TRANSACTION"
    IndexSnapshot.load(store).write_checkpoint()
    IndexTransaction(IndexSnapshot.load(store)).commit([], "NOTHING")
    newest = IndexSnapshot.load(store)
    assert newest.replay.segment.checkpoint is not None
    assert (newest.txn_version("q"), newest.txn_version("other")) == (7, None)
    assert IndexReplay.open(store).state.txns["q"].version == 7


def test_the_fleet_is_asked_before_a_table_is_made_or_raised_and_told_of_every_use(tmp_path):
    with running() as (hosting, admin), connect(hosting.address, name="ops") as ops:
        with pytest.raises(IncompatibleError) as refused:
            Table.create(tmp_path / "new", COLUMNS, format="index")
        assert refused.value.condition == "GATE_CLOSED"
        made(tmp_path / "old", Protocol.index(1, 1))
        with pytest.raises(IncompatibleError):
            Table.for_path(tmp_path / "old").upgrade(2)
        for level in range(2, 6):
            admin.raise_level("index", level, reason="test")
        until(lambda: ops.gate("index", 5))
        table = Table.create(tmp_path / "new", COLUMNS, format="index")
        assert table.snapshot().level == 5
        assert Table.for_path(tmp_path / "old").upgrade(2).protocol.writer == 2
        assert main.run(["search", str(tmp_path / "new"), "id:1"]) == 0
        until(
            lambda: {use.operation for use in getattr(users_of(admin, table.url).get("ops"), "tables", ())} >= {"read"}
        )


def test_lint_finds_a_protocol_that_is_missing_or_too_low_and_repairs_it(tmp_path, capsys):
    store = open_store(str(tmp_path))
    snapshot = table_of([row(1)], store=store)
    assert main.run(["lint", str(tmp_path)]) == 0
    path = tmp_path / "_transaction_log" / f"{0:020}.json"
    lines = [line for line in path.read_text().splitlines() if '"protocol"' not in line]
    path.write_text("\n".join(lines) + "\n")
    assert main.run(["lint", str(tmp_path)]) == 2
    shown = capsys.readouterr().out
    assert "PROTOCOL_MISSING" in shown
    assert "PROTOCOL_TOO_LOW" in shown
    assert main.run(["lint", str(tmp_path), "--fix"]) == 0
    assert IndexSnapshot.load(store).protocol.supports("parquetSplit")
    assert snapshot.version + 1 == IndexSnapshot.load(store).version
    append(snapshot, [row(2)])
    assert Table.for_path(tmp_path).detail()["numRecords"] == 2


def test_upkeep_needs_no_session(tmp_path):
    snapshot = table_of([row(1)], [row(2)], store=open_store(str(tmp_path)))
    table = Table.for_path(tmp_path)
    for hours in (-1, math.inf):
        with pytest.raises(InputError, match="files cannot be kept for"):
            table.purge(retention_hours=hours, dry_run=False, allow_short_retention=True)
    assert table.purge().files == ()
    assert table.describe_log()["action"].to_pylist().count("add") == 2
    assert table.repair_log().is_sound
    with pytest.raises(InputError, match="own columns"):
        table.drop_partitions("id:1")
    assert len(table.truncate_history(dry_run=False)) == 2
    assert [each.version for each in table.history()] == [2]
    left_over = f"part-{uuid.uuid4()}.split"
    snapshot.store.put(left_over, b"x")
    snapshot.store.set_modified(left_over, 1_000)
    assert [each.path for each in table.purge(dry_run=False).files] == [left_over]
    assert not snapshot.store.exists(left_over)


def test_rows_come_as_arrow_batches_without_deleted_ones(tmp_path):
    snapshot = table_of([row(n) for n in range(6)], [row(n) for n in range(6, 9)], store=open_store(str(tmp_path)))
    delete(snapshot, {next(iter(snapshot.files)): [1]})
    table = Table.for_path(tmp_path)
    ids = table.to_arrow(columns=["id"]).read_all()["id"].to_pylist()
    assert len(ids) == 8
    assert sorted(table.to_arrow(where="level = 'WARN' AND id > 1").read_all()["id"].to_pylist()) == [4, 7]
    assert sorted(table.to_pandas(where="latency >= 2.0", columns=["id"])["id"]) == [8]


def test_log_shows_who_did_what(tmp_path, capsys):
    table_of([row(1)], store=open_store(str(tmp_path)))
    assert main.run(["log", str(tmp_path)]) == 0
    assert "WRITE" in capsys.readouterr().out
    assert [each.operation for each in Table.for_path(tmp_path).history()] == ["WRITE", "CREATE TABLE"]
