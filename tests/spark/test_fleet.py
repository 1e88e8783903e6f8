"""Tables with rows behind a fleet: joining by the session's settings, gates, and emulated releases at work."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from tests.support.fleets import SWITCH, raise_to, running, until, users_of

import halocline as hc
from halocline.errors import ConflictError, IncompatibleError
from halocline.fleet.answers import MemberStatus
from halocline.fleet.member.admin import AdminClient
from halocline.table import gatekeeper as front
from halocline.table.gatekeeper import ALONE


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
