"""Mistyped names and values of the wrong kind are refused before a verb begins."""

from __future__ import annotations

import math
from enum import StrEnum
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import halocline as hc
from halocline.delta.tables import DeltaTable
from halocline.errors import InputError, MissingVerbError, UnsupportedError

SESSION = SimpleNamespace(sql=None)
TRANSACTION = "an application and its version, such as ('nightly-load', 42)"
WHOLE = "a whole number of 64 bits"
TIME = "a time, such as '2026-11-01 12:00:00'"
FIELDS = '[{"name": "x", "type": "long", "nullable": true}]'
CLIENTS = "a list of clients, such as those of Lake.declared"
POSITIONS = "a list of ColumnPosition, or None"
COLUMNS = StructType().add("id", "long").add("day", "date")


@pytest.fixture
def table(tmp_path):
    return hc.Table.create(tmp_path / "orders", COLUMNS)


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda table: table.append(None, usermetadata="x"), "user_metadata"),
        (lambda table: table.overwrite(None, max_record_per_file=3), "max_records_per_file"),
        (lambda table: table.merge(None, "t.id = s.id", targetAlias="t"), "target_alias"),
        (lambda table: table.delete(wher="id = 1"), "where"),
        (lambda table: table.vacuum(dryrun=False), "dry_run"),
        (lambda table: table.restore(verson=0), "version"),
        (lambda table: table.to_df(versions=1), "version"),
        (lambda table: table.drop_feature_support("x", truncateHistory=True), "truncate_history"),
        (lambda table: table.shallow_clone("there", verson=1), "version"),
        (lambda table: table.optimize().execute_compaction(minFileSize=1), "min_file_size"),
        (lambda table: hc.Table.for_path(table.url, option={}), "options"),
        (lambda table: hc.Table.create(f"{table.url}-2", COLUMNS, partitionBy="day"), "partition_by"),
        (lambda table: hc.Table.replace(table.url, COLUMNS, orCreate=True), "or_create"),
        (lambda table: hc.Table.convert_to_delta(table.url, collectStats=False), "collect_stats"),
        (lambda table: DeltaTable(table).vacuum(retentionHour=1), "retentionHours"),
    ],
)
def test_mistyped_keyword_is_refused_with_the_nearest(table, call, nearest):
    with pytest.raises(InputError) as refused:
        call(table)
    assert refused.value.sides.get("nearest") == nearest, refused.value
    assert table.version == 0


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda table: table.append(None, data_change="false"), "True or False"),
        (lambda table: table.append(None, user_metadata={"by": "me"}), "text"),
        (lambda table: table.append(None, max_records_per_file="x"), WHOLE),
        (lambda table: table.overwrite(None, max_records_per_file=True), WHOLE),
        (lambda table: table.overwrite(None, max_records_per_file=1.5), WHOLE),
        (lambda table: table.update("id = 1", {"day": "null"}), "a dict"),
        (lambda table: table.vacuum("7 days"), "a number"),
        (lambda table: table.vacuum(dry_run="False"), "True or False"),
        (lambda table: table.restore("x"), WHOLE),
        (lambda table: table.to_df(version="x"), WHOLE),
        (lambda table: table.history("3"), WHOLE),
        (lambda table: table.append(None, txn=("nightly", -1)), TRANSACTION),
        (lambda table: table.append(None, txn=("", 1)), TRANSACTION),
        (lambda table: table.append(None, txn=("nightly", True)), TRANSACTION),
        (lambda table: table.add_columns("x BIGINT"), FIELDS),
        (lambda table: table.append(None, txn=("nightly", 2**63)), TRANSACTION),
        (lambda table: table.append_batch(None, 2**63, app_id="nightly"), WHOLE),
        (lambda table: table.append_arrow(None, max_records_per_file=2**70), WHOLE),
        (lambda table: table.append(None, schema_mode=np.array(["merge", "merge"])), "'merge'"),
        (lambda table: table.vacuum(math.nan), "a number"),
        (lambda table: table.changes(True), f"{WHOLE} or {TIME}"),
        (lambda table: table.to_df(timestamp=pd.NaT), TIME),
        (lambda table: table.count(where=5), "text or a Column"),
        (lambda table: table.cluster_by("day", None), "text"),
        (lambda table: table.cluster_by(["day"]), "text"),
        (lambda table: table.unset_properties(3), "text or a list of names"),
        (lambda table: table.unset_properties(["owner", None]), "text or a list of names"),
        (lambda table: table.plan_drop("appendOnly", ["trino@426"]), CLIENTS),
        (lambda table: table.add_constraint("c", "id > 0", validator=True), "a function"),
        (lambda table: table.add_columns([{"name": "x", "type": "long"}], positions=["id"]), POSITIONS),
        (lambda table: table.add_columns(None), FIELDS),
        (lambda table: table.add_columns([pa.field("x", pa.int64())]), FIELDS),
        (lambda table: table.add_columns(["x"]), FIELDS),
        (lambda table: table.drop_feature_support("deletionVectors", truncate_history="false"), "True or False"),
        (lambda table: hc.Table.for_path(None), "text or a path"),
        (lambda table: hc.Table.for_path(table.url, "spark"), "a Spark session"),
        (lambda table: DeltaTable(table).dropFeatureSupport("deletionVectors", "false"), "True or False"),
    ],
)
def test_value_of_another_kind_is_refused_before_anything_is_touched(table, call, expected):
    with pytest.raises(InputError) as refused:
        call(table)
    assert refused.value.sides.get("expected") == expected, refused.value
    assert table.version == 0


