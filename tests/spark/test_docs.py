"""The examples of the documentation do what they say, pasted as they are, in a folder that holds what the page says.

A page that does not say that it begins where `halocline quickstart` made its lake begins in an empty folder. The README
names that command above its first example, which works before and after it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.support.fleets import running
from tests.support.s3_server import s3_bucket

from halocline.quickstart import make_lake
from halocline.table import gatekeeper

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALONE = (
    "without-spark.md",
    "creating-tables.md",
    "hudi.md",
    "hudi-moves.md",
    "histories.md",
    "knowledge.md",
    "storage.md",
)
"""The pages that make all that they need."""

COORDINATOR = "grpc://127.0.0.1:7470"
"""Where pages expect a fleet that `halocline serve` runs."""

BUCKET = "s3://lake/"
"""Where pages expect a bucket, with what is needed to get in by the environment."""


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


@pytest.fixture
def fleet(spark):
    """The address of a coordinator; the session forgets it afterwards."""
    with running() as (hosting, _):
        yield hosting.address
        for name in ("spark.halocline.fleet", "spark.halocline.fleet.name"):
            spark.conf.unset(name)
        joined = gatekeeper.install(gatekeeper.ALONE)
        if joined is not gatekeeper.ALONE:
            joined.close()


@pytest.fixture
def bucket(monkeypatch):
    """A bucket named `lake`, which the environment leads to."""
    with s3_bucket("lake") as options:
        monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["aws_access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["aws_secret_access_key"])
        monkeypatch.setenv("AWS_REGION", options["region"])
        yield


def paste(page: Path, folder: Path, address: str = "") -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        # Spark's workers take relative paths from where the session was started.
        pasted = re.sub("([\"'`])lake/", rf"\1{folder}/lake/", block.replace(COORDINATOR, address))
        exec(compile(pasted, page.name, "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_examples_run_as_they_are_pasted(folder, lake, page, request):
    if page.name not in ALONE:
        shutil.copytree(lake, folder / "lake")
    text = "".join(blocks(page))
    address = request.getfixturevalue("fleet") if COORDINATOR in text else ""
    if BUCKET in text:
        request.getfixturevalue("bucket")
    paste(page, folder, address)


def test_first_example_runs_in_an_empty_folder_as_well(tmp_path, capsys):
    paste(ROOT / "README.md", tmp_path)
    assert "refused: reads deletionVectors from 427" in capsys.readouterr().out
