"""Whatever is written for people names local places by their paths, and buckets by their URLs."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.support.hudi_tables import HudiTableMaker

import halocline as hc
from halocline.errors import HaloclineError, NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.place_names import place_name
from halocline.progress import working
from halocline.storage import open_store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def orders(tmp_path):
    return hc.Table.create(tmp_path / "orders", ROWS, properties={"delta.enableDeletionVectors": "true"})


@pytest.mark.parametrize(
    "mistake",
    [
        lambda at: hc.Table.for_path(at.parent / "none"),
        lambda at: hc.Table.create(at, ROWS),
        lambda at: hc.Table.for_path(at).append(pa.table({"other": [1]})),
        lambda at: hc.Table.for_path(at).to_arrow(version=7),
        lambda at: hc.Table.for_path(at).vacuum(retention_hours=0),
        lambda at: hc.Table.for_path(at).check("trino@426", "fly"),
    ],
)
def test_errors_name_a_local_table_by_its_path(mistake, orders, tmp_path):
    with pytest.raises(HaloclineError) as raised:
        mistake(tmp_path / "orders")
    assert "file:" not in str(raised.value)
    assert "file:" not in str(pickle.loads(pickle.dumps(raised.value)))


def test_an_error_for_programs_keeps_the_url(tmp_path):
    with pytest.raises(NotFoundError) as raised:
        hc.Table.for_path(tmp_path / "none")
    assert f"at {tmp_path}/none" in str(raised.value)
    assert f"file://{tmp_path}/none" in raised.value.to_dict()["message"]


def test_tables_stores_and_plans_show_paths(orders, tmp_path):
    HudiTableMaker.create(open_store(str(tmp_path / "visits")), 6, TableType.COPY_ON_WRITE).upsert(range(2), 1, "a")
    plan = orders.plan_drop("deletionVectors")
    move = hc.Table.for_path(tmp_path / "visits").plan_upgrade(8)
    for shown in (repr(orders), orders._repr_html_(), repr(plan), plan._repr_html_(), repr(open_store(orders.url))):
        assert str(tmp_path / "orders") in shown
        assert "file:" not in shown
    assert move.explain().startswith(f"move {tmp_path}/visits from version 6 to 8")


def test_progress_shows_paths(monkeypatch):
    told = []
    monkeypatch.setattr("halocline.progress._telling", type("Outer", (), {"get": lambda _: told.append})())
    with working("vacuum file:///data/lake/orders"):
        pass
    assert told == ["vacuum /data/lake/orders"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file:///data/my%20lake", "/data/my lake"),
        ("file:/data/50%25", "/data/50%"),
        ("s3://lake/file:/x", "s3://lake/file:/x"),
        ("memory://lake", "memory://lake"),
    ],
)
def test_a_url_of_a_local_place_becomes_its_path_and_no_other(url, name):
    assert place_name(url) == name
