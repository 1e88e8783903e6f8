"""Altering tables: one commit per change, the gatekeeper asked before more is required, nothing as a side effect."""

from __future__ import annotations

import json
import time

import pytest
from pyspark.sql.types import LongType
from tests.support.columns import field, schema

from halocline.errors import (
    ConstraintError,
    HaloclineError,
    IncompatibleError,
    InputError,
    MalformedError,
    NotFoundError,
    NotYetError,
    SchemaError,
)
from halocline.formats.delta.actions.action import Add, Metadata, ProtocolAction, encode_commit
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.gate import LegacyProtocolWarning
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.spark.session.settings import Settings
from halocline.storage.memory import MemoryStore
from halocline.table import gatekeeper
from halocline.table.delta.opened import Opened
from halocline.table.delta.table import DeltaLakeTable
from halocline.table.gatekeeper import Alone


class Watching(Alone):
    """A gatekeeper that remembers what it was asked, and may refuse."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.objection: HaloclineError | None = None

    def approve_change(self, change) -> str:
        before = change.before and change.before.protocol
        self.asked.append((f"{before} to {change.after.protocol}", change.after.in_use))
        if self.objection is not None:
            raise self.objection
        return "3 members and 2 observed clients"


@pytest.fixture(autouse=True)
def keeper():
    watching = Watching()
    before = gatekeeper.install(watching)
    yield watching
    gatekeeper.install(before)


def created(configuration=None, columns=("id", "amount"), files=0, **settings) -> DeltaLakeTable:
    store = MemoryStore()
    Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(schema(*columns), (), configuration))
    for number in range(files):
        stats = json.dumps({"numRecords": 10})
        Transaction(Snapshot.load(store)).commit([Add(f"{number}", {}, 9, 1, True, stats=stats)], "WRITE")
    return DeltaLakeTable(Opened(store, settings=Settings(**settings)))


def header(table):
    return read_header(table.store)


def told(table) -> dict:
    """The provenance of the newest commit."""
    data = table.store.get(DELTA.commit_path(header(table).version))
    return json.loads(data.splitlines()[0])["commitInfo"]


# ---------------------------------------------------------------------- features


def test_adding_a_feature_asks_first_and_says_who_was_checked(keeper):
    table = created()
    done = table.add_feature_support("deletionVectors")
    after = "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"
    assert keeper.asked == [(f"(1,2) to {after}", frozenset())]
    assert str(header(table).protocol) == after
    assert str(done) == (
        f"version 1: (1,2) becomes {after} (deletionVectors: asked for by name). "
        "Checked: 3 members and 2 observed clients"
    )
    assert told(table)["operation"] == "UPGRADE PROTOCOL"


CHANGES = {
    "add_feature_support": lambda table: table.add_feature_support("v2Checkpoint"),
    "upgrade_table_protocol": lambda table: table.upgrade_table_protocol(1, 4),
    "set_properties": lambda table: table.set_properties({"delta.enableDeletionVectors": "true"}),
    "set_properties, row tracking": lambda table: table.set_properties({"delta.enableRowTracking": "true"}),
    "add_constraint": lambda table: table.add_constraint("positive", "id > 0"),
    "drop_feature_support": lambda table: table.drop_feature_support("domainMetadata"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_objection_stops_every_change_of_protocol_before_it_is_written(change, keeper):
    table = created({"delta.feature.domainMetadata": "supported"})
    keeper.objection = IncompatibleError("etl-nightly would break", next_step="Upgrade it to 1.4.0.")
    with pytest.raises(IncompatibleError, match="etl-nightly"):
        CHANGES[change](table)
    assert header(table).version == 0
    assert len(keeper.asked) == 1


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "protocol", [ProtocolAction(99, 7, [], []), ProtocolAction(3, 7, ["shiny"], ["shiny"])], ids=["99", "unknown"]
)
def test_a_table_beyond_this_release_is_refused_before_anybody_is_asked(change, protocol, keeper):
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([protocol, Metadata("1", dump(schema("id")))]))
    with pytest.raises(IncompatibleError):
        CHANGES[change](DeltaLakeTable(Opened(store)))
    assert (keeper.asked, [meta.path for meta in store.list()]) == ([], [DELTA.commit_path(0)])


def test_asking_for_what_is_there_commits_nothing_and_asks_nobody(keeper):
    table = created()
    for done in (table.add_feature_support("appendOnly"), table.upgrade_table_protocol(1, 2)):
        assert (done.committed, done.version, str(done)) == (False, 0, "nothing to change in version 0")
    assert keeper.asked == []


def test_a_feature_that_this_release_cannot_write_is_not_added():
    table = created()
    with pytest.raises(IncompatibleError, match="requires writer feature"):
        table.add_feature_support("icebergCompatV1")
    assert header(table).version == 0


def test_dropping_goes_through_the_same_gatekeeper(keeper):
    table = created({"delta.checkpointPolicy": "v2"})
    dropped = table.drop_feature_support("v2Checkpoint")
    assert [change for change, _ in keeper.asked] == [f"{dropped.before} to {dropped.after}"]
    assert dropped.checked == "3 members and 2 observed clients"
    assert "able to write" in created({"delta.checkpointPolicy": "v2"}).plan_drop("v2Checkpoint").explain()


def test_dropping_with_its_history_takes_two_calls_a_day_apart():
    table = created({"delta.checkpointPolicy": "v2"})
    with pytest.raises(NotYetError) as early:
        table.drop_feature_support("v2Checkpoint", truncate_history=True)
    table.opened.clock = lambda: early.value.until_ms + 1
    assert str(table.drop_feature_support("v2Checkpoint", truncate_history=True).after) == "(1,2)"


# ---------------------------------------------------------------------- properties


def test_a_property_that_enables_nothing_is_only_set(keeper):
    table = created()
    done = table.set_properties({"delta.checkpointInterval": "20", "owner": "finance"})
    assert str(done) == "version 1: the protocol stays (1,2)"
    assert dict(header(table).metadata.configuration) == {"delta.checkpointInterval": "20", "owner": "finance"}
    assert keeper.asked == []
    table.unset_properties(["owner"])
    assert dict(header(table).metadata.configuration) == {"delta.checkpointInterval": "20"}
    assert told(table)["operationParameters"] == {"properties": '["owner"]', "ifExists": False}


def test_a_property_that_enables_a_feature_adds_it_with_what_it_requires(keeper):
    table = created()
    table.set_properties({"delta.columnMapping.mode": "name"})
    assert str(header(table).protocol) == "(2,7|W: appendOnly,columnMapping,invariants)"
    assert keeper.asked[0][1] == {"columnMapping", "columnMapping:name"}


def test_others_are_asked_about_a_feature_that_was_supported_and_comes_into_use(keeper):
    done = created().set_properties({"delta.appendOnly": "true"})
    assert keeper.asked == [("(1,2) to (1,2)", {"appendOnly"})]
    assert str(done) == "version 1: the protocol stays (1,2). Checked: 3 members and 2 observed clients"


def test_requests_are_used_up_and_never_stored():
    table = created()
    table.set_properties({"delta.feature.timestampNtz": "supported", "delta.minWriterVersion": "3"})
    assert dict(header(table).metadata.configuration) == {}
    assert header(table).protocol.supports("timestampNtz")
    assert header(table).protocol.supports("checkConstraints")


@pytest.mark.parametrize(
    "values", [{"delta.minWriterVersion": "101"}, {"delta.noSuch": "1"}, {"delta.appendOnly": "maybe"}]
)
def test_values_that_no_table_can_have_are_refused_before_the_commit(values):
    table = created()
    with pytest.raises(InputError):
        table.set_properties(values)
    assert header(table).version == 0


def test_what_a_table_uses_without_supporting_it_is_not_added_as_a_side_effect(keeper):
    table = created()
    stored = header(table).metadata.with_configuration({"delta.enableChangeDataFeed": "true"})
    table.store.put(DELTA.commit_path(1), encode_commit([stored]))
    for change in (
        lambda: table.set_properties({"owner": "finance"}),
        lambda: table.add_columns([field("note", "string")]),
        lambda: table.add_constraint("positive", "id > 0"),
    ):
        with pytest.raises(InputError, match="uses changeDataFeed without supporting it") as refused:
            change()
        assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
        assert "halocline lint" in refused.value.next_step
    assert (header(table).version, keeper.asked) == (1, [])
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    assert header(table).protocol.supports("changeDataFeed"), "what is asked for by its property comes in"


def test_row_tracking_is_enabled_only_once_every_file_has_ids(keeper):
    table = created(files=3)
    done = table.set_properties({"delta.enableRowTracking": "true"})
    snapshot = Snapshot.load(table.store)
    assert sorted(snapshot.files()["base_row_id"].to_pylist()) == [0, 10, 20]
    assert snapshot.domains["delta.rowTracking"].configuration == '{"rowIdHighWaterMark":29}'
    names = [key for key in snapshot.properties if "materialized" in key]
    assert len(names) == 2
    operations = [
        json.loads(table.store.get(DELTA.commit_path(version)).splitlines()[0])["commitInfo"]["operation"]
        for version in range(4, done.version + 1)
    ]
    assert operations == ["UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    assert "rowTracking" in str(done)
    assert [sorted(in_use) for _, in_use in keeper.asked] == [["domainMetadata"], ["domainMetadata", "rowTracking"]]


def test_row_tracking_that_was_cut_short_goes_on():
    table = created(files=2)
    table.add_feature_support("rowTracking")
    table.set_properties({"delta.enableRowTracking": "true"})
    assert Snapshot.load(table.store).files()["base_row_id"].null_count == 0
    table.drop_feature_support("rowTracking")
    assert Snapshot.load(table.store).files()["base_row_id"].null_count == 2


# ---------------------------------------------------------------------- constraints and columns


def test_a_constraint_is_added_once_existing_rows_fit():
    table, seen = created(files=1), []
    table.add_constraint("positive", "id > 0", validator=lambda *asked: seen.append(asked[1:]))
    assert seen == [("positive", "id > 0")]
    assert str(header(table).protocol) == "(1,3)"
    assert header(table).metadata.configuration == {"delta.constraints.positive": "id > 0"}
    table.drop_constraint("POSITIVE")
    assert header(table).metadata.configuration == {}
    assert str(header(table).protocol) == "(1,3)", "the feature stays until it is dropped"
    assert str(table.drop_feature_support("checkConstraints").after) == "(1,2)"


def test_a_constraint_that_rows_break_is_not_added():
    table = created(files=1)

    def broken(snapshot, name, expression):
        raise ConstraintError(f"a row breaks {name}")

    with pytest.raises(ConstraintError, match="breaks positive"):
        table.add_constraint("positive", "id > 0", validator=broken)
    with pytest.raises(InputError, match="which takes Spark"):
        table.add_constraint("positive", "id > 0")
    assert header(table).version == 1
    assert created().add_constraint("positive", "id > 0").committed, "a table without files has no rows to check"


def test_rows_that_come_in_while_a_constraint_is_checked_are_a_conflict():
    table = created(files=1)

    def append(snapshot, name, expression):
        Transaction(Snapshot.load(table.store)).commit([Add("late", {}, 9, 1, True)], "WRITE")

    with pytest.raises(HaloclineError) as lost:
        table.add_constraint("positive", "id > 0", validator=append)
    assert lost.value.condition == "CONCURRENT_APPEND"
    assert header(table).metadata.configuration == {}


def test_columns_come_go_and_change_their_names():
    table = created({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    table.add_columns([field("note", "string"), field("place", schema(field("x", "integer")))])
    table.add_columns([field("y", "integer")], parent="place")
    table.rename_column("amount", "total")
    table.rename_column(["place", "y"], "z")
    table.drop_column("note")
    table.widen_column("place.x", "long")
    table.set_comment("in cents", "total")
    table.set_comment("what people bought")
    found = Snapshot.load(table.store)
    assert [column.name for column in found.columns.walk()] == ["id", "total", "place", "place.x", "place.z"]
    assert str(found.columns.find("place", "x").type) == "long"
    assert found.columns.find("total").field.metadata["comment"] == "in cents"
    assert found.metadata.description == "what people bought"
    table.set_comment(None, "total")
    assert "comment" not in Snapshot.load(table.store).columns.find("total").field.metadata
    assert header(table).version == 9


@pytest.mark.parametrize("name", ["long", "bigint", "BIGINT", LongType()])
def test_a_wider_type_is_taken_as_the_log_sql_and_spark_call_it(name):
    table = created({"delta.enableTypeWidening": "true"})
    table.add_columns([field("number", "integer")])
    table.widen_column("number", name)
    assert str(Snapshot.load(table.store).columns.find("number").type) == "long"


def test_columns_that_need_a_feature_wait_for_it_unless_writes_may_raise_the_protocol(keeper):
    at = [field("at", "timestamp_ntz")]
    table = created()
    with pytest.raises(InputError) as refused:
        table.add_columns(at)
    assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    table.add_feature_support("timestampNtz")
    table.add_columns(at)
    assert [sorted(in_use) for _, in_use in keeper.asked] == [[], ["timestampNtz"]]
    allowed = created(auto_upgrade=True)
    allowed.add_columns(at)
    assert header(allowed).protocol.supports("timestampNtz")
    assert len(keeper.asked) == 3, "also an allowed upgrade is asked for"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda table: table.rename_column("amount", "total"), SchemaError),
        (lambda table: table.widen_column("amount", "decimal(30,2)"), SchemaError),
        (lambda table: table.drop_constraint("none"), NotFoundError),
        (lambda table: table.unset_properties(["none"]), NotFoundError),
        (lambda table: table.set_comment("x", "none"), InputError),
        (lambda table: table.allow_nulls("none"), InputError),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(change, kind):
    table = created()
    with pytest.raises(kind):
        change(table)
    assert header(table).version == 0


# ---------------------------------------------------------------------- tables older than protocols


@pytest.fixture
def ancient():
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([Metadata("1", dump(schema("id"))), Add("0", {}, 9, 1, True)]))
    return store


def test_a_table_without_a_protocol_is_refused_unless_the_user_knows_better(ancient):
    with pytest.raises(MalformedError, match="has no protocol"):
        DeltaLakeTable(Opened(ancient)).set_properties({"owner": "finance"})
    assert [meta.path for meta in ancient.list()] == [DELTA.commit_path(0)]


@pytest.mark.parametrize(
    ("change", "protocol"),
    [
        (lambda table: table.set_properties({"owner": "finance"}), "(1,1)"),
        (lambda table: table.set_properties({"delta.appendOnly": "true"}), "(1,7|W: appendOnly)"),
        (lambda table: table.upgrade_table_protocol(1, 2), "(1,2)"),
    ],
)
def test_a_table_without_a_protocol_reads_as_the_lowest_and_gets_one_on_the_first_write(change, protocol, ancient):
    table = DeltaLakeTable(Opened(ancient, settings=Settings(allow_missing_protocol=True)))
    with pytest.warns(LegacyProtocolWarning, match=r"is taken as \(1,1\)"):
        assert table.snapshot().files().num_rows == 1
    with pytest.warns(LegacyProtocolWarning):
        change(table)
    assert str(header(table).protocol) == protocol
    assert DeltaLakeTable(Opened(ancient)).snapshot().files().num_rows == 1


def test_the_clock_of_a_table_is_the_computers():
    assert abs(created().opened.clock() - time.time() * 1000) < 60_000
