"""Tables with rows behind a fleet: joining by the session's settings, gates, and emulated releases at work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from tests.support.fleets import SWITCH, raise_to, running, until, users_of

import halocline as hc
from halocline.errors import ConflictError, IncompatibleError
from halocline.fleet.answers import MemberStatus
from halocline.fleet.member.admin import AdminClient
from halocline.source.data_source import register
from halocline.spark.session.settings import Settings
from halocline.table import gatekeeper as front
from halocline.table.gatekeeper import ALONE, Alone


@pytest.fixture
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


@pytest.fixture
def orders(spark: Any, tmp_path: Any) -> hc.Table:
    rows = spark.range(0, 100, 1, 1).selectExpr("id", "id * 2 AS amount")
    return hc.Table.create(tmp_path / "orders", rows, properties={"delta.isolationLevel": "WriteSerializable"})


def users(admin: AdminClient, table: hc.Table) -> dict[str, MemberStatus]:
    return users_of(admin, table.url)


def test_the_session_joins_once_and_reports_what_it_reads_and_writes(fleet, orders, spark, conf):
    hosting, admin = fleet
    conf("spark.halocline.fleet", hosting.address)
    conf("spark.halocline.fleet.name", "nightly")
    try:
        table = hc.Table.for_path(orders.url, spark)
        first = front.current()
        table.append(spark.range(100, 110, 1, 1).selectExpr("id", "id * 2 AS amount"))
        assert hc.Table.for_path(orders.url, spark).to_df().count() == 110
        assert front.current() is first is not ALONE
        until(lambda: {use.operation for use in users(admin, orders)["nightly"].tables} >= {"read", "write.append"})
    finally:
        joined = front.install(ALONE)
        joined.close()


def test_creating_a_table_with_a_feature_asks_the_gate(fleet, spark, tmp_path):
    hosting, admin = fleet
    with hc.connect(hosting.address, name="ops", spark=spark) as ops:
        with pytest.raises(IncompatibleError) as caught:
            hc.Table.create(tmp_path / "new", spark.range(3), properties=SWITCH)
        assert caught.value.condition == "GATE_CLOSED"
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        assert hc.Table.create(tmp_path / "new", spark.range(3), properties=SWITCH).features()["deletionVectors"]


def test_deletes_mark_rows_only_while_the_gate_is_open(fleet, orders, spark):
    hosting, admin = fleet
    with hc.connect(hosting.address, name="ops") as ops:
        raise_to(admin, 4)
        until(lambda: ops.gate("delta", 4))
        orders.set_properties(SWITCH)
        until(lambda: orders.snapshot().level == 4)
        assert orders.delete("id < 10").metrics["numDeletionVectorsAdded"] == 1
        admin.start_downgrade("delta", 3, "test")
        until(lambda: not ops.gate("delta", 4))
        again = orders.delete("id < 20")
        assert (again.metrics["numDeletionVectorsAdded"], again.metrics["numDeletedRows"]) == (0, 10)
        assert orders.to_df().count() == 80


def test_a_feature_goes_on_and_off_while_emulated_releases_read_and_write(fleet, orders, spark):
    hosting, admin = fleet
    over, wrong, failed = Event(), [], []

    def pipeline(name: str, release: str, role: str, step: Callable[[hc.Table], None]) -> Thread:
        def work() -> None:
            try:
                with hc.connect(hosting.address, name=name, release=release, role=role, install=False) as member:
                    while not over.is_set():
                        with member.acting(), member.operation(name):
                            try:
                                step(hc.Table.for_path(orders.url, spark, release=release))
                            except ConflictError:
                                continue
            except Exception as error:
                failed.append(f"{name}: {error}")

        return Thread(target=work, name=name)

    def read(table: hc.Table) -> None:
        row = table.to_df().selectExpr("count(*) AS n", "sum(amount - 2 * id) AS off").collect()[0]
        if row["off"] != 0 or row["n"] % 10:
            wrong.append(row)

    def write(table: hc.Table) -> None:
        table.append(spark.range(1000, 1010, 1, 1).selectExpr("id", "id * 2 AS amount"))

    raise_to(admin, 4)
    threads = [
        pipeline("finance", "deltalake@1.6.6", "reader", read),
        pipeline("ingest", "delta-spark@4.0.0", "writer", write),
    ]
    for each in threads:
        each.start()
    try:
        with hc.connect(hosting.address, name="ops") as ops:
            until(lambda: {"finance", "ingest"} <= users(admin, orders).keys() or bool(failed))
            until(lambda: ops.gate("delta", 4))
            checked = orders.set_properties(SWITCH).approval.checked
            assert "finance (deltalake@1.6.6)" in checked
            assert "ingest (delta-spark@4.0.0)" in checked
            until(lambda: orders.snapshot().level == 4)
            orders.delete("id < 10")
            with pytest.raises(IncompatibleError, match="export"):
                hc.connect(hosting.address, name="export", release="deltalake@1.0.2", role="reader", install=False)
            orders.drop_feature_support("deletionVectors")
            assert "deletionVectors" not in orders.features()
    finally:
        over.set()
        for each in threads:
            each.join(60)
    assert failed == []
    assert wrong == []
    assert orders.can("deltalake@1.0.2", "read").ok


# ---------------------------------------------------------------------- the other doors


@pytest.fixture
def member(fleet, spark):
    """The driver as a member, whose session's data source belongs to the fleet as well."""
    hosting, admin = fleet
    with hc.connect(hosting.address, name="nightly", spark=spark) as joined:
        yield joined, admin
    register(spark, Settings())


