"""Relevance: scores by hand, in one index of all rows, and in any splits of them are the same."""

import math
import random

import numpy as np
import pytest
from tests.support.index_tables import append, delete, table_of
from tests.support.splits import row

from halocline.errors import IncompatibleError, InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.evaluate import Evaluation
from halocline.formats.index.relevance.best import best_in_split, best_of, search_best
from halocline.formats.index.relevance.statistics import WordStatistics, split_statistics
from halocline.formats.index.search import Search
from halocline.formats.index.split.lengths import LENGTHS
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.types import Field, Primitive, Struct

COLUMNS = Struct([Field("id", Primitive("long")), Field("t", Primitive("string")), Field("s", Primitive("string"))])
OPTIONS = {"t": {"type": "text"}}
WORDS = ("ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew")


def texts(count, seed=1):
    chance = random.Random(seed)
    weights = [2.0**-n for n in range(len(WORDS))]
    return [" ".join(chance.choices(WORDS, weights, k=chance.choice((0, 1, 3, 9, 30, 60, 200)))) for _ in range(count)]


def rows_with(some, start=0):
    return [{"id": start + n, "t": text, "s": WORDS[n % 3]} for n, text in enumerate(some)]


ROWS = [*rows_with(texts(150)), {"id": 150, "t": None, "s": None}, {"id": 151, "t": "yew " * 400, "s": "ash"}]
QUERIES = (
    "t:cedar",
    "t:cedar t:oak",
    "t:ash AND t:yew",
    't:"ash birch"',
    't:"birch ash elm"~3 OR t:pine',
    "t:yew AND NOT t:fir",
    "t:oak AND s:birch",
    "t:oak OR s:>=birch",
    "(t:oak AND t:yew) OR t:fir",
    "t:nothing OR t:oak",
    "oak",
    "t:o* OR t:elm",
)


def length(text):
    return int(LENGTHS[np.searchsorted(LENGTHS, len(text.split()), side="right") - 1])


def occurrences(words, wanted):
    return sum(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1))


def by_hand(rows, groups):
    """Scores of the rows that have some word or phrase of the groups, worked out in plain Python."""
    found = {}
    average = sum(length(each["t"] or "") for each in rows) / len(rows)
    for each in rows:
        words, total, hit = (each["t"] or "").split(), 0.0, False
        for wanted in groups:
            often = min(occurrences(words, wanted), 255)
            if not often:
                continue
            idf = 0.0
            for word in wanted:
                having = sum(word in (other["t"] or "").split() for other in rows)
                idf += math.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
            norm = 1.2 * (0.25 + 0.75 * (length(each["t"]) / average))
            hit, total = True, total + idf * 2.2 * (often / (often + norm))
        if hit:
            found[each["id"]] = total
    return found


@pytest.fixture(scope="module")
def whole():
    return table_of(ROWS, columns=COLUMNS, options=OPTIONS)


@pytest.fixture(scope="module")
def spread():
    mixed = sorted(ROWS, key=lambda each: each["id"] * 7919 % 1009)
    return table_of(mixed[:5], mixed[5:6], mixed[6:90], mixed[90:], columns=COLUMNS, options=OPTIONS)


def best(table, query, limit=None):
    found = search_best(table, Search.of(table, query), limit=limit)
    return list(zip(found.rows["id"].to_pylist(), found.scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("t:cedar", [["cedar"]]),
        ("t:cedar t:oak t:yew", [["cedar"], ["oak"], ["yew"]]),
        ('t:"ash birch" OR t:pine', [["ash", "birch"], ["pine"]]),
    ],
)
def test_scores_are_those_of_the_formula(whole, query, groups):
    found = dict(best(whole, query))
    expected = by_hand(ROWS, groups)
    assert found.keys() == expected.keys()
    for key, score in expected.items():
        assert math.isclose(found[key], score, rel_tol=1e-12), key


@pytest.mark.parametrize("query", QUERIES)
def test_rows_have_the_same_scores_in_one_index_and_in_several_to_the_last_bit(whole, spread, query):
    one, several = best(whole, query), best(spread, query)
    assert dict(one) == dict(several)
    assert [score for _, score in one] == [score for _, score in several]
    assert [score for _, score in one] == sorted((score for _, score in one), reverse=True)
    for limit in (1, 3, 20):
        assert best(spread, query, limit) == several[:limit]


@pytest.mark.parametrize("query", ["t:cedar", "t:cedar t:oak", 't:"ash birch"', "t:ash AND t:yew"])
def test_scores_are_those_of_the_library_where_all_rows_are_in_one_index(whole, query):
    """But for its sum of lengths, which is exact where the mean of kept lengths is not."""
    (split,) = whole.files.values()
    with OpenedSplit(whole.store, split.path) as opened:
        hits = Evaluation(opened, Search.of(whole, query).query).weighed()
    theirs = dict(zip(hits.rows.tolist(), hits.weights.tolist(), strict=True))
    ours = dict(best(whole, query))
    assert ours.keys() == theirs.keys()
    for key, score in theirs.items():
        assert math.isclose(ours[key], score, rel_tol=0.05), key


def test_lengths_and_counts_are_those_that_the_library_explains(whole):
    (split,) = whole.files.values()
    with OpenedSplit(whole.store, split.path) as opened:
        hits = Evaluation(opened, Search.of(whole, "t:yew").query).weighed()
        found = opened.lengths_at("t", hits.places)
    assert found.tolist() == [length(ROWS[row]["t"]) for row in hits.rows]
    assert 400 not in found, "long texts have rounded lengths"


