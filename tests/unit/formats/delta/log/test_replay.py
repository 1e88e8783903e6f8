import json
import logging
import threading

import pyarrow as pa
import pytest
from tests.support.log_builder import ADD, COLUMNS, LogBuilder, add, parquet_of, table, vector, written

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import (
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Sidecar,
    Txn,
    UnknownAction,
    encode_commit,
)
from halocline.formats.delta.log import commits
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.log.commits import Tail
from halocline.formats.delta.log.replay import Replay
from halocline.formats.log import parquet_object
from halocline.formats.log.names import DELTA, FileKind, LogEntry
from halocline.storage.base import ObjectMeta
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
BASE = (ProtocolAction(1, 2), table(), add("old-1"), add("old-2", deletion_vector=vector()), Remove("gone-1", 3))


def paths(replay: Replay, **more):
    return sorted(replay.files(**more)["path"].to_pylist())


def opened(log: LogBuilder, version: int | None = None) -> Replay:
    return Replay.open(log.store, version)


class TestTail:
    def test_newer_commits_win(self):
        log = LogBuilder().create(add("a"), add("b")).commit(Remove("a", 7), add("c")).commit(add("a"))
        assert paths(opened(log)) == ["a", "b", "c"]
        assert paths(opened(log, 1)) == ["b", "c"]
        assert opened(log).tombstones().num_rows == 0
        assert opened(log, 1).tombstones()["deletion_timestamp"].to_pylist() == [7]

    def test_the_vector_is_part_of_the_key(self):
        log = LogBuilder().create(add("a")).commit(Remove("a"), add("a", deletion_vector=vector("v1")))
        log.commit(Remove("a", deletion_vector=vector("v1")), add("a", deletion_vector=vector("v2")))
        files = opened(log).files()
        assert files["deletion_vector"].to_pylist()[0]["path_or_inline_dv"] == "v2"
        assert files.num_rows == 1

    def test_the_offset_of_a_vector_is_part_of_the_key(self):
        log = LogBuilder().create(add("a", deletion_vector=vector("v", 1)))
        log.commit(Remove("a", deletion_vector=vector("v", 1)), add("a", deletion_vector=vector("v", 40)))
        assert opened(log).files()["deletion_vector"].to_pylist()[0]["offset"] == 40

    def test_adding_a_file_again_only_updates_it(self):
        again = Add("a", {"day": "1"}, 200, 6, False, tags={"k": "v", "n": None})
        files = opened(LogBuilder().create(add("a")).commit(again)).files().to_pylist()
        assert [(file["size"], file["tags"]) for file in files] == [(200, [("k", "v"), ("n", None)])]

    def test_paths_are_compared_decoded(self):
        log = LogBuilder().create(add("day=1/a%20b"), add("/x/y")).commit(Remove("day=1/a b"), Remove("memory://x/y"))
        assert paths(opened(log)) == ["x/y"]

    @pytest.mark.parametrize(("first", "then"), [("a", "b"), ("./a", "a"), ("x//a", "x/a"), ("a%20b", "a b")])
    def test_a_file_removed_under_another_spelling_is_gone(self, first, then):
        log = LogBuilder().create(add(first), add("kept")).commit(Remove(then))
        assert ("kept" in paths(opened(log)), len(paths(opened(log)))) == (True, 2 if then == "b" else 1)

    @pytest.mark.parametrize("actions", [(Remove("a"), add("a")), (add("a"), Remove("a")), (add("a"), Remove("./a"))])
    def test_a_file_both_added_and_removed_in_a_commit_is_damage(self, actions):
        with pytest.raises(MalformedError, match="both adds and removes 'a'"):
            opened(LogBuilder().create(add("b")).commit(*actions)).files()

    def test_a_file_that_changes_its_vector_is_removed_and_added(self):
        log = LogBuilder().create(add("a", deletion_vector=vector("v")))
        log.commit(Remove("a", deletion_vector=vector("v")), add("a", deletion_vector=vector("w")))
        (found,) = opened(log).files()["deletion_vector"].to_pylist()
        assert found["path_or_inline_dv"] == "w"

    def test_the_same_add_twice_is_one_file(self):
        assert paths(opened(LogBuilder().create(add("a"), add("a")))) == ["a"]

    def test_two_vectors_for_one_path_in_a_commit_are_damage(self):
        log = LogBuilder().create(add("a"), add("a", deletion_vector=vector()))
        with pytest.raises(MalformedError, match="two different deletion vectors"):
            opened(log).files()

    def test_a_path_live_under_two_vectors_is_damage(self):
        log = LogBuilder().create(add("a")).commit(add("a", deletion_vector=vector()))
        with pytest.raises(MalformedError, match="'a' more than once"):
            opened(log).files()

    def test_the_newest_protocol_and_metadata_count(self):
        log = LogBuilder().create().commit(ProtocolAction(1, 3)).commit(Metadata("new"))
        header = opened(log).header
        assert (header.protocol, header.metadata) == (ProtocolAction(1, 3), Metadata("new"))

    def test_a_protocol_spelt_by_numbers_counts_as_well(self):
        log = LogBuilder().create()
        log.put(f"{1:020d}.json", b'{"\\u0070rotocol":{"minReaderVersion":99,"minWriterVersion":99}}')
        assert opened(log).header.protocol == ProtocolAction(99, 99)

    def test_transactions_and_domains_keep_the_newest_word(self):
        log = LogBuilder().create(Txn("a", 1), Txn("b", 1), DomainMetadata("d", "1"), DomainMetadata("e", "1"))
        log.commit(Txn("a", 2), DomainMetadata("d", "1", removed=True))
        replay = opened(log)
        assert {name: txn.version for name, txn in replay.txns.items()} == {"a": 2, "b": 1}
        assert list(replay.domains) == ["e"]

    def test_unknown_actions_do_no_harm(self):
        log = LogBuilder().create(add("a"), UnknownAction("future", b"{}"), Cdc("_change_data/c", {}, 1))
        assert paths(opened(log)) == ["a"]

    def test_an_empty_commit_file_is_damage(self):
        log = LogBuilder().create(add("a")).put(f"{1:020d}.json", b"")
        with pytest.raises(MalformedError, match="is empty"):
            opened(log).files()

    def test_compactions_are_read_in_place_of_their_commits(self):
        log = LogBuilder().create(add("a"), add("b")).commit(Remove("a", 5), *[Remove(f"x{n}") for n in range(9)])
        log.commit(add("c"), *[Remove(f"y{n}") for n in range(9)])
        log.put(f"{1:020d}.{2:020d}.compacted.json", encode_commit([add("c"), Remove("a", 5)]))
        replay = opened(log)
        assert len(replay.segment.cover) == 2
        assert paths(replay) == ["b", "c"]

    def test_a_long_tail_is_fetched_again_rather_than_kept(self, monkeypatch):
        monkeypatch.setattr("halocline.formats.delta.log.commits._KEPT", 10)
        files = opened(LogBuilder().create(add("a", "1")).commit(add("b", "2"))).files()
        assert dict(zip(*files.select(["path", "partition_values"]).to_pydict().values(), strict=True)) == {
            "a": [("day", "1")],
            "b": [("day", "2")],
        }

    def test_fields_decoded_later_are_those_of_the_files_that_still_live(self):
        log = LogBuilder().create(add("a", "1"), add("b", "1"), add("c", "1"), add("d", "1"), add("e%20e", "1"))
        log.commit(Remove("a", 5), add("b", "2"), add("d", "2", deletion_vector=vector()), Remove("d", 5))
        replay = opened(log)
        narrow = replay.files(["path", "log_path"])["path"].to_pylist()
        files = replay.files(["partition_values", "deletion_vector"])
        assert narrow == files["path"].to_pylist()
        found = {
            row["path"]: (dict(row["partition_values"])["day"], row["deletion_vector"] is not None)
            for row in files.to_pylist()
        }
        assert found == {"b": ("2", False), "c": ("1", False), "d": ("2", True), "e e": ("1", False)}

    def test_a_field_that_cannot_be_read_is_damage_for_whoever_asks_for_it(self):
        log = LogBuilder().create(add("a"))
        line = b'{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":5}}'
        replay = opened(log.put(f"{1:020d}.json", line))
        assert sorted(replay.files(["path", "size"])["path"].to_pylist()) == ["a", "b"]
        with pytest.raises(MalformedError, match="line 1 cannot be read"):
            replay.files(["stats"])


