"""The examples of the documentation do what they say, pasted as they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import halocline as hc

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/spark.md", "docs/upgrade.md", "docs/downgrade.md", "docs/streaming.md", "docs/histories.md"]
PAGES += ["docs/hudi.md", "docs/index-tables.md", "docs/lake.md", "docs/rollouts.md", "docs/sql.md"]
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    rows = _rows(spark)
    orders = hc.Table.create(folder / "orders", rows, spark, properties=FEED)
    for _ in range(3):
        orders.append(rows.where("id < 3"))
    items = hc.Table.create(folder / "items", rows, spark, properties=VECTORS)
    items.delete("id = 3")
    hc.Table.create(folder / "clicks", rows, spark)
    return folder


def _rows(spark):
    return spark.sql("SELECT id, DATE'2026-11-02' day, if(id % 2 = 0, 'at', 'nz') country FROM range(10)")


@pytest.fixture
def pasted(spark, lake, tmp_path):
    """What a reader has at hand: a session, a few tables, and rows to write."""
    shutil.copytree(lake, tmp_path / "lake")
    new = _rows(spark).selectExpr("id + 20 AS id", "day", "country")
    yield {"spark": spark, "hc": hc, "new_rows": new, "updates": new}
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_they_are_pasted(pasted, tmp_path, page, capsys):
    found = blocks(page)
    assert found, f"{page} has no example"
    for block in found:
        # Spark's workers take relative paths from where the session was started.
        exec(compile(re.sub("([\"'`])lake/", rf"\1{tmp_path}/lake/", block), page, "exec"), pasted)
    if page == "README.md":
        assert "at" in capsys.readouterr().out
        assert str(pasted["orders"].can("trino@426", "read").answer) == "ok"
