"""A Hudi table behind the interface of all tables, without a JVM: what it is, who may use it, what was done to it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker

from halocline.errors import IncompatibleError, InputError, MissingVerbError, NotFoundError, UnsupportedError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.properties import encode, properties
from halocline.schema import Field, Primitive
from halocline.storage import open_store
from halocline.table import DeltaLakeTable, HudiTable, Table, gatekeeper
from halocline.table.gatekeeper import Alone

COLUMNS = [Field("id", Primitive("long")), Field("day", Primitive("string")), Field("ts", Primitive("long"))]
OTHERS = [Field("at", Primitive("timestamp")), Field("price", Primitive("double"))]

TIMES = {"hoodie.keygen.timebased.timestamp.typ": "EPOCHMILLISECONDS"}


@pytest.fixture
def url(request) -> str:
    return f"memory://{re.sub(r'[^A-Za-z0-9-]', '-', request.node.name)}/orders"


def made(url: str, version: int = 8, type: TableType = TableType.MERGE_ON_READ) -> HudiTableMaker:
    table = HudiTableMaker.create(open_store(url), version, type)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b", deletes=[2])
    return table


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_path_gives_a_hudi_table_that_tells_what_it_is(url, version, type):
    maker = made(url, version, type)
    table = Table.for_path(url)
    assert isinstance(table, HudiTable)
    assert repr(table) == f"HudiTable('{url}')"
    writes = [int(each.time) for each in maker.snapshot.timeline.writes]
    assert table.version == writes[-1]
    assert (table.protocol.reader, table.terms.protocol) == (version, table.protocol)
    assert table.features()["storedKeyFields"] == "enabled"
    detail = table.detail()
    assert (detail["format"], detail["type"], detail["tableVersion"]) == ("hudi", str(type), version)
    assert (detail["recordKeys"], detail["partitionColumns"], detail["orderingFields"]) == (["id"], ["region"], ["ts"])
    merging = type is TableType.MERGE_ON_READ
    assert (detail["numFileGroups"], detail["numLogFiles"]) == (2, 2 if merging else 0)
    history = table.history()
    assert [each.version for each in history] == list(reversed(writes))
    assert {each.operation for each in history} == {"UPSERT"}
    assert [(each.written, each.deleted) for each in history] == [(1 if merging else 3, 1), (4, 0)], (
        "a base file is written anew with all its rows"
    )
    assert [each.version for each in table.history(1)] == writes[-1:]
    assert history[0].to_dict()["action"] == ("deltacommit" if merging else "commit")


def test_other_releases_are_judged_by_the_table_version(url):
    made(url, 9)
    table = Table.for_path(url)
    assert table.can("hudi@1.2.0", "read").ok
    assert table.can("hudi@1.0.2", "read").refused
    with pytest.raises(IncompatibleError):
        Table.for_path(url, release="hudi@0.15.0")


def test_a_version_that_nobody_has_released_is_refused_before_anything_else_is_read(url):
    maker = made(url, 9)
    pairs = properties(maker.store) | {"hoodie.table.version": "10", "hoodie.table.type": "NONE_THAT_IS_KNOWN"}
    maker.store.put(".hoodie/hoodie.properties", encode(pairs, datetime.now(UTC)))
    with pytest.raises(IncompatibleError, match="10"):
        Table.for_path(url)


def test_the_gatekeeper_is_told_of_every_instant_that_is_opened(url):
    made(url)
    seen = []

    class Keeper(Alone):
        def note_use(self, table, operation):
            seen.append((table, operation))

    with gatekeeper.acting(Keeper()):
        table = Table.for_path(url)
        table.history()
        table.snapshot("read.stream")
    assert seen == [(table.url, "read"), (table.url, "read"), (table.url, "read.stream")]


def test_a_write_since_the_table_was_opened_is_seen(url):
    maker = made(url)
    table = Table.for_path(url)
    maker.upsert([9], 300, "c")
    assert str(table.version) == maker.snapshot.timeline.writes[-1].time


def test_verbs_that_hudi_tables_lack_are_missing_by_name(url):
    made(url)
    table = Table.for_path(url)
    with pytest.raises(MissingVerbError, match="hudi tables have no 'vacuum'") as refused:
        table.vacuum()
    assert refused.value.sides["known to"] == "delta"
    with pytest.raises(MissingVerbError, match=r"hudi tables have: .*upsert") as refused:
        table.restore(1)
    assert refused.value.sides["nearest"] == "none"
    with pytest.raises(MissingVerbError, match="Use incremental"):
        table.incremantal("0")
    assert not hasattr(table, "merge")
    lacking = DeltaLakeTable._lacking("incremental")
    assert lacking.sides["known to"] == "hudi"


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda table: table.to_df(querry="snapshot"), "query"),
        (lambda table: table.to_df(query="read_optimised"), "read_optimized"),
        (lambda table: table.incremental("0", ende="1"), "end"),
    ],
)
def test_mistyped_arguments_are_refused_with_the_nearest(url, call, nearest):
    made(url)
    with pytest.raises(InputError) as refused:
        call(Table.for_path(url))
    assert refused.value.sides["nearest"] == nearest


@pytest.mark.parametrize("version", [6, 8])
def test_instants_are_texts_numbers_or_times(url, version):
    maker = made(url, version)
    first, second = (each.time for each in maker.snapshot.timeline.writes)
    table = Table.for_path(url)
    assert table.snapshot(version=int(first)).version == int(first)
    moment = table.history()[-1].moment
    assert table.snapshot(timestamp=moment).version == int(first)
    for late in (table.history()[0].moment, datetime.max, "9999-12-31 23:59:59-10:00"):
        assert table.snapshot(timestamp=late).version == int(second)
    for early in (1, int(first) - 1):
        with pytest.raises(NotFoundError) as refused:
            table.snapshot(version=early)
        assert refused.value.condition == "VERSION_NOT_FOUND"
    with pytest.raises(InputError, match="no instant"):
        table.to_df(version="yesterday")


def test_a_table_without_a_write_has_version_0(url):
    HudiTableMaker.create(open_store(url), 9, TableType.COPY_ON_WRITE)
    table = Table.for_path(url)
    assert (table.version, table.history(), table.detail()["numFiles"]) == (0, [], 0)


def test_rules_of_merging_are_a_setting(url):
    made(url)
    assert Table.for_path(url).snapshot().dialect is None
    chosen = Table.for_path(url, options={"halocline.hudi.mergeRules": "0.x"})
    assert chosen.snapshot().dialect == "0.x"
    with pytest.raises(InputError, match=r"halocline\.hudi\.mergeRules cannot be '2\.x'"):
        Table.for_path(url, options={"halocline.hudi.mergeRules": "2.x"})
    assert chosen.snapshot(version=chosen.version).dialect == "0.x"


def test_a_new_table_names_its_fields_as_the_columns_are_spelt(url):
    declared = {"keys": ["ID", "ts"], "ordering": "TS", "partition_by": "Day"}
    made = Table.create(url, COLUMNS, format="hudi", version=8, **declared)
    config = made.snapshot().config
    assert (config.record_keys, [each.name for each in config.partition_fields]) == (("id", "ts"), ["day"])
    assert config.ordering_fields == ("ts",)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"keys": ["id", "ID"]}, "keys names column id twice"),
        ({"partition_by": ["day", "day"]}, "partition_by names column day twice"),
        ({"ordering": ["ts", "ts"], "version": 9}, "ordering names column ts twice"),
        ({"keys": ["id", "ts"], "key_generator": "SIMPLE", "partition_by": "day"}, "SIMPLE key generator for 2 key"),
        ({"key_generator": "TIMESTAMP"}, "TIMESTAMP key generator for 1 key and 0 partition fields"),
        ({"key_generator": "NON_PARTITION", "partition_by": "day"}, "NON_PARTITION key generator and partition"),
        ({"key_generator": "TIMESTAMP", "partition_by": "ts"}, "timestamp.type=none"),
        ({"key_generator": "TIMESTAMP", "partition_by": "ts", "properties": TIMES}, r"timestamp\.typ is no setting"),
        ({"partition_by": "day:SIMPLE"}, "SIMPLE key generator and the partition field day:SIMPLE"),
        ({"partition_by": "at"}, r"not made here of at, a column of type timestamp"),
        ({"partition_by": ["day", "price"]}, "not made here of price, a column of type double"),
        ({"keys": None}, "keys of create cannot be None"),
        ({"keys": [1]}, r"keys of create cannot be \[1\]"),
        ({"ordering": None}, "ordering of create cannot be None"),
        ({"partition_by": 3}, "partition_by of create cannot be 3"),
    ],
)
def test_fields_that_a_table_cannot_have_are_refused_and_nothing_is_made(url, declared, message):
    with pytest.raises((InputError, UnsupportedError), match=message):
        Table.create(url, [*COLUMNS, *OTHERS], format="hudi", **{"keys": "id", **declared})
    assert not Table.is_table(url)


def test_an_instant_and_a_time_at_once_are_refused(url):
    made(url)
    table = Table.for_path(url)
    with pytest.raises(InputError, match="a version or a timestamp, not both"):
        table.snapshot(version=table.version, timestamp="2099-01-01")


def test_no_release_is_an_argument_that_is_refused(url):
    made(url)
    with pytest.raises(InputError, match="release of can cannot be None"):
        Table.for_path(url).can(None)


@pytest.mark.parametrize("number", [5, 99, 1794793513046])
def test_numbers_that_are_no_instants_are_refused_rather_than_compared(url, number):
    made(url)
    table = Table.for_path(url)
    with pytest.raises(InputError, match=f"'{number}' is no instant"):
        table.snapshot(version=number)
    with pytest.raises(InputError, match=f"'{number}' is no instant"):
        read_range(table.snapshot(), str(number))


@pytest.mark.parametrize("version", [6, 8])
def test_a_table_is_settled_up_to_the_write_behind_which_nothing_is_under_way(url, version):
    maker = made(url, version)
    table = Table.for_path(url)
    newest = maker.snapshot.timeline.writes[-1]
    assert table.settled == (newest.time if version == 6 else newest.completion)
    slow = maker.begin()
    fast = maker.upsert([3], 900, "fast")
    assert table.settled == (newest.time if version == 6 else maker.snapshot.timeline.completion_of(fast))
    slow.complete([], schema=maker.schema)
    done = maker.snapshot.timeline
    assert table.settled == (fast if version == 6 else done.completion_of(slow.time))


def test_a_table_that_cannot_be_replaced_says_what_can_be_done(url):
    made(url)
    with pytest.raises(UnsupportedError, match="Use overwrite"):
        Table.replace(url, COLUMNS, format="hudi", keys="id")


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_rows_come_as_arrow_batches_merged_and_filtered(url, version, type):
    maker = made(url, version, type)
    table = Table.for_path(url)
    found = table.to_arrow().read_all()
    assert found.to_pylist() == [row for batch in maker.snapshot.read() for row in batch.to_pylist()]
    chosen = table.to_arrow(where="region = 'eu' AND ts >= 200", columns=["id", "name"]).read_all()
    assert chosen.to_pylist() == [{"id": "k1", "name": "b1"}]
    assert table.to_arrow(version=maker.snapshot.timeline.writes[0].time, columns=["id"]).read_all().num_rows == 4
    with pytest.raises(UnsupportedError, match="without Spark"):
        table.to_arrow(where="upper(name) = 'B1'")