def kinds(log: LogBuilder, kind: str) -> LogBuilder:
    """The same state as a checkpoint of another kind."""
    head = [action for action in BASE if not isinstance(action, Add | Remove)] + [CheckpointMetadata(3)]
    files = [action for action in BASE if isinstance(action, Add | Remove)]
    half = parquet_of(files[:1]), parquet_of(files[1:])
    sidecars = [Sidecar(f"s%20{n}.parquet", len(data), 1) for n, data in enumerate(half)]
    if kind == "single":
        return log.checkpoint(3, *BASE)
    if kind == "parts":
        log.checkpoint(3, *BASE[:3], suffix="checkpoint.0000000001.0000000002.parquet")
        return log.checkpoint(3, *BASE[3:], suffix="checkpoint.0000000002.0000000002.parquet")
    if kind == "inline json":
        return log.put(f"{3:020d}.checkpoint.{UUID}.json", encode_commit([*head, *files]))
    for n, data in enumerate(half):
        log.put(f"_sidecars/s {n}.parquet", data)
    if kind == "json with sidecars":
        return log.put(f"{3:020d}.checkpoint.{UUID}.json", encode_commit([*head, *sidecars]))
    name = "checkpoint.parquet" if kind == "classic name with sidecars" else f"checkpoint.{UUID}.parquet"
    return log.checkpoint(3, *head, *sidecars, suffix=name)


