"""A checkpoint that lost files is noticed by whoever lists it, and does no harm while there are commits."""

import io
import json
import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.columns import schema
from tests.support.commit_builders import add, remove

from halocline.errors import MalformedError
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log import checksum
from halocline.formats.delta.log.checkpoint_write import classic_path, write_checkpoint
from halocline.formats.delta.log.replay import Replay
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.storage.memory import MemoryStore

FILES = {f"f{version}-{number}" for version in range(1, 5) for number in range(3)} - {"f1-0"}
AFTER = FILES | {"last"}
FIRST = b"\4\0\0\0f4-2"
"""The name that comes first in a checkpoint, after its length: it stands there in clear."""


def table(policy: str = "classic") -> MemoryStore:
    """Four versions, a checkpoint of the last, and one commit after it."""
    store = MemoryStore()
    configuration = new_table(schema("id"), (), {"delta.checkpointPolicy": policy})
    Transaction.create(store).commit((), "CREATE TABLE", configuration=configuration)
    for version in range(1, 5):
        gone = [remove("f1-0")] if version == 3 else []
        Transaction(Snapshot.load(store)).commit([*(add(f"f{version}-{n}") for n in range(3)), *gone], "WRITE")
    write_checkpoint(store, 4)
    Transaction(Snapshot.load(store)).commit([add("last")], "WRITE")
    return store


def without_commits(store: MemoryStore) -> MemoryStore:
    for version in range(5):
        store.delete(DELTA.commit_path(version))
    return store


def without(store: MemoryStore, *kinds: str) -> MemoryStore:
    """Takes witnesses away: `pointer`, `count` (the pointer's count of files), `checksum`."""
    if "count" in kinds:
        told = json.loads(store.get(DELTA.pointer_path))
        store.put(DELTA.pointer_path, json.dumps({"version": told["version"], "size": told["size"]}).encode())
    if "pointer" in kinds:
        store.delete(DELTA.pointer_path)
    if "checksum" in kinds:
        for version in range(6):
            store.delete(checksum.path_of(version))
    return store


def shortened(store: MemoryStore, path: str, rows: int = 1) -> MemoryStore:
    """Takes rows with files out of a Parquet file of the log, which stays valid."""
    table = pq.read_table(pa.BufferReader(store.get(path)))
    adds = [number for number, row in enumerate(table["add"].to_pylist()) if row is not None]
    keep = [number for number in range(len(table)) if number not in adds[:rows]]
    sink = io.BytesIO()
    pq.write_table(table.take(keep), sink)
    store.put(path, sink.getvalue())
    return store


def listed(store: MemoryStore) -> set[str]:
    return set(Snapshot.load(store).files()["path"].to_pylist())


def sidecar(store: MemoryStore) -> str:
    return next(meta.path for meta in store.list("_delta_log/_sidecars"))


def top(store: MemoryStore) -> str:
    return next(meta.path for meta in store.list("_delta_log") if ".checkpoint." in meta.path)


@pytest.mark.parametrize("taken", [(), ("checksum",), ("pointer",), ("count",), ("count", "checksum")], ids=str)
def test_checkpoint_with_files_missing_is_an_error_without_commits(taken):
    store = shortened(without(without_commits(table()), *taken), classic_path(4))
    with pytest.raises(MalformedError) as caught:
        listed(store)
    assert caught.value.sides["log file"] == f"{4:020}.checkpoint.parquet"
    witness = next(key for key in caught.value.sides if key not in ("log file", "found"))
    assert witness in str(caught.value.next_step)
    with pytest.raises(MalformedError):
        Snapshot.load(store).files("id = 1", columns=["path"])


def test_checkpoint_with_files_missing_gives_way_to_the_commits(caplog):
    store = shortened(table(), classic_path(4))
    with caplog.at_level(logging.WARNING):
        assert listed(store) == AFTER
    assert f"leaving out checkpoint {4:020}.checkpoint.parquet" in caplog.text


def test_next_write_does_not_record_the_wrong_count():
    store = shortened(without_commits(table()), classic_path(4))
    transaction = Transaction(Snapshot.load(store))
    version = transaction.commit([add("more")], "WRITE")
    with pytest.raises(MalformedError):
        write_checkpoint(store, version)
    summary = checksum.read_summary(store, version)
    assert summary is not None
    assert summary.table_size.files == len(AFTER) + 1
    assert not store.exists(classic_path(version))


