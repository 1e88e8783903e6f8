"""The examples of the documentation do what they say, pasted as they are, in a folder that holds what the page says.

A page that does not say that it begins where `halocline quickstart` made its lake begins in an empty folder.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from halocline.quickstart import make_lake

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALONE = ("README.md", "without-spark.md", "creating-tables.md", "hudi.md", "histories.md")
"""The pages that make all that they need."""

ELSEWHERE = {
    "fleet.md": "a coordinator: tests/fleet",
    "gates.md": "a coordinator: tests/spark/test_fleet.py",
    "hudi-moves.md": "a Hudi table: tests/conformance/test_hudi_moves.py",
    "knowledge.md": "knowledge of one's own: tests/unit/compat",
    "storage.md": "a bucket: tests/spark/test_buckets.py",
}
"""The pages whose blocks need more than a folder, and what tries them."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("docs") / "lake").parent


@pytest.fixture
def folder(spark, lake, tmp_path, monkeypatch):
    """Where a reader pastes."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.name not in ELSEWHERE], ids=lambda page: page.name
)
def test_examples_run_as_they_are_pasted(folder, lake, page, capsys):
    if page.name not in ALONE:
        shutil.copytree(lake, folder / "lake")
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        # Spark's workers take relative paths from where the session was started.
        exec(compile(re.sub("([\"'`])lake/", rf"\1{folder}/lake/", block), page.name, "exec"), names)
    if page.name == "README.md":
        assert "refused" in capsys.readouterr().out