KINDS = ["single", "parts", "inline json", "json with sidecars", "parquet with sidecars", "classic name with sidecars"]


@pytest.mark.parametrize("kind", KINDS)
class TestCheckpointKinds:
    def test_the_tail_lies_over_the_checkpoint(self, kind):
        log = kinds(LogBuilder(), kind)
        log.commit(Remove("old-2", 9, deletion_vector=vector()), add("new"), version=4)
        replay = opened(log)
        assert paths(replay) == ["new", "old-1"]
        assert replay.header.protocol == ProtocolAction(1, 2)
        assert replay.header.metadata == table()
        assert sorted(replay.tombstones()["path"].to_pylist()) == ["gone-1", "old-2"]

    def test_every_column_comes_back(self, kind):
        row = next(row for row in opened(kinds(LogBuilder(), kind)).files().to_pylist() if row["path"] == "old-2")
        assert row["partition_values"] == [("day", "1")]
        assert (row["size"], row["modification_time"], row["stats"]) == (100, 5, None)
        assert row["deletion_vector"] == {
            "storage_type": "u",
            "path_or_inline_dv": "v",
            "offset": 1,
            "size_in_bytes": 34,
            "cardinality": 1,
        }

    def test_a_remove_without_the_vector_leaves_the_file(self, kind):
        log = kinds(LogBuilder(), kind).commit(Remove("old-2"), version=4)
        assert paths(opened(log)) == ["old-1", "old-2"]

    def test_asked_for_columns_are_enough(self, kind):
        files = opened(kinds(LogBuilder(), kind)).files(columns=["size"])
        assert files.column_names == ["path", "size"]


