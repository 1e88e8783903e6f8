"""The examples in docs/inspect.md, docs/upgrade.md and docs/downgrade.md print what the pages say."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest

from halocline.cli import main
from halocline.compat.features import features
from halocline.compat.protocol import Protocol
from halocline.compat.verdict import can
from halocline.formats.delta.maintain.lint_rules import HURTS
from halocline.formats.log.gate import own_release

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("inspect.md", "upgrade.md", "downgrade.md")
HOUR = 3_600_000
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})


def examples(page):
    """Every command of a page with what follows it."""
    for block in re.findall(
        r"^```console\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        yield from re.findall(r"^\$ halocline (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def commit(folder, version, told, *actions):
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = [{"commitInfo": told}, *actions]
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


def told(operation, engine, hours_ago=0, **more):
    return {
        "operation": operation,
        "engineInfo": engine,
        "timestamp": int(time.time() * 1000) - hours_ago * HOUR,
        **more,
    }


def metadata(**configuration):
    body = {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
    return {"metaData": body | {"partitionColumns": [], "configuration": configuration}}


def add(path, size):
    return {"add": {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}}


def protocol(reader, writer, **lists):
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """The tables that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    spark, rust = "Apache-Spark/3.5.0 Delta-Lake/3.2.0", "delta-rs:py-1.6.6"
    orders, returns, items = (tmp_path / "lake" / name for name in ("orders", "returns", "items"))
    commit(orders, 0, told("CREATE TABLE", spark, 50), protocol(1, 2), metadata())
    commit(orders, 1, told("WRITE", spark, 49), add("a", 96_000_000_000))
    commit(orders, 2, told("WRITE", "Apache-Spark/3.3.1 Delta-Lake/2.2.0", 2), add("b", 100_000_000))
    commit(returns, 0, told("CREATE TABLE", rust), protocol(1, 2), metadata())
    commit(returns, 1, told("ADD FEATURE", rust), protocol(1, 7, writerFeatures=["changeDataFeed"]))
    vectors = {"delta.enableDeletionVectors": "true"}
    lists = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["appendOnly", "deletionVectors", "invariants"]}
    commit(items, 0, told("CREATE TABLE", spark), protocol(3, 7, **lists), metadata(**vectors))


def plain(text):
    """Lines without the blanks that only align them."""
    return [re.sub(r"  +", "  ", line).strip() for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page, lake, capsys):
    found = list(examples(page))
    assert found, f"{page} has no examples"
    for command, shown in found:
        main.run(shlex.split(command))
        assert plain(capsys.readouterr().out) == plain(shown), command


def test_every_code_of_lint_is_explained():
    page = (DOCS / "inspect.md").read_text(encoding="utf-8")
    assert [code for code in HURTS if f"`{code}`" not in page] == []


def test_every_feature_that_can_be_dropped_is_explained():
    page = (DOCS / "downgrade.md").read_text(encoding="utf-8")
    droppable = [each.name for each in features("delta").values() if each.drop is not None]
    able = [name for name in droppable if can(own_release(), Protocol.of("delta", [name]), "write.metadata").ok]
    assert len(able) > 10
    assert [name for name in able if f"`{name}`" not in page] == []
