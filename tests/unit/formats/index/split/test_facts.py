"""What was read of a split is kept for the next search, and only as long as its file is the same."""

import pytest
from msgspec.structs import replace
from tests.support.faulty_store import FaultyStore
from tests.support.index_tables import table_of
from tests.support.splits import row

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.index.split.facts import KnownSplits, SplitFacts, at_hand
from halocline.formats.index.split.reader import OpenedSplit
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore


def table(count: int = 10):
    store = FaultyStore(MemoryStore())
    snapshot = table_of([row(number) for number in range(count)], store=store)
    (split,) = snapshot.files.values()
    return store, split


def fetched(store: FaultyStore, since: int) -> int:
    return sum(call.name in ("get", "fetch", "get_range") for call in store.operations[since:])


def test_a_split_opened_again_is_not_read_again():
    store, split = table()
    for _ in range(2):
        before = store.count
        with OpenedSplit.of(store, split) as opened:
            found = opened.layout.rows, opened.terms.may_have("f1", "zebra")
    assert fetched(store, before) == 0
    assert found == (10, False)


def test_rows_of_a_split_that_is_known_are_read_and_checked():
    store, split = table()
    with OpenedSplit.of(store, split) as opened:
        whole = opened.rows([3, 7])
    with OpenedSplit.of(store, split) as opened:
        assert opened.rows([3, 7]).equals(whole)
        opened.parquet.footer.row_group(0)


def test_a_file_that_was_damaged_since_is_noticed():
    store, split = table()
    with OpenedSplit.of(store, split) as opened:
        assert opened.layout.rows == 10
    data = bytearray(store.get(split.path))
    data[-20] ^= 1
    store.put(split.path, bytes(data))
    with pytest.raises(MalformedError, match="footer does not fit"):
        OpenedSplit.of(store, split)


def test_a_file_that_went_since_is_missed():
    store, split = table()
    OpenedSplit.of(store, split).close()
    store.delete(split.path)
    with pytest.raises(NotFoundError):
        OpenedSplit.of(store, split)


def test_a_split_that_the_log_describes_otherwise_is_another_one():
    store, split = table()
    OpenedSplit.of(store, split).close()
    with pytest.raises(MalformedError, match="10 rows, and the log says 11"):
        OpenedSplit.of(store, replace(split, num_records=11))


def test_facts_that_were_used_the_longest_ago_go_first():
    known = KnownSplits(most_bytes=100)
    for name in "ab":
        known.keep((name,), SplitFacts(footer=name, footer_bytes=10))
    assert known.of(("a",)) is not None
    known.keep(("c",), SplitFacts(footer="c", footer_bytes=10))
    assert [each for each in "abc" if known.of((each,))] == ["a", "c"]
    known.keep(("d",), SplitFacts(footer="d", footer_bytes=1000))
    assert len(known) == 1
    assert known.of(("d",)) is not None


def test_splits_are_at_hand_once_they_are_known_and_lie_on_this_machine(tmp_path):
    snapshot = table_of([row(1)], [row(2)], store=open_store(str(tmp_path)))
    first, second = snapshot.files.values()
    with OpenedSplit.of(snapshot.store, first):
        assert at_hand(snapshot.store, [first])
    assert not at_hand(snapshot.store, [first, second])
    elsewhere, split = table()
    with OpenedSplit.of(elsewhere, split):
        assert not at_hand(elsewhere, [split])
