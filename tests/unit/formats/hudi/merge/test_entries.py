"""Of the blocks of log files those count that took effect, in the order in which they apply."""

import json

import pytest

from halocline.errors import MalformedError, NotFoundError, UnsupportedError
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block
from halocline.formats.hudi.merge.entries import BlockFilter, log_blocks
from halocline.formats.hudi.names import parse_data_file
from halocline.formats.hudi.timeline.timeline import CommittedInstants
from halocline.storage.memory import MemoryStore

LOG = ".a_10.log.1_0-0-1"
DONE = CommittedInstants(frozenset({"10", "20", "30"}), frozenset({"25"}), "10")


def data(instant: str, **more: str) -> bytes:
    header = {HeaderKey.INSTANT_TIME: instant} | {HeaderKey[key]: value for key, value in more.items()}
    return encode_block(BlockType.AVRO_DATA, header, b"")


def rollback(target: str | None, kind: str = "0") -> bytes:
    header = {HeaderKey.INSTANT_TIME: "99", HeaderKey.COMMAND_BLOCK_TYPE: kind}
    return encode_block(BlockType.COMMAND, header | ({HeaderKey.TARGET_INSTANT_TIME: target} if target else {}), b"")


def instants(*files: bytes, counting: BlockFilter | None = None, commit: dict | None = None) -> list[str]:
    store = MemoryStore()
    store.put(
        ".hoodie/hoodie.properties", b"hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=6\n"
    )
    store.put(".hoodie/50.rollback", json.dumps({"commitsRollback": ["40"]}).encode())
    store.put(".hoodie/10.deltacommit", json.dumps(commit or {"operationType": "UPSERT"}).encode())
    logs = []
    for number, content in enumerate(files, 1):
        path = f".a_10.log.{number}_0-0-1"
        store.put(path, content)
        logs.append(parse_data_file(path))
    return [block.instant for block in log_blocks(store, logs, counting or BlockFilter(DONE))]


def test_blocks_come_in_the_order_of_files_and_within_them():
    assert instants(data("20") + data("10"), data("30")) == ["20", "10", "30"]


def test_blocks_that_did_not_take_effect_do_not_count():
    assert instants(data("25") + data("40") + data("05") + data("20")) == ["05", "20"]


def test_blocks_of_an_instant_that_nothing_speaks_of_are_refused():
    with pytest.raises(MalformedError, match="written by 41, of which the timeline has no trace"):
        instants(data("10") + data("41"))
    assert instants(data("10") + data("41"), rollback("41")) == ["10"], "a command says that it was taken back"


def test_blocks_behind_the_instant_asked_for_do_not_count():
    assert instants(data("10") + data("30"), counting=BlockFilter(DONE, as_of="20")) == ["10"]
    assert instants(data("10") + data("30"), counting=BlockFilter(DONE, only=frozenset({"30"}))) == ["30"]


def test_a_rollback_takes_back_all_blocks_of_its_instant():
    assert instants(data("20") + data("10"), rollback("20"), data("20")) == ["10"]


def test_commands_that_are_not_known_are_refused():
    with pytest.raises(UnsupportedError, match="command 7"):
        instants(rollback("20", kind="7"))
    with pytest.raises(MalformedError, match="command block"):
        instants(rollback(None))


def test_a_block_that_merges_older_ones_stands_where_the_last_of_them_stood():
    merging = data("30", COMPACTED_BLOCK_TIMES="05,10")
    assert instants(data("05") + data("10") + data("20") + merging) == ["30", "20"]


def test_a_file_that_is_gone_is_named():
    with pytest.raises(NotFoundError) as caught:
        log_blocks(MemoryStore(), [parse_data_file(LOG)], BlockFilter(DONE))
    assert caught.value.condition == "DATA_FILES_MISSING"


def test_bytes_that_a_writer_left_that_died_are_skipped():
    assert instants(data("10") + data("20")[:-1]) == ["10"]
    assert instants(data("10") + data("20")[:-1] + data("30")) == ["10", "30"]


def test_bytes_that_a_completed_write_says_it_wrote_are_never_skipped():
    whole = data("10") + data("20")
    stat = {"path": LOG, "logOffset": len(data("10")), "totalWriteBytes": len(data("20"))}
    commit = {"partitionToWriteStats": {"": [stat]}}
    assert instants(whole, commit=commit) == ["10", "20"]
    with pytest.raises(MalformedError, match="is damaged") as caught:
        instants(whole[:-1], commit=commit)
    assert "10 wrote bytes" in caught.value.sides["commit"]
    assert instants(data("10") + data("20") + data("30")[:-1], commit=commit) == ["10", "20"]


def test_a_file_that_is_empty_is_skipped_unless_a_completed_write_says_it_wrote_it():
    commit = {"partitionToWriteStats": {"": [{"path": LOG, "fileSizeInBytes": 90}]}}
    assert instants(b"", data("20")) == ["20"]
    with pytest.raises(MalformedError, match="it is empty"):
        instants(b"", data("20"), commit=commit)
