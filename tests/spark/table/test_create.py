from datetime import date

import deltalake
import pytest
from tests.support.tables import Untouched, actions, data_files, info, rows, their_rows

from halocline.errors import (
    AlreadyExistsError,
    HaloclineError,
    IncompatibleError,
    InputError,
    NotFoundError,
    SchemaError,
)
from halocline.formats.delta.configuration.column_mapping import field_id
from halocline.table import Table, gatekeeper
from halocline.table.delta.new_table import Identity, column


def test_table_made_of_rows_has_them_in_its_first_version(spark, tmp_path):
    path = tmp_path / "t"
    df = spark.sql("SELECT id, DATE '2024-02-29' day, 'x' `Name` FROM range(3)")
    table = Table.create(path, df, partition_by=["DAY"], comment="orders", name="o", properties={"owner": "me"})
    assert (table.version, str(table.protocol)) == (0, "(1,2)")
    assert rows(table) == [(n, date(2024, 2, 29), "x") for n in range(3)]
    assert their_rows(path) == rows(table)
    assert all(field["nullable"] for field in table.schema["fields"])
    found = info(path)
    assert found["operation"] == "CREATE TABLE AS SELECT"
    assert found["operationParameters"] == {
        "isManaged": "false",
        "description": "orders",
        "partitionBy": '["day"]',
        "clusterBy": "[]",
        "properties": '{"owner":"me"}',
    }
    assert found["operationMetrics"]["numOutputRows"] == "3"
    metadata = deltalake.DeltaTable(str(path)).metadata()
    assert (metadata.name, metadata.description, metadata.partition_columns) == ("o", "orders", ["day"])


@pytest.mark.parametrize(
    ("columns", "properties", "protocol"),
    [
        ("id BIGINT", {}, "(1,2)"),
        ("id BIGINT NOT NULL, c CHAR(3)", {}, "(1,2)"),
        ("id BIGINT, t TIMESTAMP_NTZ", {}, "(3,7|R: timestampNtz|W: appendOnly,invariants,timestampNtz)"),
        ("id BIGINT, v VARIANT", {}, "(3,7|R: variantType|W: appendOnly,invariants,variantType)"),
        ("id BIGINT", {"delta.enableChangeDataFeed": "true"}, "(1,7|W: appendOnly,changeDataFeed,invariants)"),
        ("id BIGINT", {"delta.minWriterVersion": "4", "delta.enableChangeDataFeed": "true"}, "(1,4)"),
        ("id BIGINT", {"delta.columnMapping.mode": "name"}, "(2,7|W: appendOnly,columnMapping,invariants)"),
        ("id BIGINT", {"delta.constraints.a": "id > 0", "delta.minWriterVersion": "3"}, "(1,3)"),
        ([column("d", "date", default="current_date()")], {}, "(1,7|W: allowColumnDefaults,appendOnly,invariants)"),
        ([column("s", "string", default="'(select) now'")], {}, "(1,7|W: allowColumnDefaults,appendOnly,invariants)"),
        ([column("id", "bigint", identity=Identity())], {}, "(1,7|W: appendOnly,identityColumns,invariants)"),
    ],
)
def test_new_table_has_the_least_protocol_that_it_needs(spark, tmp_path, columns, properties, protocol):
    table = Table.create(tmp_path / "t", columns, spark, properties=properties)
    assert str(table.protocol) == protocol
    assert info(tmp_path / "t")["operation"] == "CREATE TABLE"
    assert data_files(tmp_path / "t") == set()


def test_columns_without_expressions_need_no_session(tmp_path):
    longs = {"type": "array", "elementType": "long", "containsNull": True}
    schema = [column("id", "numeric(10, 2)", nullable=False, comment="key"), column("n", longs)]
    table = Table.create(tmp_path / "t", schema)
    assert [field["name"] for field in table.schema["fields"]] == ["id", "n"]
    with pytest.raises(InputError, match="takes Spark"):
        Table.create(tmp_path / "u", [column("id", "long", default="1")])


