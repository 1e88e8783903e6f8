"""Keys are looked up by footers first: no key that is there is missed, and files that cannot hold one are not read."""

from __future__ import annotations

import base64
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.hudi_groups import upsert_groups
from tests.support.hudi_tables import HudiTableMaker

from halocline.errors import MalformedError
from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.key_lookup import FILTER, LARGEST, SMALLEST, KeyLookup, candidate_keys
from halocline.formats.hudi.record_keys import key_columns
from halocline.formats.hudi.write.bloom_filter import SIMPLE_CODE, TYPE_CODE, bloom_filter, may_hold
from halocline.storage.memory import MemoryStore


def lookup(table: HudiTableMaker, *wanted: str) -> KeyLookup:
    keys = key_columns(table.config)
    everywhere = dict.fromkeys(("ap", "eu"), pa.array(wanted, pa.string()))
    return KeyLookup(table.snapshot.reader(keys.names), keys, everywhere)


def found(table: HudiTableMaker, *wanted: str) -> set[str]:
    lookups = lookup(table, *wanted)
    return {
        key for slice in table.snapshot.slices for keys in lookups.find(table.store, slice) for key in keys.to_pylist()
    }


def test_filters_of_both_kinds_hold_their_keys_and_hardly_any_other():
    keys, others = [f"k{each}" for each in range(300)], [f"x{each}" for each in range(1000)]
    dynamic = bloom_filter(keys, entries=100)
    assert may_hold(dynamic, TYPE_CODE, keys).all()
    assert not may_hold(dynamic, TYPE_CODE, others).any()
    simple = base64.b64encode(base64.b64decode(bloom_filter(keys))[13 + 12 :]).decode()
    assert may_hold(simple, SIMPLE_CODE, keys).all()
    assert not may_hold(simple, SIMPLE_CODE, others).any()


@pytest.mark.parametrize(
    ("text", "code"), [("", TYPE_CODE), ("!", TYPE_CODE), ("AAAA", SIMPLE_CODE), (bloom_filter(["a"]), "OTHER")]
)
def test_a_filter_that_is_none_rules_nothing_out(text, code):
    assert may_hold(text, code, ["a", "b"]).all()


def test_bounds_of_other_letters_rule_nothing_out():
    footer = {SMALLEST: "é".encode(), LARGEST: b"z"}
    assert candidate_keys(footer, pa.array(["a", "é"])).to_pylist() == ["a", "é"]
    assert candidate_keys({FILTER: bloom_filter(["é"]).encode()}, pa.array(["a", "é"])).to_pylist() == ["a", "é"], (
        "no code"
    )


def test_files_that_cannot_hold_a_key_are_not_read():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    table.upsert(range(8), 100, "a")
    (other,) = (each for each in table.snapshot.slices if each.partition == "ap")
    content = table.store.get(other.base.path)
    footer = int.from_bytes(content[-8:-4], "little") + 8
    table.store.put(other.base.path, b"PAR1" + b"\0" * (len(content) - footer - 4) + content[-footer:])
    assert open_base_file(table.store, other.base).num_rows == 4, "the footer can be read"
    assert found(table, "k1", "k99") == {"k1"}
    with pytest.raises(MalformedError):
        found(table, "k2")


def test_keys_that_only_log_files_hold_are_found_once():
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    held = next(each for each in table.snapshot.slices if each.logs)
    keys = [key for batch in lookup(table, "k1", "k3").find(table.store, held) for key in batch.to_pylist()]
    assert sorted(keys) == ["k1", "k3"]
    logs = KeyLookup(lookup(table).reader, lookup(table).keys, {"eu": pa.array(["k1", "k3"])})
    assert [batch.to_pylist() for batch in logs.find(table.store, replace(held, base=None))] == [["k1"]]


@pytest.mark.parametrize(("logging", "told"), [(None, False), (ChangeLogging.OP_KEY_ONLY, True)])
def test_a_write_to_a_log_file_tells_the_whole_slice_where_changes_are_logged(logging, told):
    table = HudiTableMaker.create(MemoryStore(), 8, TableType.MERGE_ON_READ, change_logging=logging)
    for number in range(3):
        upsert_groups(table, [1], 100 + number, "a")
    timeline = table.snapshot.timeline
    ((_, first),) = timeline.commit_metadata(timeline.writes[0]).stats
    ((_, stat),) = timeline.commit_metadata(timeline.writes[2]).stats
    assert (len(stat.log_files), stat.base_file) == ((2, first.path.rpartition("/")[2]) if told else (1, ""))