class TestCheckpointContent:
    def test_transactions_and_domains_are_read(self):
        log = LogBuilder().checkpoint(3, *BASE, Txn("a", 1), Txn("b", 2), DomainMetadata("d", "{}"))
        log.commit(Txn("b", 3), version=4)
        replay = opened(log)
        assert {name: txn.version for name, txn in replay.txns.items()} == {"a": 1, "b": 3}
        assert list(replay.domains) == ["d"]

    def test_empty_feature_lists_under_low_numbers_mean_no_lists(self):
        log = LogBuilder().checkpoint(3, ProtocolAction(1, 2, [], []), table())
        assert opened(log).header.protocol == ProtocolAction(1, 2)

    def test_feature_lists_come_back(self):
        protocol = ProtocolAction(3, 7, [], ["appendOnly"])
        assert opened(LogBuilder().checkpoint(3, protocol, table())).header.protocol == protocol

    def test_paths_of_a_checkpoint_are_decoded(self):
        log = LogBuilder().checkpoint(3, *BASE[:2], add("a%20b"), add("plain")).commit(Remove("a%20b"), version=4)
        assert paths(opened(log)) == ["plain"]

    @pytest.mark.parametrize("path", ["../a", "a/../../b", ""])
    def test_paths_that_leave_the_table_are_damage(self, path):
        log = LogBuilder().checkpoint(3, *BASE[:2], add("plain"), add(path))
        with pytest.raises(MalformedError):
            opened(log).files()

    def test_a_path_listed_twice_is_damage(self):
        log = LogBuilder().checkpoint(3, *BASE[:2], add("a"), add("b"), add("a"))
        with pytest.raises(MalformedError, match="'a' more than once"):
            opened(log).files()

    @pytest.mark.parametrize("column", [pa.string(), pa.float64(), pa.list_(pa.int64())])
    def test_a_column_of_the_wrong_type_is_damage(self, column):
        value = {pa.string(): "x", pa.float64(): 1.5}.get(column, [1])
        kind = pa.struct([("path", pa.string()), ("size", column)])
        rows = pa.Table.from_pylist([{"add": {"path": "a", "size": value}}], schema=pa.schema([("add", kind)]))
        log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", written(rows)).commit(*BASE[:2], version=1)
        with pytest.raises(MalformedError, match=r"add\.size"):
            opened(log).files()

    def test_narrow_and_dictionary_types_are_widened(self):
        text = pa.string_view()
        maps = pa.map_(text, text)
        kind = pa.struct(
            [("path", pa.dictionary(pa.int32(), pa.string())), ("size", pa.int16()), ("tags", maps), ("stats", text)]
        )
        row = {"path": "a", "size": 7, "tags": [("k", "v")], "stats": "{}"}
        rows = pa.Table.from_pylist([{"add": row}], schema=pa.schema([("add", kind)]))
        log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", written(rows)).commit(*BASE[:2], version=1)
        assert opened(log).files(columns=["size", "tags", "stats"]).to_pylist() == [row]

    def test_an_add_without_a_path_is_damage(self):
        kind = pa.struct([("path", pa.string()), ("size", pa.int64())])
        rows = [{"add": {"path": "a", "size": 7}}, {"add": {"path": None, "size": 8}}, {"add": None}]
        data = written(pa.Table.from_pylist(rows, schema=pa.schema([("add", kind)])))
        log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", data).commit(*BASE[:2], version=1)
        with pytest.raises(MalformedError, match="without a path"):
            opened(log).files()

    def test_a_negative_size_is_damage(self):
        rows = pa.Table.from_pylist([{"add": {"path": "a", "size": -7}}], schema=pa.schema([("add", ADD)]))
        log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", written(rows)).commit(*BASE[:2], version=1)
        with pytest.raises(MalformedError, match="below 0"):
            opened(log).files()

    def test_two_protocols_are_damage(self):
        with pytest.raises(MalformedError, match="2 protocol actions"):
            opened(LogBuilder().checkpoint(3, *BASE, ProtocolAction(1, 3)))

    def test_a_missing_sidecar_is_damage(self):
        log = kinds(LogBuilder(), "json with sidecars")
        log.store.delete("_delta_log/_sidecars/s 1.parquet")
        with pytest.raises(MalformedError, match=r"needs sidecar s 1\.parquet"):
            opened(log).files()

    def test_the_v2_mark_shows(self):
        for kind, is_v2 in (("single", False), ("inline json", True)):
            checkpoint = opened(kinds(LogBuilder(), kind)).checkpoint
            assert isinstance(checkpoint, Checkpoint)
            assert checkpoint.others.is_v2 is is_v2

    def test_rows_without_actions_are_damage_unless_their_action_may_be_unknown(self):
        name, kind = COLUMNS[Add]
        row = {"path": "a", "size": 1, "modificationTime": 1, "partitionValues": []}
        rows = [{name: None}] * 3 + [{name: row}] + [{name: None}] * 3
        for column, known in (("txn", True), ("shiny", False)):
            schema = pa.schema([(name, kind), (column, pa.struct([("appId", pa.string())]))])
            data = written(pa.Table.from_pylist(rows, schema=schema), row_group_size=2)
            log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", data).commit(*BASE[:2], version=1)
            if known:
                with pytest.raises(MalformedError, match="6 rows that are no action"):
                    opened(log).files()
            else:
                assert paths(opened(log)) == ["a"]