def seen(admin: AdminClient, table: hc.Table) -> set[str]:
    """What the processes of the data source were seen to do."""
    found = users(admin, table)
    return {use.operation for use in found["nightly.source"].tables} if "nightly.source" in found else set()


def test_reads_and_writes_of_the_data_source_are_reported(member, orders, spark):
    _, admin = member
    source = spark.read.format("halocline").load(orders.url)
    assert source.count() == 100
    until(lambda: "read" in seen(admin, orders))
    source.limit(1).write.format("halocline").mode("append").save(orders.url)
    until(lambda: "write" in seen(admin, orders))
    assert users(admin, orders)["nightly.source"].release == f"halocline@{hc.__version__}"
    assert orders.to_df().count() == 101


def test_streams_of_the_data_source_are_reported(member, orders, spark, tmp_path):
    _, admin = member
    target = hc.Table.create(tmp_path / "copy", "id BIGINT, amount BIGINT", spark)
    read = spark.readStream.format("halocline").load(orders.url)
    write = read.writeStream.format("halocline").option("checkpointLocation", str(tmp_path / "checkpoint"))
    write.trigger(availableNow=True).start(target.url).awaitTermination()
    assert target.to_df().count() == 100
    until(lambda: "read.stream" in seen(admin, orders))
    until(lambda: "write" in seen(admin, target))


@pytest.mark.parametrize("kind", [{"kind": "mor", "version": 8}, {"kind": "cow", "version": 9, "buckets": 2}], ids=str)
def test_streams_between_hudi_tables_are_reported(member, spark, tmp_path, kind):
    _, admin = member
    for level in range(8, kind["version"] + 1):
        admin.raise_level("hudi", level, reason="test")
    made = {"format": "hudi", "keys": "id", **kind}
    rows = spark.range(0, 10, 1, 1).selectExpr("id", "id * 2 AS amount")
    first = hc.Table.create(tmp_path / "first", rows, **made)
    first.upsert(rows.where("id < 3").selectExpr("id", "0L AS amount"))
    second = hc.Table.create(tmp_path / "second", "id BIGINT, amount BIGINT", spark, **made)
    read = spark.readStream.format("halocline").load(first.url).select("id", "amount")
    write = read.writeStream.format("halocline").option("checkpointLocation", str(tmp_path / "checkpoint"))
    write.trigger(availableNow=True).start(second.url).awaitTermination()
    assert second.to_df().selectExpr("count(*)", "sum(amount)").first()[:] == (10, 84)
    until(lambda: "read.stream" in seen(admin, first))
    until(lambda: "write" in seen(admin, second))
    assert {use.ladder for use in users(admin, second)["nightly.source"].tables} == {"hudi"}


@pytest.mark.usefixtures("member")
def test_the_data_source_asks_the_gate_before_it_creates_a_table_with_a_feature(spark, tmp_path):
    rows = spark.sql("SELECT TIMESTAMP_NTZ'2026-11-01 12:00:00' AS at")
    with pytest.raises(Exception, match="GATE_CLOSED"):
        rows.write.format("halocline").mode("append").save(str(tmp_path / "new"))
    assert not hc.Table.is_table(tmp_path / "new")


def test_a_release_that_the_fleet_refuses_does_not_read_through_the_data_source(fleet, orders, spark):
    hosting, admin = fleet
    raise_to(admin, 4)
    options = {"halocline.fleet": hosting.address, "halocline.release": "deltalake@1.0.2"}
    with pytest.raises(Exception, match="level 4"):
        spark.read.format("halocline").options(**options).load(orders.url).count()


VERBS = {
    "append": lambda t, df: t.append(df),
    "append_batch": lambda t, df: t.append_batch(df, 1, app_id="q"),
    "create": lambda t, df: hc.Table.create(f"{t.url}-more", df),
    "delete": lambda t, df: t.delete("id < 10"),
    "merge": lambda t, df: t.merge(df, "t.id = s.id").when_not_matched_insert_all().execute(),
    "optimize": lambda t, df: t.optimize().execute_compaction(),
    "optimize in another order": lambda t, df: t.optimize().execute_z_order_by("id"),
    "overwrite": lambda t, df: t.overwrite(df, where="id >= 50"),
    "update": lambda t, df: t.update({"amount": "0"}, "id < 10"),
}


@pytest.mark.parametrize("name", VERBS)
def test_verbs_that_change_rows_are_operations(orders, spark, name):
    class Watching(Alone):
        def __init__(self) -> None:
            self.begun: list[str] = []
            self.outside: list[str] = []

        @contextmanager
        def operation(self, name):
            self.begun.append(name)
            with super().operation(name) as operation:
                yield operation

        def note_use(self, table, operation):
            if operation.startswith("write") and not self.begun:
                self.outside.append(operation)

    with front.acting(Watching()) as watching:
        VERBS[name](orders, spark.range(60, 70, 1, 1).selectExpr("id", "id * 3 AS amount"))
    assert len(watching.begun) == 1
    assert watching.outside == []