def test_several_segments_of_one_split_score_as_one_does():
    some = [
        " ".join([f"{n:x}y{n * 7919:x}z", *("yew",) * (n % 3), *(f"w{n * 31 + m}" for m in range(n % 7))])
        for n in range(25_000)
    ]
    table = table_of(columns=COLUMNS, options=OPTIONS)
    append(table, rows_with(some), heap_bytes=15_000_000)
    table = table.newest()
    (split,) = table.files.values()
    with OpenedSplit(table.store, split.path) as opened:
        assert opened.searcher.num_segments > 1
        hits = Evaluation(opened, Search.of(table, "t:yew").query).weighed()
        assert opened.lengths_at("t", hits.places).tolist() == [length(some[row]) for row in hits.rows]
        assert sorted(hits.rows.tolist()) == [n for n in range(25_000) if n % 3]


def test_deleted_rows_count_in_no_score(spread):
    gone = {path: [0] for path in spread.files}
    after = delete(spread, gone)
    left = [row for row in ROWS if row["id"] in {each for each, _ in best(after, "t:ash OR NOT t:ash")}]
    assert len(left) == len(ROWS) - 4
    assert dict(best(after, "t:cedar t:oak")) == dict(
        best(table_of(left, columns=COLUMNS, options=OPTIONS), "t:cedar t:oak")
    )


def test_equal_scores_come_in_the_order_of_paths_and_row_numbers():
    table = table_of(*[rows_with(["ash"] * 3, 10 * n) for n in range(4)], columns=COLUMNS, options=OPTIONS)
    found = search_best(table, Search.of(table, "t:ash"), limit=5)
    expected = [(path, number) for path in sorted(table.files) for number in range(3)]
    ids = {path: 10 * n for n, path in enumerate(table.files)}
    assert found.rows["id"].to_pylist() == [ids[path] + number for path, number in expected[:5]]
    assert found.total == 12
    assert len(set(found.scores.tolist())) == 1


def test_a_partition_that_decides_a_part_does_not_take_the_score_of_another():
    columns = Struct([*COLUMNS.fields, Field("zone", Primitive("string"))])
    parts = [
        [{**each, "zone": zone} for each in rows_with(texts(20, seed), 100 * seed)] for seed, zone in enumerate("ab")
    ]
    table = table_of(*parts, columns=columns, options=OPTIONS, partition="zone")
    flat = table_of([each for rows in parts for each in rows], columns=columns, options=OPTIONS)
    for query in ("t:oak OR zone:a", "t:oak AND zone:a", "t:oak AND NOT zone:a"):
        assert dict(best(table, query)) == dict(best(flat, query)), query


def test_two_rounds_by_hand_give_what_one_call_does(spread):
    search = Search.of(spread, "t:oak t:yew")
    told = [split_statistics(spread.store, each, search) for each in spread.files.values()]
    statistics = WordStatistics.added(reversed(told))
    assert statistics == WordStatistics.added(told)
    assert statistics.rows == len(ROWS)
    found = {path: best_in_split(spread.store, each, search, statistics, 4) for path, each in spread.files.items()}
    assert all(len(hits.rows) <= 4 for hits in found.values())
    scores = sorted((score for hits in best_of(found, 4).values() for score in hits.scores.tolist()), reverse=True)
    assert scores == [score for _, score in best(spread, "t:oak t:yew", 4)]


def test_a_word_counts_at_most_255_times():
    table = table_of(rows_with(["yew " * 300, "yew " * 2000]), columns=COLUMNS, options=OPTIONS)
    by_length = dict(best(table, "t:yew"))
    assert by_length[0] > by_length[1], "the shorter text is the better one once both are full"


@pytest.mark.parametrize("query", ["s:ash", "id:>3", "NOT t:oak", "t:oa*"])
def test_a_query_without_a_word_to_score_by_is_refused(whole, query):
    with pytest.raises(InputError, match="nothing to score"):
        search_best(whole, Search.of(whole, query))


def test_a_damaged_index_does_not_change_scores_and_is_told(spread):
    store, path = spread.store, sorted(spread.files)[1]
    before, original = best(spread, "t:oak t:yew"), spread.store.get(path)
    with OpenedSplit(store, path) as opened:
        blob = next(each for each in opened.layout.blobs if each.name.endswith(".fieldnorm"))
    damaged = bytearray(original)
    damaged[blob.offset] ^= 0xFF
    store.put(path, bytes(damaged))
    found = search_best(spread, Search.of(spread, "t:oak t:yew"))
    store.put(path, original)
    assert list(zip(found.rows["id"].to_pylist(), found.scores.tolist(), strict=True)) == before
    assert list(found.damaged) == [path]


def test_bundles_tell_no_statistics_and_such_a_table_has_no_scores():
    table = table_of([row(1)])
    bundle = SplitAdd("a.split", {}, 9, 0, True, num_records=1, min_values={"id": "5"}, max_values={"id": "5"})
    IndexTransaction(table.reopened("write")).commit([bundle], "WRITE")
    with pytest.raises(IncompatibleError, match="tantivySstable"):
        search_best(table.newest(), Search.of(table, "message:request AND id:1"))
