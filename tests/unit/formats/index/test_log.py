"""Logs of index tables: every way that a release has written one, and every way that one can be damaged."""

import json

import pytest
from tests.support.faulty_store import FaultyStore
from tests.support.index_logs import ENCODINGS, IndexLog, add, entry, metadata, protocol, remove, skip, text

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.index.log.actions import IndexMetadata, decode_metadata, encode_actions
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.log.names import INDEX

EVERY_FIELD = {
    "stats": "{}",
    "tags": {"a": "b"},
    "minValues": {"id": "1"},
    "maxValues": {"id": "9"},
    "footerStartOffset": 3,
    "footerEndOffset": 10,
    "hasFooterOffsets": True,
    "hotcacheStartOffset": 5,
    "hotcacheLength": 2,
    "timeRangeStart": "2024-01-01T00:00:00Z",
    "timeRangeEnd": 1704067200,
    "splitTags": ["x"],
    "deleteOpstamp": 7,
    "numMergeOps": 2,
    "docMappingJson": "[]",
    "docMappingRef": "z7TwwZ-tDWGD-uX5",
    "uncompressedSizeBytes": 3,
    "companionSourceFiles": ["a.parquet"],
    "companionDeltaVersion": 4,
    "companionFastFieldMode": "HYBRID",
}


def files(store, version=None):
    return sorted(IndexReplay.open(store, version).state.files)


def start() -> IndexLog:
    return IndexLog().commit(0, protocol(2, 2), metadata())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_commit_is_read_in_every_encoding(encoding):
    log = start().commit(1, add("a.split"), add("b.split"), encoding=encoding)
    log.commit(2, remove("a.split"), encoding=encoding)
    assert files(log.store) == ["b.split"]
    assert files(log.store, 1) == ["a.split", "b.split"], "commits are kept, so older versions are there"


def test_every_field_of_an_add_comes_back_as_it_was():
    line = add("a.split", **EVERY_FIELD)
    log = start().commit(1, line)
    (found,) = IndexReplay.open(log.store).state.files.values()
    assert json.loads(encode_actions([found])) == line


def test_absent_optional_fields_may_be_null():
    nulls = dict.fromkeys(EVERY_FIELD, None) | {"hasFooterOffsets": False, "tags": None}
    assert files(start().commit(1, add("a.split", **nulls)).store) == ["a.split"]


def test_unknown_fields_and_unknown_actions_are_passed_over():
    log = start().commit(1, add("a.split", shiny=1), {"shiny": {"x": 1}}, {"txn": {}}, {"commitInfo": {"a": 1}})
    assert files(log.store) == ["a.split"]


def test_fields_of_metadata_that_nobody_knows_survive():
    body = metadata(shiny={"x": [1]})["metaData"]
    read = decode_metadata(json.dumps(body).encode(), "0.json")
    assert isinstance(read, IndexMetadata)
    assert json.loads(encode_actions([read]))["metaData"]["shiny"] == {"x": [1]}


@pytest.mark.parametrize("key", ["skip", "mergeskip"])
def test_a_skip_is_read_under_both_names_and_written_as_mergeskip(key):
    log = start().commit(1, add("a.split"), skip("a.split", key, retryAfter=99, skipCount=3))
    (found,) = IndexReplay.open(log.store).state.skips.values()
    assert (found.reason, found.retry_after, found.skip_count) == ("damaged", 99, 3)
    assert json.loads(encode_actions([found])).keys() == {"mergeskip"}


def test_a_skip_goes_with_its_split():
    log = start().commit(1, add("a.split"), skip("a.split")).commit(2, remove("a.split"))
    assert not IndexReplay.open(log.store).state.skips


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_checkpoint_in_one_file_is_the_base(encoding):
    log = IndexLog().checkpoint(4, protocol(2, 2), metadata(), add("a.split"), skip("a.split"), encoding=encoding)
    log.commit(5, add("b.split"))
    replay = IndexReplay.open(log.store)
    assert sorted(replay.state.files) == ["a.split", "b.split"]
    assert replay.state.skips.keys() == {"a.split"}
    assert str(replay.header.protocol) == "index(2,2)"