@pytest.mark.parametrize("moment", [2**60, -(2**60)])
def test_time_beyond_the_calendar_is_refused(table, moment):
    with pytest.raises(InputError, match="is not a time"):
        table.to_arrow(timestamp=moment)


class Owner(StrEnum):
    ME = "me"


def test_numbers_and_text_of_numpy_and_enumerations_become_those_of_python(table):
    table.set_properties({np.str_("owner"): Owner.ME})
    rows = pa.table({"id": [1]})
    last = table.append_arrow(rows, txn=(np.str_("nightly"), np.int64(7)), user_metadata=np.str_("by hand"))
    assert table.to_arrow(version=np.int64(last), columns=[np.str_("ID")]).read_all().to_pydict() == {"id": [1]}
    assert table.append_arrow(rows, txn=("nightly", 7)) == last
    assert table.restore(np.int64(0)).version == last + 1


def test_missing_and_surplus_arguments_are_told_by_the_verbs_own_name(table):
    with pytest.raises(InputError, match="append: missing a required argument: 'df'"):
        table.append()
    with pytest.raises(InputError, match="for_path: too many"):
        hc.Table.for_path(table.url, None, 3)


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda table: table.optimize().executeCompaction, "execute_compaction"),
        (lambda table: table.merge(None, "t.id = s.id").whenMatchedUpdateAll, "when_matched_update_all"),
        (lambda table: DeltaTable(table).toDf, "toDF"),
        (lambda table: DeltaTable(table).optimize().executeCompacton, "executeCompaction"),
    ],
)
def test_mistyped_method_is_refused_with_the_nearest(table, call, nearest):
    with pytest.raises(MissingVerbError, match=f"Use {nearest}"):
        call(table)


def test_negative_number_of_entries_is_refused(table):
    with pytest.raises(InputError, match="history"):
        table.history(-1)


def test_one_property_may_be_unset_as_text(table):
    table.set_properties({"owner": "me"})
    assert table.unset_properties("owner").version == 2
    assert "owner" not in table.snapshot().properties


def test_a_mistyped_format_is_refused_with_the_nearest(table):
    with pytest.raises(InputError) as refused:
        hc.Table.create(f"{table.url}-2", COLUMNS, format="dleta")
    assert refused.value.sides["nearest"] == "delta"


def test_a_merge_whose_sides_share_a_name_is_refused(table):
    with pytest.raises(InputError, match="both sides of the merge are called s"):
        table.merge(None, "s.id = S.id", target_alias="s", source_alias="S")


