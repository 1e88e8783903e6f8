"""The filter of terms: no term of a split is ever missing from it, however many there are."""

import pytest
from tests.support.splits import fields

from halocline.formats.index.split.analyzers import ANALYZERS, words
from halocline.formats.index.split.presence import TermDigests, TermFilter, digest
from halocline.formats.index.split.writer import term_digests

TEXTS = ["Time-out", "a_b", "", "größer ÉTÉ", "İstanbul ﬀ", "two\nlines", "\u2028x\u0085y", "日本 語", "x" * 300, "ran"]


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_every_word_of_every_text_is_in_the_filter(analyzer):
    (field,) = [
        each for each in fields({"message": {"type": "text", "tokenizer": analyzer}}) if each.column == "message"
    ]
    made = TermFilter.of(term_digests(field, [*TEXTS, None]))
    for text in TEXTS:
        for word in words(analyzer, text):
            assert made.may_have(field.name, word), (text, word)
    assert not made.may_have(field.name, "zebra")


def test_strings_numbers_and_hashed_ones_are_told_apart():
    known = {each.column: each for each in fields()}
    assert term_digests(known["level"], ["a", None, "a"]) == digest(known["level"].name, "a")
    assert sorted(term_digests(known["tags"], [["x"], None, ["x", "y"]])) == sorted(
        digest(known["tags"].name, "x") + digest(known["tags"].name, "y")
    )
    assert term_digests(known["trace"], [1]) == term_digests(known["id"], [1]) == b""


def test_digests_that_go_to_files_make_the_same_filter():
    some = [digest("f1", str(number)) for number in range(300_000)]
    aside = TermDigests()
    for start in range(0, len(some), 10_000):
        aside.add(b"".join(some[start : start + 10_000]))
        aside.add(b"".join(some[:5_000]))
    assert aside._files, "so many do not fit into memory"
    plain = TermDigests()
    plain._waiting += b"".join(some)
    made = aside.made()
    assert made.to_bytes() == plain.made().to_bytes()
    assert all(made.may_have("f1", str(number)) for number in range(0, 300_000, 997))