def test_a_checkpoint_in_parts_is_the_base():
    log = IndexLog().checkpoint_in_parts(4, [protocol(3, 3), metadata(), add("a.split")], [add("b.split")])
    assert files(log.commit(5, remove("a.split")).store) == ["b.split"]


def test_a_part_that_is_missing_is_damage():
    log = IndexLog().checkpoint_in_parts(4, [protocol(3, 3), metadata()], [add("b.split")])
    log.store.delete(f"{INDEX.prefix(4)}.checkpoint.0123456789ab.00002.json")
    with pytest.raises(MalformedError, match="is missing"):
        files(log.store)


def test_a_damaged_checkpoint_is_left_aside_while_the_commits_are_there():
    log = start().commit(1, add("a.split")).commit(2, add("b.split"))
    log.checkpoint(2, protocol(2, 2), metadata())
    log.store.put(f"{INDEX.prefix(2)}.checkpoint.json", b'{"protocol')
    assert files(log.store) == ["a.split", "b.split"]
    assert IndexReplay.open(log.store).header.protocol is not None
    log.store.delete(INDEX.commit_path(1))
    with pytest.raises(MalformedError, match=r"checkpoint\.json"):
        files(log.store)


def test_a_checkpoint_holds_numbers_features_files_and_skips_that_count():
    lists = {"readerFeatures": ["parquetSplit"], "writerFeatures": ["optimizeWrite", "parquetSplit"]}
    log = IndexLog().commit(0, protocol(4, 5, **lists), metadata())
    log.commit(1, add("a.split"), skip("a.split"), skip("gone.split", retryAfter=9), skip("b.split", retryAfter=99))
    IndexSnapshot.load(log.store).write_checkpoint(now_ms=50)
    for version in (0, 1):
        log.store.delete(INDEX.commit_path(version))
    replay = IndexReplay.open(log.store)
    assert replay.segment.checkpoint is not None
    assert str(replay.header.protocol) == "index(4,5|R: parquetSplit|W: optimizeWrite,parquetSplit)"
    assert replay.state.files.keys() == {"a.split"}
    assert replay.state.skips.keys() == {"a.split", "b.split"}, "one whose time has passed counts no more"


# ---------------------------------------------------------------- Avro states


def test_a_state_is_read_with_manifests_and_tombstones():
    log = start().state(
        3,
        {"manifests/manifest-1.avro": [entry("a.split"), entry("b.split")], "own.avro": [entry("c.split")]},
        tombstones=["b.split"],
    )
    assert files(log.store) == ["a.split", "c.split"]
    assert files(log.commit(4, remove("c.split")).store) == ["a.split"]


@pytest.mark.parametrize("key", ["abc", "docMappingSchema.abc"])
def test_an_index_schema_is_found_by_its_key_with_and_without_the_prefix(key):
    log = start().state(1, {"manifests/m.avro": [entry("a.split", docMappingRef="abc")]}, registry={key: "[1]"})
    snapshot = IndexSnapshot.load(log.store)
    assert snapshot.doc_mapping(snapshot.files["a.split"]) == "[1]"
    in_metadata = IndexLog().commit(0, protocol(3, 3), metadata(configuration={"docMappingSchema.abc": "[2]"}))
    snapshot = IndexSnapshot.load(in_metadata.commit(1, add("a.split", docMappingRef="abc")).store)
    assert snapshot.doc_mapping(snapshot.files["a.split"]) == "[2]"


def test_an_index_schema_that_is_not_there_is_damage():
    snapshot = IndexSnapshot.load(start().commit(1, add("a.split", docMappingRef="abc")).store)
    with pytest.raises(MalformedError, match="which the log does not hold"):
        snapshot.doc_mapping(snapshot.files["a.split"])


SHINY = {"readerFeatures": ["shiny"], "writerFeatures": ["shiny"]}