def test_next_checkpoint_is_written_from_the_commits():
    store = shortened(table(), classic_path(4))
    write_checkpoint(store, 5)
    assert Replay.open(store).segment.checkpoint.version == 5
    assert listed(store) == AFTER


@pytest.mark.parametrize(
    "taken", [(), ("pointer",), ("checksum",), ("count", "checksum"), ("pointer", "checksum")], ids=str
)
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_intact_checkpoint_is_listed_whatever_is_said_about_it(taken, policy):
    assert listed(without(without_commits(table(policy)), *taken)) == AFTER


def test_one_wrong_witness_among_two_is_outvoted(caplog):
    store = without_commits(table())
    told = json.loads(store.get(DELTA.pointer_path))
    store.put(DELTA.pointer_path, json.dumps({"version": 4, "size": told["size"], "numOfAddFiles": 99}).encode())
    with caplog.at_level(logging.WARNING):
        assert listed(store) == AFTER
    assert "says 99 live files" in caplog.text


def test_pointer_to_another_checkpoint_says_nothing_about_this_one():
    store = table()
    write_checkpoint(store, 5)
    assert set(Snapshot.load(store, version=4).files()["path"].to_pylist()) == FILES


# ---------------------------------------------------------------------- sidecars


@pytest.mark.parametrize("taken", [(), ("checksum",), ("pointer", "checksum")], ids=str)
def test_sidecar_with_files_missing_is_noticed(taken):
    store = without(table("v2"), *taken)
    shortened(store, sidecar(store), 2)
    assert listed(store) == AFTER
    with pytest.raises(MalformedError, match="live files"):
        listed(without_commits(store))


def test_missing_sidecar_gives_way_to_the_commits():
    store = table("v2")
    store.delete(sidecar(store))
    assert listed(store) == AFTER
    assert Snapshot.load(store).tombstones().num_rows == 1
    with pytest.raises(MalformedError, match="sidecar"):
        listed(without_commits(store))


def test_missing_sidecar_gives_way_to_an_older_checkpoint():
    store = table("v2")
    write_checkpoint(store, 5)
    newest = max((meta for meta in store.list("_delta_log/_sidecars")), key=lambda meta: meta.modified_ms).path
    first = Replay.open(store, 4).checkpoint.others.sidecars[0].path
    for meta in list(store.list("_delta_log/_sidecars")):
        if not meta.path.endswith(first):
            store.delete(meta.path)
    without_commits(store)
    assert newest
    assert listed(store) == AFTER


def test_damaged_page_of_a_sidecar_gives_way_to_the_commits():
    store = table("v2")
    path = sidecar(store)
    data = bytearray(store.get(path))
    data[data.index(FIRST)] ^= 1
    store.put(path, bytes(data))
    assert listed(store) == AFTER
    with pytest.raises(MalformedError, match="cannot be read"):
        listed(without_commits(store))


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_pages_carry_checksums(policy):
    store = table(policy)
    for path in [top(store), *(meta.path for meta in store.list("_delta_log/_sidecars"))]:
        data = bytearray(store.get(path))
        data[data.index(FIRST if FIRST in data else b"long")] ^= 1
        with pytest.raises(OSError, match=r"(?i)crc|checksum"):
            pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()


# ---------------------------------------------------------------------- footers


def test_statistics_of_a_footer_leave_no_row_out():
    """Every null count says that there is nothing: whoever believed it would list no file."""
    store = without(without_commits(table()), "pointer", "checksum")
    data = pq.read_table(pa.BufferReader(store.get(classic_path(4))))
    sink = io.BytesIO()
    pq.write_table(data, sink, write_statistics=True)
    lying = bytearray(sink.getvalue())
    footer, compared = int.from_bytes(lying[-8:-4], "little"), 0
    for position in range(len(lying) - 8 - footer, len(lying) - 8, 11):
        changed = bytes(lying[:position]) + bytes([lying[position] ^ 2]) + bytes(lying[position + 1 :])
        if changed_statistics(changed, len(data)):
            store.put(classic_path(4), changed)
            try:
                assert listed(store) == AFTER, f"byte {position} of the footer"
                compared += 1
            except MalformedError:
                continue
    assert compared > 10, "statistics were changed and the table was read all the same"


def changed_statistics(data: bytes, rows: int) -> bool:
    """Whether the change may lie in statistics; only bytes that stay readable are worth a look."""
    try:
        return pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows == rows
    except (pa.ArrowException, OSError):
        return False