class TestUnreadableCheckpoint:
    def test_an_older_one_is_used(self, caplog):
        log = LogBuilder().create(add("a")).commit(add("b")).commit(add("c"))
        log.checkpoint(1, *BASE[:2], add("a"), add("b")).put(f"{2:020d}.checkpoint.parquet", b"PAR1 torn")
        with caplog.at_level(logging.WARNING):
            replay = opened(log)
        assert replay.checkpoint is not None
        assert replay.checkpoint.files.version == 1
        assert paths(replay) == ["a", "b", "c"]
        assert f"{2:020d}.checkpoint.parquet" in caplog.text

    @pytest.mark.parametrize("found_late", [False, True])
    def test_two_that_are_damaged_are_both_left_out(self, found_late):
        log = LogBuilder().create(add("a")).commit(add("b")).commit(add("c")).commit(add("d"))
        log.put(f"{1:020d}.checkpoint.parquet", b"PAR1 torn")
        if found_late:
            log.checkpoint(2, *BASE[:2], add("a"), add("b")).pointer(version=2, size=5, numOfAddFiles=3)
        else:
            log.put(f"{2:020d}.checkpoint.parquet", b"PAR1 torn")
        replay = opened(log)
        assert paths(replay) == ["a", "b", "c", "d"]
        assert replay.checkpoint is None

    def test_the_log_from_its_beginning_is_used(self):
        log = (
            LogBuilder()
            .create(add("a"))
            .commit(add("b"))
            .put(f"{1:020d}.checkpoint.parquet", b"")
            .pointer(version=1, size=1)
        )
        assert paths(opened(log)) == ["a", "b"]

    def test_without_another_way_the_damage_is_the_error(self):
        log = LogBuilder().commit(add("b"), version=2).put(f"{1:020d}.checkpoint.parquet", b"garbage")
        with pytest.raises(MalformedError, match=r"checkpoint\.parquet cannot be read"):
            opened(log)

    def test_an_old_version_stays_that_version(self):
        log = LogBuilder().create(add("a")).commit(add("b")).commit(add("c")).put(f"{1:020d}.checkpoint.parquet", b"x")
        assert paths(opened(log, 1)) == ["a", "b"]


class TestCleanupBesideReading:
    def test_a_commit_that_vanishes_says_so(self):
        log = LogBuilder().create(add("a")).commit(add("b"))
        replay = opened(log)
        log.store.delete(f"_delta_log/{0:020d}.json")
        with pytest.raises(NotFoundError, match="cleaned up while it was being read") as caught:
            replay.files()
        assert caught.value.condition == "VERSION_NOT_FOUND"

    def test_a_checkpoint_that_vanishes_gives_way_to_another(self):
        log = LogBuilder().create(add("a")).commit(add("b"))
        gone = f"_delta_log/{1:020d}.checkpoint.parquet"

        class Cleaned(MemoryStore):
            def list(self, prefix="", *, start_after=None, follow_links=True):
                yield from [*super().list(prefix, start_after=start_after), ObjectMeta(gone, 5, 5)]

        store = Cleaned()
        for meta in log.store.list():
            store.put(meta.path, log.store.get(meta.path))
        assert paths(Replay.open(store)) == ["a", "b"]


class TestPlaces:
    @pytest.mark.parametrize("whole", [0, 10**9], ids=["by ranges", "whole"])
    def test_remote_checkpoints_are_read(self, whole, monkeypatch):
        monkeypatch.setattr(parquet_object, "_WHOLE", whole)
        assert paths(opened(kinds(LogBuilder(), "parquet with sidecars"))) == ["old-1", "old-2"]

    def test_local_checkpoints_are_read_in_place(self, tmp_path):
        log = kinds(LogBuilder(LocalStore(tmp_path)), "parts")
        assert paths(opened(log)) == ["old-1", "old-2"]

    def test_a_folder_without_a_log_is_no_table(self):
        with pytest.raises(NotFoundError) as caught:
            opened(LogBuilder())
        assert caught.value.condition == "TABLE_NOT_FOUND"


class TestStatsText:
    def stats(self, **stats):
        kind = pa.struct([*ADD, pa.field("stats_parsed", pa.scalar(stats["parsed"], stats.get("type")).type)])
        row = {"path": "a", "size": 1, "stats": stats.get("text"), "stats_parsed": stats["parsed"]}
        rows = pa.Table.from_pylist([{"add": row}], schema=pa.schema([("add", kind)]))
        metadata = Metadata("1", json.dumps({"type": "struct", "fields": [{"name": "z", "type": "timestamp_ntz"}]}))
        log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", written(rows)).commit(BASE[0], metadata, version=1)
        text = opened(log).files()["stats"].to_pylist()[0]
        return None if text is None else json.loads(text)

    def test_typed_statistics_become_text(self):
        at = pa.scalar(1_700_000_000_123_456, pa.timestamp("us", "UTC")).as_py()
        values = {"n": 5, "f": 1.5, "s": 'q"uo\\te\n', "d": at.date(), "t": at, "z": at.replace(tzinfo=None), "x": None}
        found = self.stats(parsed={"numRecords": 3, "minValues": values, "nullCount": {"n": 0, "deep": {"er": 1}}})
        assert found == {
            "numRecords": 3,
            "minValues": {
                "n": 5,
                "f": 1.5,
                "s": 'q"uo\\te\n',
                "d": "2023-11-14",
                "t": "2023-11-14T22:13:20.123Z",
                "z": "2023-11-14T22:13:20.123",
            },
            "nullCount": {"n": 0, "deep": {"er": 1}},
        }

    def test_text_that_is_there_is_kept(self):
        assert self.stats(parsed={"numRecords": 3}, text='{"numRecords":4}') == {"numRecords": 4}

    def test_not_a_number_is_left_out(self):
        assert self.stats(parsed={"maxValues": {"f": float("nan"), "g": 2.0}}) == {"maxValues": {"g": 2}}