@pytest.mark.parametrize(
    ("said", "number", "expected"),
    [
        ([protocol(2, 4)], 4, "index(2,4)"),
        ([protocol(4, 4, **SHINY)], 4, "index(4,4|R: shiny|W: shiny)"),
        ([protocol(2, 2)], 4, "index(4,4)"),
        ([], 4, "index(4,4)"),
    ],
)
def test_what_a_state_loses_of_the_protocol_is_taken_from_the_commits(said, number, expected):
    log = IndexLog().commit(0, *said, metadata()).state(1, {}, number=number)
    assert str(IndexReplay.open(log.store).header.protocol) == expected


def test_metadata_in_a_state_counts():
    log = IndexLog().state(3, {}, metadata=json.dumps(metadata(name="logs")))
    assert IndexSnapshot.load(log.store).metadata.name == "logs"


def test_a_state_without_metadata_needs_a_commit_that_has_it():
    with pytest.raises(MalformedError, match="has no metadata"):
        IndexSnapshot.load(IndexLog().state(3, {}).store)


def manifest_gone(log):
    log.store.delete("_transaction_log/manifests/m.avro")


def manifest_cut(log):
    log.store.put("_transaction_log/manifests/m.avro", log.store.get("_transaction_log/manifests/m.avro")[:-20])


def manifest_shorter(log):
    log.state(9, {"manifests/m.avro": [entry("a.split")]})
    log.store.delete(f"_transaction_log/state-v{9:020d}/_manifest.avro")
    log.pointing(3)


@pytest.mark.parametrize("damage", [manifest_gone, manifest_cut, manifest_shorter])
def test_a_manifest_that_is_not_what_the_state_says_is_damage(damage):
    log = start().state(3, {"manifests/m.avro": [entry("a.split"), entry("b.split")]})
    damage(log)
    with pytest.raises(MalformedError, match=r"manifests/m\.avro"):
        files(log.store)


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{",
        b"\x01\x02abc",
        b"\x01",
        b"\x01\x01abc",
        ENCODINGS["gzip"](text(add("a.split")))[:-3],
        text({"add": {"path": "a.split"}}),
        text({"add": {"path": 1}}),
        text(add("a.split", size=-1)),
        text(add("a.split"), remove("a.split")),
        text(metadata(), metadata()),
        b"\xff\xfe{}",
    ],
)
def test_a_damaged_commit_is_an_error_and_never_a_shorter_table(data):
    log = start().commit(2, add("b.split"))
    log.store.put(INDEX.commit_path(1), data)
    with pytest.raises(MalformedError):
        _ = (IndexReplay.open(log.store).header, IndexReplay.open(log.store).state)


def test_a_missing_commit_is_an_error():
    with pytest.raises(MalformedError, match="version 1 is missing"):
        IndexReplay.open(start().commit(2, add("b.split")).store)
    with pytest.raises(NotFoundError):
        IndexReplay.open(start().store, 7)


# ---------------------------------------------------------------- following


def test_following_reads_only_what_came_since():
    log = start()
    for version in range(1, 6):
        log.commit(version, add(f"{version}.split"))
    counted = FaultyStore(log.store)
    snapshot = IndexSnapshot.load(counted)
    assert len(snapshot.files) == 5
    before = counted.count
    assert snapshot.newest() is snapshot
    calls = [call.name for call in counted.operations[before:]]
    assert set(calls) == {"list"}, "while nothing has changed, nothing is read"
    log.commit(6, add("6.split"))
    before = counted.count
    later = snapshot.newest()
    assert (later.version, len(later.files), later.protocol) == (6, 6, snapshot.protocol)
    fetched = [call.path for call in counted.operations[before:] if call.name != "list"]
    assert fetched == [INDEX.commit_path(6)], "neither protocol nor files are read again"


def test_following_notices_a_new_protocol_and_a_new_state():
    log = start()
    snapshot = IndexSnapshot.load(log.store)
    log.commit(1, protocol(3, 3))
    assert str(snapshot.newest().protocol) == "index(3,3)"
    log.state(2, {"manifests/m.avro": [entry("a.split")]})
    assert snapshot.newest().files.keys() == {"a.split"}
