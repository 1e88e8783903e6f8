"""Keys of a source against the bounds of files."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from halocline.formats.delta.configuration.schema import Schema
from halocline.table.delta.merge.keys import SourceKeys

COLUMN = Schema.parse('{"type": "struct", "fields": [{"name": "id", "type": "long"}]}').find("id")
LEAST, MOST = -(2**63), 2**63 - 1


def files(*bounds, rows=10, gone=0):
    """A file list of files with these bounds; None for one without statistics."""
    texts = [
        each and json.dumps({"numRecords": rows, "minValues": {"id": each[0]}, "maxValues": {"id": each[1]}})
        for each in bounds
    ]
    vectors = [{"cardinality": gone}] * len(bounds)
    return pa.table({"path": [str(each) for each in bounds], "stats": texts, "deletion_vector": vectors})


def keys(*values):
    return SourceKeys.of("id", pa.chunked_array([pa.array(values, pa.int64())]))


def within(found, *bounds, **more):
    chosen, is_sure = found.within(files(*bounds, **more), COLUMN)
    return chosen["path"].to_pylist(), is_sure


def test_files_between_whose_bounds_no_key_lies_are_left_out():
    found, _ = within(keys(5, 25, 40), (0, 4), (5, 9), (10, 24), (20, 30), (41, 99), (LEAST, 5), (40, MOST))
    assert found == [str(each) for each in [(5, 9), (20, 30), (LEAST, 5), (40, MOST)]]


def test_files_whose_bounds_are_unknown_are_kept_and_make_nothing_sure():
    assert within(keys(5), None, (0, 9)) == (["None", "(0, 9)"], False)
    assert within(keys(5), (20, 29), None) == (["None"], False)


def test_a_file_that_has_every_number_between_its_bounds_is_sure_of_a_single_key():
    assert within(keys(5, 15), (0, 9), (10, 19)) == (["(0, 9)", "(10, 19)"], True)


@pytest.mark.parametrize(("count", "is_sure"), [(2, False), (20, True)])
def test_a_file_that_has_half_of_the_numbers_is_sure_of_many_keys_only(count, is_sure):
    assert within(keys(*range(count)), (0, 19), rows=10)[1] is is_sure


def test_numbers_far_apart_are_never_sure():
    assert within(keys(*range(1000)), (LEAST, MOST), rows=1_000_000)[1] is False


def test_deleted_rows_are_no_matches():
    assert within(keys(5), (0, 9), gone=5)[1] is False


def test_the_same_key_twice_is_told_and_counts_once():
    twice = keys(3, 3)
    assert (twice.is_unique, twice.values.tolist()) == (False, [3])
    assert keys(3, None, None, 4).is_unique, "null matches nothing"


def test_a_list_of_very_many_files_is_left_as_it_is():
    chosen, is_sure = keys(5).within(files(*[(20, 29)] * 10_001), COLUMN)
    assert (len(chosen), is_sure) == (10_001, False)
