"""What is said of others agrees with all that was measured, and their pages tell what is known."""

from __future__ import annotations

import pytest
from tests.compat.outcomes import Outcome, read, renewed, written
from tests.compat.pages import DOCS, data_of, pages, recorded

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.terms import Terms

PRODUCTS = Knowledge.load().products
TRIED = [name for name in PRODUCTS if data_of(name).exists()]


@pytest.mark.parametrize("product", TRIED)
def test_what_is_said_is_what_was_observed(product):
    found = recorded(product)
    differ = [f"{o.release} {o.operation} {o.case}: {o.predicted}, not {o.observed}" for o in found if not o.agrees]
    assert found
    assert not differ, differ[:10]


@pytest.mark.parametrize("product", TRIED)
def test_answers_count_as_measured_only_where_releases_were_tried(product):
    """What knowledge lists as tried was tried, and no release that was tried is missing from the lists."""
    observed = {
        (each.version, token, each.asked or each.operation)
        for each in recorded(product)
        for token in each.terms.requires(each.asked or each.operation)
    }
    for trial in PRODUCTS[product].trials:
        for version in trial.releases:
            for token in trial.tokens:
                for operation in trial.operations:
                    finer = {each for each in observed if each[2].partition(".")[0] == operation}
                    assert any(each[:2] == (str(version), token) for each in finer), (version, token, operation)
    listed = {str(version) for trial in PRODUCTS[product].trials for version in trial.releases}
    assert not listed or listed == {version for version, _, _ in observed}


def test_pages_are_current():
    stale = [path.name for path, text in pages().items() if not path.exists() or path.read_text() != text]
    assert not stale, "python -m tests.compat --pages"


def test_no_page_is_left_of_a_product_that_is_gone():
    assert {path.name for path in DOCS.glob("compat*.md")} == {path.name for path in pages()}


def test_outcomes_survive_as_csv():
    terms = Terms.using("delta", ["columnMapping:id"])
    first = Outcome("a@1.0", "mapped, by id", terms, "read", Answer.WRONG, "returns [1]: not [2]", "read.path")
    second = Outcome("a@1.10", "mapped, by id", terms, "read", Answer.REFUSED, "", "read.path")
    assert read(written([first, second])) == [first, second]
    assert read(written([second, first])) == [first, second], "releases stand in order"
    now = Outcome("a@1.0", "mapped, by id", terms, "read", Answer.OK, "", "read.path")
    assert renewed([first, second], [now]) == [now, second]
    other = Outcome("a@1.0", "another table", terms, "read", Answer.OK)
    assert renewed([first, other], [now]) == [now], "a table that is not tried any more goes"
    assert renewed([first, other], [now], some_tables=True) == [other, now], "but not if only some were"
