"""The ledger of the demo: a read is right if it saw the rows of its version."""

from halocline.demo.ledger import Ledger
from halocline.demo.pipelines import amount, amounts


def filled():
    ledger = Ledger()
    ledger.wrote("orders", 0, 10, 100)
    ledger.wrote("orders", 3, -2, -15)
    ledger.wrote("events", 1, 7, 7)
    return ledger


def test_a_version_holds_what_was_written_up_to_it():
    ledger = filled()
    assert [ledger.expected("orders", version) for version in (0, 2, 3, 9)] == [(10, 100), (10, 100), (8, 85), (8, 85)]
    assert ledger.expected("events", 1) == (7, 7)


def test_reads_of_too_few_rows_or_another_sum_are_wrong():
    ledger = filled()
    ledger.saw("right", "orders", 3, 8, 85)
    ledger.saw("stale rows", "orders", 3, 10, 100)
    ledger.saw("other amounts", "orders", 0, 10, 99)
    ledger.saw("empty", "events", 1, 0, 0)
    assert [each.reader for each in ledger.wrong()] == ["stale rows", "other amounts", "empty"]


def test_a_read_is_judged_by_what_is_noted_afterwards():
    ledger = filled()
    ledger.saw("quick", "orders", 4, 9, 86)
    assert ledger.wrong()
    ledger.wrote("orders", 4, 1, 1)
    assert not ledger.wrong()


def test_a_version_that_is_committed_twice_is_a_failure():
    ledger = filled()
    ledger.wrote("orders", 3, 1, 1)
    assert ledger.failed == ["orders: version 3 was committed twice"]


def test_amounts_add_up():
    assert amounts(5, 3) == amount(5) + amount(6) + amount(7)
