"""The page of a survey, in a real browser."""

import re

import pytest
from tests.support import browser
from tests.support.browser import needs_browser
from tests.support.fleets import make_table

from halocline import Lake

EVIL = "<script>document.title='pwned'<!--</script>"


@pytest.fixture
def page(tmp_path):
    lake = tmp_path / "lake"
    make_table(lake / "sales" / "orders", "Apache-Spark/3.5.0 Delta-Lake/3.2.0")
    make_table(lake / "sales" / "items", "delta-rs:py-0.25.5")
    make_table(lake / "sales" / "<img onerror>", "<b>evil</b>/1.0")
    for number in range(120):
        make_table(lake / "zoo" / f"t{number:03}")
    (lake / "torn" / "_delta_log").mkdir(parents=True)
    (lake / "torn" / "_delta_log" / f"{0:020}.json").write_text(EVIL)
    found = Lake.discover(lake)
    found.place = EVIL
    text = found.survey(enable=["deletionVectors"], clients=["trino@426"]).to_html()
    path = tmp_path / "page.html"
    path.write_text(text)
    return path


def opened(page, script="", part=""):
    """The page as the browser has it after a script has run."""
    if script:
        page.write_text(page.read_text().replace("</body>", f"<script>{{{script}}}</script></body>"))
    return browser.opened(page, part)


def names(dom):
    return re.findall(r'<td class="name">(.*?)</td>', dom)


def test_the_page_loads_nothing_and_names_no_other_place(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", text)
    assert "@import" not in text
    assert "url(" not in text


def test_no_text_of_a_table_can_end_the_script(page):
    text = page.read_text()
    assert "<script>document.title" not in text
    assert "<img" not in text
    assert text.count("<script") == 2


@needs_browser
def test_the_page_shows_searches_sorts_and_colours(page):
    plain = opened(page)
    assert "Survey of &lt;script&gt;" in plain
    assert "<title>Survey of" in plain
    assert "&lt;img onerror&gt;" in plain
    assert "<img" not in plain, "a name is text and nothing else"
    assert len(names(plain)) == 100, "long lists come in parts"
    assert "Show 24 more of 24" in plain
    script = """
        const search = document.getElementById('search');
        search.value = 'sales delta-spark'; search.dispatchEvent(new Event('input'));
        const first = [...document.querySelectorAll('td.name')].map(each => each.textContent).join();
        search.value = 'sales'; search.dispatchEvent(new Event('input'));
        const order = () => [...document.querySelectorAll('td.name')].map(each => each.textContent.slice(0, 9)).join();
        const up = order(); document.querySelector('th[data-key=name]').click(); const down = order();
        document.querySelector('tr.row').click();
        const detail = document.querySelectorAll('tr.detail').length;
        document.getElementById('tab-matrix').click();
        const cells = [...document.querySelectorAll('td.used span')].map(each => each.dataset.answer).join();
        const shown = !!document.getElementById('matrix-table');
        document.title = JSON.stringify({first, up, down, detail, cells, matrix: shown});
    """
    told = re.search(r"<title>(.*?)</title>", opened(page, script)).group(1)
    assert '"first":"sales.orders"' in told
    assert '"up":"sales.&lt;im,sales.ite,sales.ord"' in told
    assert '"down":"sales.ord,sales.ite,sales.&lt;im"' in told
    assert '"detail":1' in told
    assert '"matrix":true' in told
    assert "ok" in told.partition('"cells"')[2]


@needs_browser
def test_the_matrix_opens_by_its_address(page):
    assert 'id="matrix-table"' not in opened(page)
    dom = opened(page, part="#matrix")
    assert 'id="matrix-table"' in dom
    # What each release that uses a table answers to reads and writes is in the row of that table.
    cells = re.findall(
        r'<td(?=[^>]*class="cell used")[^>]*title="(\S+ on \S+) \(uses it\)[^>]*>(.*?)</td>', dom, re.DOTALL
    )
    answers = {which: re.findall(r'data-answer="(\w+)"[^>]*>(\w)<', cell) for which, cell in cells}
    assert answers["delta-spark@3.2.0 on sales.orders"] == [("ok", "R"), ("ok", "W")]
    assert answers["deltalake@0.25.5 on sales.items"] == [("ok", "R"), ("ok", "W")]
    assert "trino@426 on sales.items" not in answers, "who does not use a table is not marked"
