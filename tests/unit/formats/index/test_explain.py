"""What an explanation says of each part of a query: who answers it, and why not the index alone."""

import pytest
from tests.support.index_tables import table_of
from tests.support.splits import row

from halocline.formats.index.explain import explained
from halocline.formats.index.search import Search


@pytest.fixture(scope="module")
def table():
    return table_of([row(number) for number in range(5)], [row(number) for number in range(50, 55)])


@pytest.mark.parametrize(
    ("query", "by", "because"),
    [
        ("message:request", "index", ""),
        ('message:"request 3"', "index", ""),
        ('message:"request to"~2', "index", "order of words is looked up in the rows found"),
        ("message:re?uest", "index", ""),
        ("message:requst~1", "index", ""),
        ("trace:trace-00000003", "index", "hashed"),
        ("level:[A TO F]", "rows", "no ranges"),
        ("latency:*", "rows", "NaN"),
        ("*", "log", ""),
    ],
)
def test_who_answers_a_part_and_why(table, query, by, because):
    (part,) = explained(table, Search.of(table, query), None, "").parts
    assert part.by == by
    assert because in part.because if because else not part.because


def test_splits_that_cannot_have_a_row_are_counted(table):
    told = explained(table, Search.of(table, "id:<10 AND message:request"), None, "")
    assert (told.splits, told.left_by_query, told.asked) == (2, 1, 1)
    assert "1 of 2 splits are asked" in str(told)
