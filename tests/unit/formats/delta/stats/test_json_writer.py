import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from halocline.formats.delta.stats.json_writer import of

FULL = {
    "numRecords": 7,
    "tightBounds": False,
    "minValues": {
        "whole": -5,
        "float": 1.5,
        "tiny": 1e-300,
        "exact": Decimal("12345678901234567.89"),
        "text": 'q"uo\\te é',
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 23, 59, 59, 999_999),
        "deep": {"er": {"n": 1}},
    },
    "nullCount": {"whole": 0, "deep": {"er": {"n": 3}}},
}
TYPE = pa.scalar(FULL).type
SHOWN = {
    **FULL,
    "minValues": {
        **FULL["minValues"],
        "exact": 12345678901234567.89,
        "day": "2024-02-29",
        "at": "2024-02-29T23:59:59.999Z",
    },
}


def texts(*rows, type=TYPE, **more):
    return of({"path": pa.array(["f"] * len(rows)), "stats_parsed": pa.array(rows, type), **more}).to_pylist()


def test_statistics_without_nulls_become_text():
    (text,) = texts(FULL)
    assert json.loads(text) == SHOWN
    assert "12345678901234567.89" in text


def test_nulls_in_other_rows_change_nothing():
    sparse = {"numRecords": 3, "minValues": {"text": None, "deep": {"er": None}}}
    both = texts(FULL, sparse, None)
    assert both[0] == texts(FULL)[0]
    assert json.loads(both[1]) == {"numRecords": 3, "minValues": {"deep": {}}}
    assert both[2] is None


@pytest.mark.parametrize("text", ["tab\t", "line\nbreak", "\x00", "\x7f", "plain", "", '"', "\\", "\u2028"])
def test_every_character_survives(text):
    (found,) = texts({"s": text}, type=None)
    assert json.loads(found) == {"s": text}


def test_types_that_statistics_do_not_hold_are_left_out():
    row = {"numRecords": 1, "minValues": {"list": [1], "bytes": b"x"}}
    assert json.loads(texts(row, type=None)[0]) == {"numRecords": 1, "minValues": {}}


def test_an_empty_struct_is_an_empty_object():
    assert texts({}, type=pa.struct([])) == ["{}"]


def test_text_wins_where_there_is_one():
    text = pa.array(["{}", None])
    assert texts({"numRecords": 1}, {"numRecords": 2}, type=None, stats=text) == ["{}", '{"numRecords":2}']
    assert of({"path": pa.array(["f", "g"]), "stats": text}).to_pylist() == ["{}", None]
    assert of({"path": pa.array(["f"])}).to_pylist() == [None]
