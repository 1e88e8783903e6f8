"""Belonging to a fleet: joining, leaving, ladder_state in front of tables, and working alone."""

from __future__ import annotations

from threading import Thread
from types import SimpleNamespace

import pytest
from tests.support.fleets import make_table, raise_to, running, until, users_of

import halocline as hc
from halocline.errors import DeniedError, IncompatibleError, InputError
from halocline.fleet.member.connect import join_once
from halocline.fleet.server.auth import Access, Grant, digest, rights
from halocline.spark.session.settings import Settings
from halocline.table import gatekeeper as front
from halocline.table.gatekeeper import ALONE


class Conf:
    """As much of a Spark session as a driver's settings need."""

    def __init__(self, **values: str) -> None:
        self.values = {key.replace("_", "."): value for key, value in values.items()}
        self.conf = self.dataSource = self
        self.udtf = SimpleNamespace(register=lambda name, function: None)
        self.getAll = self.values
        self.sources: list[type] = []
        self.sparkContext = SimpleNamespace(defaultParallelism=1)

    def register(self, source: type) -> None:
        self.sources.append(source)

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.values.get(key, default)


@pytest.fixture(scope="module")
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


@pytest.fixture(autouse=True)
def nobody_in_front():
    assert front.installed() is ALONE
    yield
    left = front.install(ALONE)
    assert left is ALONE, f"{left} was left in front of the tables"


def members_of(admin):
    return {each.identity: each for each in admin.members().members}


def test_without_an_address_it_works_alone(tmp_path):
    with hc.connect(name="notebook") as fleet:
        assert fleet.alone
        assert fleet.contact is None
        assert front.current() is ALONE
        with fleet.operation("delete") as operation:
            assert operation.gate("delta", 4)
            assert operation.may_commit()
        assert hc.Table.for_path(make_table(tmp_path / "orders")).version == 0


def test_a_member_joins_with_what_its_release_supports_and_leaves(fleet):
    hosting, admin = fleet
    with hc.connect(hosting.address, name="finance", release="deltalake@1.0.2", role="reader"):
        member = members_of(admin)["finance"]
        assert (member.release, member.role, member.provenance) == ("deltalake@1.0.2", "reader", "reported")
        assert (member.supported["delta"].lo, member.supported["delta"].hi) == (1, 3)
    assert "finance" not in members_of(admin)


def test_a_writer_supports_only_what_it_can_also_write(fleet):
    hosting, admin = fleet
    with (
        hc.connect(hosting.address, name="r", release="trino@482", role="reader", install=False),
        hc.connect(hosting.address, name="w", release="trino@482", role="writer", install=False),
    ):
        found = {name: each.supported["delta"].hi for name, each in members_of(admin).items()}
    # Level 4 brings deletion vectors, under which Trino leaves rows to others where it deletes whole files.
    assert found == {"r": 6, "w": 3}


def test_ladders_of_its_own_are_reported(fleet):
    hosting, admin = fleet
    with hc.connect(hosting.address, name="app", supported={"app-schema": (2, 5)}):
        range_ = members_of(admin)["app"].supported["app-schema"]
        assert (range_.lo, range_.hi) == (2, 5)


def test_features_and_unreleased_builds_are_reported(fleet):
    hosting, admin = fleet
    with hc.connect(hosting.address, name="app", release="halocline@0.2.0-rc.1", features=["new-layout"]):
        member = members_of(admin)["app"]
        assert list(member.features) == ["new-layout"]
        assert member.development


def test_tables_that_are_read_and_written_are_reported(fleet, tmp_path):
    hosting, admin = fleet
    url = make_table(tmp_path / "orders")
    with hc.connect(hosting.address, name="etl"):
        table = hc.Table.for_path(url)
        table.set_properties({"owner": "finance"})

        def reported():
            return {use.operation for each in users_of(admin, url).values() for use in each.tables}

        until(lambda: len(reported()) > 1, "both uses are reported")
        assert reported() == {"read", "write"}


def test_it_stands_in_front_of_the_process_until_it_is_closed(fleet):
    hosting, _ = fleet
    member = hc.connect(hosting.address, name="etl")
    assert front.current() is member.gatekeeper
    member.close()
    member.close()
    assert front.current() is ALONE


