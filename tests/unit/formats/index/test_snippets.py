"""Snippets: which words of a text are marked, and which part of a long one is shown."""

import json

import pytest
from tests.support.splits import COLUMNS

from halocline.formats.index.query.bind import SearchedColumns, bind
from halocline.formats.index.query.parse import parse
from halocline.formats.index.relevance.snippets import Highlighter
from halocline.formats.index.search import Search
from halocline.formats.index.split.fields import OPTIONS_KEY


def highlighter(query, column="message", tokenizer="text"):
    options = {OPTIONS_KEY: json.dumps({"message": {"type": "text", "tokenizer": tokenizer}})}
    return Highlighter(Search(query, bind(parse(query), SearchedColumns.of(COLUMNS, options))), column)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("timeout", "Timeout: a TIMEOUT, not timeouts", "[Timeout]: a [TIMEOUT], not timeouts"),
        ("message:time*", "Timeout of times_up", "[Timeout] of [times]_up"),
        ("message:timout~1", "timeout or tim", "[timeout] or tim"),
        ("message:itmeout~1", "timeout", "[timeout]"),
        ('"reset by peer"', "reset, by the peer", "[reset], [by] the [peer]"),
        ('message:"reset by pe"*', "reset by peers", "[reset] [by] [peers]"),
        ("message:time-out", "Time-out now", "[Time]-[out] now"),
        ("reset AND NOT peer", "reset by peer", "[reset] by peer"),
        ("level:reset", "reset", "reset"),
        ("message:größer", "Größer als GRÖSSER", "[Größer] als GRÖSSER"),
    ],
)
def test_the_words_that_a_query_finds_are_marked(query, text, expected):
    assert highlighter(query).snippet(text).marked("[", "]") == expected


def test_stemmed_words_and_words_between_blanks_are_marked_as_their_analyzer_sees_them():
    assert (
        highlighter("message:running", tokenizer="en_stem").snippet("he runs, ran").marked("[", "]") == "he [runs], ran"
    )
    assert highlighter("message:a-b", tokenizer="whitespace").snippet("a-b A-b").marked("[", "]") == "[a-b] A-b"


@pytest.mark.parametrize(
    ("query", "marked"), [("level:ERROR", True), ("level:ER*", True), ("level:ERRO~1", True), ("level:ERR", False)]
)
def test_whole_strings_are_marked_whole(query, marked):
    assert highlighter(query, "level").marks("ERROR") == ([(0, 5)] if marked else [])


def test_the_part_with_the_most_different_words_is_shown_and_the_cuts_are_told():
    text = "reset " * 30 + "and then " * 20 + "the peer did reset the line" + " and so on" * 30
    found = highlighter("reset peer").snippet(text, most=60)
    assert "peer" in found.text
    assert {found.text[start:end] for start, end in found.marks} == {"reset", "peer"}
    assert len(found.text) <= 60
    assert (found.cut_before, found.cut_after) == (True, True)
    assert found.marked("", "") == f"…{found.text}…"


def test_a_text_without_a_word_is_shown_from_its_beginning():
    found = highlighter("zebra").snippet("a b c " * 100, most=10)
    assert (found.text, found.marks, found.cut_before, found.cut_after) == ("a b c a b ", (), False, True)
