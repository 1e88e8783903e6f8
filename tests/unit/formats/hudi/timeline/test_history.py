"""What has left the active timeline is found again, in the archive and in the LSM timeline."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, schemaless_writer

from halocline.errors import MalformedError
from halocline.formats.hudi.blocks.content import encode_avro_rows
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block
from halocline.formats.hudi.timeline.history import read_archive, read_lsm
from halocline.storage.memory import MemoryStore

COMMIT = {"type": "record", "name": "c", "fields": [{"name": "operationType", "type": ["null", "string"]}]}
ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "fields": [
        {"name": "hoodieCommitMetadata", "type": ["null", COMMIT]},
        {"name": "commitTime", "type": ["null", "string"]},
        {"name": "actionType", "type": ["null", "string"]},
        {"name": "actionState", "type": ["null", "string"]},
        {"name": "stateTransitionTime", "type": ["null", "string"]},
    ],
}


def archived(*records: tuple[str, str | None]) -> bytes:
    rows = []
    for time, state in records:
        out = io.BytesIO()
        body = {"operationType": "UPSERT"} if state in ("COMPLETED", None) else None
        record = {"hoodieCommitMetadata": body, "commitTime": time, "actionType": "commit", "actionState": state}
        schemaless_writer(
            out, parse_schema(json.loads(json.dumps(ENTRY))), {**record, "stateTransitionTime": f"{time}9"}
        )
        rows.append(out.getvalue())
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(ENTRY)}, encode_avro_rows(rows))


def test_the_archive_gives_completed_instants_once_in_the_order_of_its_files():
    store = MemoryStore()
    store.put("a/.commits_.archive.10_1-0-1", archived(("3", "COMPLETED"), ("1", "COMPLETED")))
    store.put("a/.commits_.archive.2_1-0-1", archived(("1", "REQUESTED"), ("1", "COMPLETED"), ("2", None)))
    store.put("a/commits_.archive.plan", b"other")
    found = [(each.time, each.completion, dict(each.body)) for each in read_archive(store, "a")]
    said = {"operationType": "UPSERT"}
    assert found == [("1", "19", said), ("2", "29", said), ("3", "39", said)]


def test_a_torn_archive_is_malformed_and_named():
    store = MemoryStore()
    store.put("a/.commits_.archive.1_1-0-1", archived(("1", "COMPLETED"))[:-1])
    with pytest.raises(MalformedError, match=r"a/\.commits_\.archive\.1_1-0-1"):
        list(read_archive(store, "a"))


def lsm_file(*times: str) -> bytes:
    out = io.BytesIO()
    columns = {
        "instantTime": pa.array(times),
        "completionTime": pa.array([f"{time}5" for time in times]),
        "action": pa.array(["commit"] * len(times)),
        "metadata": pa.array([b'{"operationType": "UPSERT"}'] * len(times)),
        "plan": pa.nulls(len(times), pa.binary()),
        "version": pa.array([1] * len(times), pa.int32()),
    }
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def manifest(*names: str) -> bytes:
    return json.dumps({"files": [{"fileName": name, "fileLen": 1} for name in names]}).encode()


def lsm_store(version: bytes | None) -> MemoryStore:
    store = MemoryStore()
    store.put("h/10_20_0.parquet", lsm_file("10", "20"))
    store.put("h/30_30_0.parquet", lsm_file("30"))
    store.put("h/left_over.parquet", b"")
    store.put("h/manifest_1", manifest("10_20_0.parquet"))
    store.put("h/manifest_2", manifest("30_30_0.parquet", "10_20_0.parquet"))
    if version is not None:
        store.put("h/_version_", version)
    return store


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (b"1", ["10", "20"]),
        (b"2\n", ["10", "20", "30"]),
        (None, ["10", "20", "30"]),
        (b"7", ["10", "20", "30"]),
        (b"x", ["10", "20", "30"]),
    ],
)
def test_the_manifest_that_holds_says_which_files_count(version, expected):
    found = list(read_lsm(lsm_store(version), "h"))
    assert [each.time for each in found] == expected
    assert {each.body["operationType"] for each in found} == {"UPSERT"}
    assert [each.completion for each in found] == [f"{time}5" for time in expected]


def test_older_files_and_bodies_are_left_out_when_nobody_asks():
    found = list(read_lsm(lsm_store(b"2"), "h", since="25", bodies=False))
    assert [(each.time, dict(each.body)) for each in found] == [("30", {})]


def test_no_history_is_empty():
    assert list(read_lsm(MemoryStore(), "h")) == list(read_archive(MemoryStore("no archive"), "h")) == []


@pytest.mark.parametrize(
    ("path", "data"), [("h/manifest_2", b"{"), ("h/30_30_0.parquet", b"PAR1"), ("h/30_30_0.parquet", None)]
)
def test_a_damaged_history_is_malformed_and_named(path, data):
    store = lsm_store(b"2")
    if data is None:
        store.delete(path)
    else:
        store.put(path, data)
    with pytest.raises(MalformedError, match=path):
        list(read_lsm(store, "h"))