@pytest.mark.parametrize(
    ("columns", "arguments", "words"),
    [
        ("id BIGINT, id DATE", {}, "ambiguous"),
        ("not a schema at all!", {}, "no list of columns"),
        ("id BIGINT", {"partition_by": "nope"}, "nope"),
        ("id BIGINT", {"partition_by": "id"}, "every column is a partition column"),
        ("id BIGINT, s STRUCT<a: INT>", {"partition_by": "s"}, "cannot be partitioned"),
        ("id BIGINT, `a b` INT", {}, "data files cannot"),
        ("id BIGINT, t INTERVAL DAY TO SECOND", {}, "interval"),
        ("id BIGINT", {"properties": {"delta.checkpointInterval": "often"}}, "checkpointInterval"),
        ("id BIGINT", {"properties": {"delta.noSuchProperty": "1"}}, "noSuchProperty"),
        ("id BIGINT", {"properties": {"delta.constraints.a": "nope > 0"}}, "CHECK a"),
        ("id BIGINT", {"properties": {"delta.constraints.a": "id >"}}, "CHECK a"),
        ("id BIGINT, n INT", {"partition_by": "n", "cluster_by": "id"}, "clustering"),
        ("id BIGINT, b BINARY", {"cluster_by": "b"}, "clustered"),
        ([column("id", "bigint"), column("g", "int", generated="rand() * id")], {}, "generated column g"),
        ([column("id", "bigint"), column("g", "date", generated="id")], {}, "does not fit"),
        ([column("id", "bigint"), column("g", "date", generated="current_date()")], {}, "generated column g"),
        ([column("a", "int", generated="b"), column("b", "int", generated="a")], {}, "generated column"),
        ([column("id", "bigint", default="'x'")], {}, "default of id"),
        ([column("id", "bigint"), column("d", "bigint", default="id + 1")], {}, "default of d"),
        ([column("id", "bigint"), column("d", "string", default="(SELECT 'q')")], {}, "subquery"),
        ([column("id", "bigint"), column("d", "boolean", default="1 IN (VALUES 1)")], {}, "subquery"),
        ([column("id", "int", identity=Identity())], {}, "identity column"),
        ([column("id", "bigint", identity=Identity(step=0))], {}, "identity column"),
        (
            [column("id", "bigint", identity=Identity()), column("n", "int")],
            {"partition_by": "id"},
            "cannot be a partition column",
        ),
    ],
)
def test_declaration_that_no_table_can_have_is_refused_and_nothing_created(spark, tmp_path, columns, arguments, words):
    with pytest.raises(HaloclineError, match=words):
        Table.create(tmp_path / "t", columns, spark, **arguments)
    assert not (tmp_path / "t").exists()


def test_place_that_is_taken_is_refused_or_opened(spark, tmp_path):
    Table.create(tmp_path / "t", "id BIGINT", spark)
    with Untouched(tmp_path / "t"):
        with pytest.raises(AlreadyExistsError):
            Table.create(tmp_path / "t", "id BIGINT", spark)
        assert Table.create(tmp_path / "t", "other DATE", spark, exist_ok=True).schema["fields"][0]["name"] == "id"


def test_gatekeeper_is_asked_before_a_table_exists(spark, tmp_path):
    class Strict(gatekeeper.Alone):
        def approve_change(self, change):
            if "deletionVectors" in change.gained:
                raise IncompatibleError("deltalake@1.0.2 cannot read deletionVectors")
            return "everybody"

    before = gatekeeper.install(Strict())
    try:
        with pytest.raises(IncompatibleError, match=r"deltalake@1\.0\.2"):
            Table.create(tmp_path / "t", spark.range(1), properties={"delta.enableDeletionVectors": "true"})
        assert not (tmp_path / "t").exists()
        Table.create(tmp_path / "t", spark.range(1))
    finally:
        gatekeeper.install(before)


def test_replaced_table_keeps_its_history_protocol_and_ids(spark, tmp_path):
    path = tmp_path / "t"
    properties = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true", "owner": "me"}
    table = Table.create(path, "id BIGINT, old DATE", spark, cluster_by="id", properties=properties)
    table.append(spark.range(3))
    identity = table.snapshot().metadata.id
    with pytest.raises(NotFoundError):
        Table.replace(tmp_path / "none", "id BIGINT", spark)
    with Untouched(path), pytest.raises(InputError, match="clustering excludes partition columns"):
        Table.replace(path, spark.sql("SELECT 7 n, 'x' p"), partition_by="p")
    Table.replace(path, spark.sql("SELECT 7 n, 'x' p"), properties={"owner": "you"})
    snapshot = table.snapshot()
    assert rows(table) == [(7, "x")]
    assert their_rows(path, "n", "p") == [(7, "x")]
    assert len(rows(table, version=1)) == 3
    assert snapshot.metadata.id == identity
    assert {"columnMapping", "changeDataFeed", "clustering"} <= snapshot.protocol.features
    assert snapshot.properties["owner"] == "you"
    assert "delta.enableChangeDataFeed" not in snapshot.properties
    assert [field_id(field) for field in snapshot.schema.fields] == [3, 4]
    assert "delta.clustering" not in snapshot.domains
    found = info(path)
    assert found["operation"] == "REPLACE TABLE AS SELECT"
    assert found["operationMetrics"]["numRemovedFiles"] == str(len(actions(path, 2, "remove")))
    again = Table.replace(tmp_path / "new", "id BIGINT", spark, or_create=True)
    assert again.version == 0


def test_rows_that_break_a_rule_of_the_new_table_create_nothing(spark, tmp_path):
    with pytest.raises(HaloclineError, match="CHECK small"):
        Table.create(tmp_path / "t", spark.range(5), properties={"delta.constraints.small": "id < 3"})
    assert not Table.is_table(tmp_path / "t")
    assert not (tmp_path / "t").exists() or data_files(tmp_path / "t") == set()


def test_schema_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="no schema"):
        Table.create(tmp_path / "t", 42)
    with pytest.raises(SchemaError):
        Table.create(tmp_path / "t", [{"name": "id", "type": "no such type", "nullable": True, "metadata": {}}])
