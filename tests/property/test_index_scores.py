"""Any texts in any splits: scores are those of the formula, and of one index of all rows to the last bit."""

from __future__ import annotations

import math
import os
import tempfile

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.index_tables import delete, table_of

from halocline.formats.index.relevance.best import search_best
from halocline.formats.index.search import Search
from halocline.formats.index.split.lengths import LENGTHS
from halocline.schema.types import Field, Primitive, Struct

COLUMNS = Struct([Field("id", Primitive("long")), Field("t", Primitive("string"))])
OPTIONS = {"t": {"type": "text"}}
TEXTS = st.none() | st.lists(st.sampled_from(["a", "b", "c"]), max_size=70).map(" ".join)


def length(words):
    return int(LENGTHS[np.searchsorted(LENGTHS, len(words), side="right") - 1])


def by_formula(rows, wanted):
    texts = {each["id"]: (each["t"] or "").split() for each in rows}
    average = sum(map(length, texts.values())) / len(texts)
    found = {}
    for id, words in texts.items():
        for word in wanted:
            often, having = words.count(word), sum(word in other for other in texts.values())
            if often:
                idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
                norm = 1.2 * (0.25 + 0.75 * (length(words) / average))
                found[id] = found.get(id, 0.0) + idf * 2.2 * (often / (often + norm))
    return found


def scores(table, query, limit=None):
    found = search_best(table, Search.of(table, query), limit=limit)
    return list(zip(found.rows["id"].to_pylist(), found.scores.tolist(), strict=True))


def test_any_scores_are_those_of_the_formula_and_of_one_index(monkeypatch):
    if os.access("/dev/shm", os.W_OK):  # the library waits for the disk with every commit
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")

    @settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.lists(TEXTS, min_size=3, max_size=20), st.data())
    def check(texts, data):
        rows = [{"id": number, "t": text} for number, text in enumerate(texts)]
        cut = data.draw(st.integers(1, len(rows) - 1))
        several = table_of(rows[:cut], rows[cut:], columns=COLUMNS, options=OPTIONS)
        gone = data.draw(st.sets(st.integers(0, cut - 1), max_size=cut - 1)) if cut > 1 else set()
        several = delete(several, {next(iter(several.files)): gone}) if gone else several
        left = [each for each in rows if each["id"] not in gone]
        one = table_of(left, columns=COLUMNS, options=OPTIONS)
        found = scores(several, "t:a t:b")
        assert dict(found) == dict(scores(one, "t:a t:b"))
        expected = by_formula(left, ["a", "b"])
        assert dict(found).keys() == expected.keys()
        assert all(math.isclose(score, expected[id], rel_tol=1e-12) for id, score in found)
        assert scores(several, "t:a t:b", 3) == found[:3]

    check()
