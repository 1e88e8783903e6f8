"""The plans in docs/examples are those that the planner makes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MADE = runpy.run_path(str(ROOT / "examples" / "rollouts.py"))


@pytest.mark.parametrize("name", MADE["PAGES"])
def test_the_page_is_what_the_planner_says(name):
    kept = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")
    assert kept == MADE["page"](name), "make it again: python examples/rollouts.py"


def test_every_page_is_made():
    pages = {each.name for each in (ROOT / "docs" / "examples").glob("*.md")}
    assert pages == set(MADE["PAGES"])
