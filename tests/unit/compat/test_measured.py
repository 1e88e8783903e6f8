"""What is said of others agrees with all that was measured, and their pages tell what is known."""

from __future__ import annotations

import pytest
from tests.compat.outcomes import Outcome, read, renewed, written
from tests.compat.pages import DOCS, data_of, pages, recorded
from tests.compat.trials import listed, tried

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.product import Evidence
from halocline.compat.terms import Terms
from halocline.compat.verdict import can

PRODUCTS = Knowledge.load().products
LISTING = ["delta-spark", "trino"]
TRIED = [name for name in PRODUCTS if data_of(name).exists()]


@pytest.mark.parametrize("product", TRIED)
def test_what_is_said_is_what_was_observed(product):
    found = recorded(product)
    differ = [f"{o.release} {o.operation} {o.case}: {o.predicted}, not {o.observed}" for o in found if not o.agrees]
    assert found
    assert not differ, differ[:10]


def test_the_knowledge_of_these_products_lists_what_was_tried():
    assert set(LISTING) == {name for name in TRIED if PRODUCTS[name].trials}


@pytest.mark.parametrize("product", LISTING)
def test_knowledge_lists_exactly_what_was_tried(product):
    expected = tried(recorded(product))
    assert expected
    assert listed(PRODUCTS[product]) == expected, "python -m tests.compat --pages"


@pytest.mark.parametrize("product", LISTING)
def test_every_answer_that_was_observed_counts_as_measured(product):
    observed = recorded(product)
    verdicts = [can(each.release, each.terms, each.asked or each.operation) for each in observed]
    assert observed
    assert {verdict.evidence for verdict in verdicts} == {Evidence.MEASURED}


@pytest.mark.parametrize(
    ("release", "operation", "evidence"),
    [
        ("delta-spark@4.0.1", "write.append", "measured"),
        ("delta-spark@4.0.1", "write", "measured"),
        ("delta-spark@4.0.1", "write.update", "from source"),
        ("delta-spark@3.0.1", "write.append", "from source"),
        ("trino@430", "read.scan", "measured"),
        ("trino@430", "read", "measured"),
        ("trino@430", "write.delete", "measured"),
        ("trino@431", "read.scan", "from source"),
    ],
)
def test_an_answer_is_measured_for_what_was_tried_and_no_more(release, operation, evidence):
    assert can(release, "(1,2)", operation).evidence == evidence


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
