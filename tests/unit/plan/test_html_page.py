"""The page of a plan, in a real browser."""

from __future__ import annotations

import re

import pytest
from tests.support.applied import LakeOnDisk
from tests.support.browser import drawn, needs_browser, opened

from halocline.cli.main import run

EVIL = "<script>document.title = 'broken'</script>"


@pytest.fixture
def page(tmp_path, capsys):
    lake = LakeOnDisk(tmp_path).delta("orders", "items", "<b>bold<b>").hudi("trips").index("logs")
    told = (("load", "hudi@0.15.0", '["trips"]', "writes"), ("report", "trino@426", '["orders"]', "reads"))
    members = [*told, (EVIL, "trino@426", '["items", "<*"]', "reads")]
    lake.members.write_text(
        "".join(
            f'[[members]]\nname = "{name}"\nrelease = "{of}"\n{does} = {what}\n' for name, of, what, does in members
        )
    )
    wanted = ["--enable", "deletionVectors", "--table-version", "9", "--members", str(lake.members)]
    assert run(["plan", str(lake.path), *wanted, "--output", "html"]) == 2
    path = tmp_path / "plan.html"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def test_the_page_loads_nothing_and_runs_nothing(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert not re.search(r"(src|href)\s*=", text)


@needs_browser
def test_a_browser_shows_stages_marks_and_the_summary(page, tmp_path):
    dom = opened(page)
    assert re.search(r"<title>Plan [0-9a-f]{12}</title>", dom), "a name was run as a script"
    stages = re.findall(r"<h2>(Stage \d+: .*?)</h2>", dom)
    assert len(stages) >= 2, dom
    assert '<li class="comes"><b>+</b>enable deletionVectors' in dom
    assert '<li class="changes"><b>~</b>trino@426 to trino@' in dom
    assert re.search(r"<footer>Plan: \d+ stages, .*</footer>", dom)
    assert "&lt;b&gt;bold" in dom, "names are texts"
    assert drawn(page, tmp_path / "plan.png") == (1300, 900)