def test_two_members_in_one_process_each_speak_for_their_thread(fleet, tmp_path):
    hosting, admin = fleet
    url = make_table(tmp_path / "orders")
    with (
        hc.connect(hosting.address, name="one", install=False) as one,
        hc.connect(hosting.address, name="two", install=False) as two,
    ):
        assert front.current() is ALONE

        def read(member):
            with member.acting():
                hc.Table.for_path(url)

        threads = [Thread(target=read, args=(each,)) for each in (one, two)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        until(lambda: {"one", "two"} <= users_of(admin, url).keys())


def test_gates_are_closed_until_heard_and_fixed_for_an_operation():
    with running() as (hosting, admin), hc.connect(hosting.address, name="etl") as etl:
        assert etl.level("delta") == 1
        with etl.operation("rewrite") as operation:
            raise_to(admin, 2)
            until(lambda: etl.gate("delta", 2))
            assert not operation.gate("delta", 2), "an operation keeps the snapshot it began with"


def test_a_member_below_the_level_is_refused_by_name():
    with running() as (hosting, admin):
        raise_to(admin, 4)
        with pytest.raises(IncompatibleError) as caught:
            hc.connect(hosting.address, name="export", release="deltalake@1.0.2", role="reader")
        assert "export" in caught.value.message
        assert "deltalake@1.3.2" in (caught.value.next_step or "")


@pytest.mark.parametrize("token", ["", "guess"])
def test_without_the_right_token_nobody_is_let_in(token):
    access = Access(secrets={digest("s3cret"): Grant("drivers", rights(["join"]))})
    with running(access=access) as (hosting, _):
        with pytest.raises(DeniedError):
            hc.connect(hosting.address, name="etl", token=token)
        with hc.connect(hosting.address, name="etl", token="s3cret") as etl:
            assert etl.contact is not None
            assert etl.contact.status == "joined"


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "../../etc"},
        {"release": "nightly"},
        {"address": "http://x:1"},
        {"supported": {"app": (3, 1)}},
        {"role": "wrtier"},
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments):
    with pytest.raises(InputError):
        hc.connect(**{"address": "grpc://127.0.0.1:1", "name": "x", "wait": 0.1, **arguments})


# ---------------------------------------------------------------------- by the session's settings


def test_a_session_that_names_a_fleet_joins_it_when_a_table_is_opened(fleet, tmp_path):
    hosting, admin = fleet
    url = make_table(tmp_path / "orders")
    options = {"halocline.fleet": hosting.address}
    try:
        hc.Table.for_path(url, options=options)
        first = front.current()
        hc.Table.for_path(url, options=options)
        assert front.current() is first is not ALONE, "once per process"
        until(lambda: len(users_of(admin, url)) == 1)
    finally:
        joined = front.install(ALONE)
        joined.close()


def test_the_session_gives_the_name_and_the_role(fleet):
    hosting, admin = fleet
    spark = Conf(
        spark_halocline_fleet=hosting.address, spark_halocline_fleet_name="nightly", spark_halocline_fleet_role="reader"
    )
    try:
        join_once(Settings.read(spark=spark), "deltalake@1.0.2", spark, False)
        member = members_of(admin)["nightly"]
        assert (member.role, member.release) == ("reader", "deltalake@1.0.2")
        assert spark.sources[-1].session_settings["halocline.fleet.name"] == "nightly", "the data source belongs to it"
    finally:
        joined = front.install(ALONE)
        joined.close()


def test_connect_takes_the_address_and_a_name_from_the_session(fleet):
    hosting, admin = fleet
    spark = Conf(spark_halocline_fleet=hosting.address, spark_app_name="my job", spark_app_id="local-1")
    with hc.connect(spark=spark) as member:
        assert member.name == "my-job.local-1"
        assert member.name in members_of(admin)


def test_a_stopped_session_leaves_no_member_behind(fleet):
    hosting, admin = fleet
    spark = Conf(spark_halocline_fleet=hosting.address, spark_app_name="late job", spark_app_id="local-2")
    spark.sparkContext = None
    with pytest.raises(InputError, match="SESSION_STOPPED"):
        hc.connect(spark=spark)
    with pytest.raises(InputError, match="SESSION_STOPPED"):
        join_once(Settings.read(spark=spark), "halocline@0.1.0", spark, False)
    assert front.current() is ALONE
    assert "late-job.local-2" not in members_of(admin)


def test_a_release_that_the_fleet_refuses_does_not_open_the_table(tmp_path):
    url = make_table(tmp_path / "orders")
    with running() as (hosting, admin):
        raise_to(admin, 4)
        with pytest.raises(IncompatibleError, match="level 4"):
            hc.Table.for_path(url, options={"halocline.fleet": hosting.address}, release="deltalake@1.0.2")


def test_a_fleet_that_is_not_there_does_not_keep_a_table_from_being_read(tmp_path, monkeypatch):
    monkeypatch.setattr("halocline.fleet.member.connect._WAIT_ON_OPENING_S", 0.2)
    url = make_table(tmp_path / "orders")
    try:
        table = hc.Table.for_path(url, options={"halocline.fleet": "grpc://127.0.0.1:1"})
        assert table.version == 0
        assert front.current().level("delta") is None
    finally:
        joined = front.install(ALONE)
        joined.close()


def test_a_thread_that_acts_for_somebody_does_not_join(fleet, tmp_path):
    hosting, admin = fleet
    url = make_table(tmp_path / "orders")
    with hc.connect(name="alone") as alone, alone.acting():
        hc.Table.for_path(url, options={"halocline.fleet": hosting.address})
    assert front.installed() is ALONE
    assert users_of(admin, url) == {}


def test_a_task_of_spark_does_not_join(fleet, monkeypatch):
    hosting, admin = fleet
    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: object())
    join_once(Settings(fleet=hosting.address), "halocline@0.1.0", None, False)
    assert front.current() is ALONE
    assert members_of(admin) == {}