def test_commit_info_of_a_newer_release_does_not_hide_the_header():
    log = LogBuilder().commit(
        CommitInfo({"x": [1]}), UnknownAction("add2", b"{}"), ProtocolAction(99, 99), Metadata("1")
    )
    log.put(
        f"{1:020d}.json",
        b'{"add":{"location":"a newer shape of add"}}\n{"protocol":{"minReaderVersion":100,"minWriterVersion":100}}',
    )
    assert opened(log).header.protocol == ProtocolAction(100, 100)


def test_a_listing_during_which_another_one_ends_gives_each_file_its_own_fields(monkeypatch):
    class Shared(MemoryStore):
        meanwhile = staticmethod(lambda: None)

        def get_many(self, paths):
            act, self.meanwhile = self.meanwhile, lambda: None
            for number, data in enumerate(super().get_many(paths)):
                if number == 1:
                    act()
                yield data

    store = Shared()
    names = [DELTA.commit_path(version) for version in range(5)]
    for version, name in enumerate(names):
        stats = json.dumps({"numRecords": version})
        line = {"add": {"path": f"{version}.parquet", "size": 1, "partitionValues": {}, "stats": stats}}
        store.put(name, json.dumps(line).encode())
    segment = [LogEntry(name, FileKind.COMMIT, at, at, 0, 0, 1, 0) for at, name in enumerate(names)]
    state = Tail(store, segment).state()
    monkeypatch.setattr(commits, "_KEPT", 3 * len(store.get(names[0])))
    tail = Tail(store, segment)

    def listed():
        rows = pa.Table.from_batches(tail.files(state, ("path", "stats"))).to_pylist()
        return {row["path"]: json.loads(row["stats"])["numRecords"] for row in rows}

    found = []
    store.meanwhile = lambda: found.append(listed())
    found.append(listed())
    assert found == [{f"{version}.parquet": version for version in range(5)}] * 2


class TestSeveralThreads:
    @pytest.mark.parametrize("moment", range(4))
    def test_a_tail_that_is_read_while_a_checkpoint_is_left_out_does_not_stand_for_the_longer_one(self, moment):
        class Watched(MemoryStore):
            """Lets another thread list the files when the place of an object is asked for, and read slowly."""

            moments = ()
            reading, left = threading.Event(), threading.Event()

            def address(self, path=""):
                if self.moments and (other := self.moments.pop()) is not None:
                    other.start()
                    self.reading.wait(0.3)
                return super().address(path)

            def get_many(self, paths):
                if threading.current_thread() is not threading.main_thread():
                    self.reading.set()
                    self.left.wait(0.3)
                return super().get_many(paths)

        # The newest checkpoint lacks a file, which only the pointer and a listing tell.
        log = LogBuilder(Watched()).create(add("a")).commit(add("b")).commit(add("c")).commit(add("d"))
        log.checkpoint(1, *BASE[:2], add("a"), add("b")).checkpoint(2, *BASE[:2], add("a"), add("b"))
        log.pointer(version=2, size=5, numOfAddFiles=3)
        replay, found = opened(log), []
        assert replay.checkpoint is not None
        assert replay.checkpoint.files.version == 2
        other = threading.Thread(target=lambda: found.append(paths(replay)))
        log.store.moments = [other] + [None] * moment
        found.append(paths(replay))
        log.store.left.set()
        if other.ident is not None:
            other.join(10)
        assert [*found, paths(replay)] == [["a", "b", "c", "d"]] * (len(found) + 1)