@pytest.mark.parametrize(
    ("name", "near"),
    [("spark.halocline.scan.mod", "halocline.scan.mode"), ("Spark.Halocline.Scan.Mode", "halocline.scan.mode")],
)
def test_a_setting_of_the_session_given_as_an_option_is_refused_with_the_option(table, name, near):
    with pytest.raises(InputError) as refused:
        hc.Table.for_path(table.url, options={name: "auto"})
    assert refused.value.sides["nearest"] == near


def test_options_are_the_same_in_any_case(table):
    assert hc.Table.for_path(table.url, options={"Halocline.Scan.Mode": "arrow"}).version == 0
    with pytest.raises(InputError, match=r"halocline\.scan\.mode cannot be 'no'"):
        hc.Table.for_path(table.url, options={"HALOCLINE.SCAN.MODE": "no"})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda table: table.drop_column(5), "5 is no name of a column"),
        (lambda table: table.set_default([1], "0"), "[1] is no name of a column"),
        (lambda table: table.set_properties({"owner": None}), "property owner has no value"),
        (lambda table: hc.Table.create(f"{table.url}-2", COLUMNS, properties={"owner": None}), "owner has no value"),
        (lambda table: hc.Table.create(f"{table.url}-2", COLUMNS, format="detla"), "there is no format 'detla'"),
        (lambda table: hc.sql(None, "SELECT 1"), "SQL needs a Spark session"),
        (lambda table: hc.sql("SELECT 1", "SELECT 1"), "SQL needs a Spark session"),
        (lambda table: hc.sql(SESSION, 1), "SQL is text"),
        *((lambda table, each=each: hc.sql(SESSION, "SELECT ?", each), "no values") for each in (True, "a", {1: 2}, 7)),
        (lambda table: hc.connect(7470), "'7470' is no address of a fleet"),
        (lambda table: table.merge(4, "t.id = s.id").when_matched_delete().execute(), "a int is no DataFrame of Spark"),
        (lambda table: hc.column("id", "bigintt"), "there is no type 'bigintt'"),
    ],
)
def test_value_of_the_wrong_kind_is_refused_in_our_words(table, call, says):
    with pytest.raises(InputError) as refused:
        call(table)
    assert says in refused.value.message
    assert table.version == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_for_iceberg_are_refused_with_what_is_missing(table, version):
    asked = {f"delta.enableIcebergCompatV{version}": "true", "delta.columnMapping.mode": "name"}
    for call in (
        lambda: table.set_properties(asked),
        lambda: hc.Table.create(f"{table.url}-2", COLUMNS, properties=asked),
    ):
        with pytest.raises(UnsupportedError) as refused:
            call()
        assert refused.value.sides["given"] == f"delta.enableIcebergCompatV{version}=true"
        assert "partition columns inside of data files" in refused.value.sides["missing"]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: hc.column("id", "bigint", nulable=False), "nullable"),
        (lambda: hc.Identity(strat=1), "start"),
        (lambda: hc.sql(None, "SELECT 1", argz={}), "args"),
        (lambda: hc.register(None, setings=None), "settings"),
        (lambda: hc.can("trino@426", "(1,2)", operaton="read"), "operation"),
        (lambda: hc.column("id", "bigintt"), "bigint"),
    ],
)
def test_mistyped_argument_of_a_function_of_the_package_is_told_with_the_nearest(call, meant):
    with pytest.raises(InputError) as refused:
        call()
    assert refused.value.sides["nearest"] == meant


def test_mistyped_name_of_the_package_is_told_with_the_nearest():
    with pytest.raises(AttributeError, match="the nearest is Table"):
        _ = hc.Tabel


class StoppedSession:
    """A session after `stop`: it cannot even plan."""

    version = "4.1.0"

    def range(self, end):
        raise AssertionError

    sql = range


class FrameOfStopped:
    """A DataFrame of such a session, which does not know its own columns any more."""

    sparkSession = StoppedSession()

    @property
    def schema(self):
        raise AssertionError


@pytest.mark.parametrize(
    "call", [lambda table: table.append(FrameOfStopped()), lambda _: hc.sql(StoppedSession(), "SELECT 1")]
)
def test_stopped_session_is_told(table, call):
    with pytest.raises(InputError) as refused:
        call(table)
    assert refused.value.condition == "SESSION_STOPPED"
