"""The report of the demo: one page with a picture, looked at in a real browser."""

import pytest
from tests.support.browser import drawn, needs_browser, opened

from halocline.demo.ledger import StateChange
from halocline.demo.report import DemoReport, StageTime

NAUGHTY = "<script>document.title = 'broken'</script>"


@pytest.fixture
def report():
    rows = {
        "ingest": [StateChange(1, "ingest", "hudi@0.15.0"), StateChange(60, "ingest", "hudi@1.0.2")],
        NAUGHTY: [StateChange(0, NAUGHTY, "hudi(6)"), StateChange(80, NAUGHTY, NAUGHTY)],
        "gate hudi 8": [StateChange(0, "gate hudi 8", ""), StateChange(75, "gate hudi 8", "open")],
    }
    stages = [StageTime("wave 1", 45, 65), StageTime(NAUGHTY, 66, 85)]
    figures = {"reads": 1234, "failed": 0, "wrong": 2}
    return DemoReport(
        "A rollout", 90, figures, rows, stages, [("all is well", True), (NAUGHTY, False)], [1, 2, 89], ["x"]
    )


def test_texts_are_shown_and_never_run(report):
    page = report.page()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4
    assert "http" not in page, "it loads nothing"


def test_failures_and_wrong_reads_are_marked(report):
    page = report.page()
    assert "<div class='figure good'><b>0</b>failed</div>" in page
    assert "<div class='figure bad'><b>2</b>wrong</div>" in page
    assert "1 of 2 checks hold" in page


def test_every_state_has_a_bar_until_the_next(report):
    page = report.page()
    assert "ingest: hudi@0.15.0 from 1.0 s" in page
    assert "ingest: hudi@1.0.2 from 60.0 s" in page
    assert "gate hudi 8: open from 75.0 s" in page


@needs_browser
def test_a_browser_draws_it(report, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(report.page(), encoding="utf-8")
    assert drawn(page, tmp_path / "report.png") == (1300, 900)
    assert "<title>A rollout</title>" in opened(page), "a text was run as a script"
