"""A micro-batch that is done again brings what it brought before, wherever the table is by then."""

from __future__ import annotations

import json

import pytest
from tests.support.streamed_tables import (
    Death,
    DeltaStreams,
    DiedError,
    HudiStreams,
    HudiStreamsOfLayout1,
    IndexStreams,
    StreamedQuery,
    opened,
)

from halocline.errors import InputError
from halocline.source.stream_offsets import position_of
from halocline.storage import open_store

BEFORE, WHILE_RUNNING, AFTERWARDS = ("a", "b", "c"), ("d", "e", "f", "g"), ("h", "i")


def versioned(table):
    """Options by which a stream of numbered versions begins, and what it delivers of what is there."""
    time, came = "2001-01-01", "abc"
    if isinstance(table, DeltaStreams):  # its commits do not say when they were made; those of index tables do
        for version in range(4):
            path = table.layout.commit_path(version)
            assert table.store.set_modified(path, 1_700_000_000_000 + version * 60_000)
        time, came = "2023-11-14 22:15:30", "c"
    return {
        "nothing": ({}, "abc"),
        "a version": ({"startingVersion": "2"}, "bc"),
        "the next version": ({"startingVersion": "4"}, ""),
        "a time": ({"startingTimestamp": time}, came),
        "latest": ({"startingVersion": "latest"}, ""),
    }


def timed(table, second):
    """The same for a table of instants, with what came after its second one."""
    return {
        "nothing": ({}, "abc"),
        "an instant": ({"beginInstant": second}, "c"),
        "latest": ({"beginInstant": "latest"}, ""),
    }


def begun(kind, path):
    """A table with what was there before, and its options."""
    table, times = kind(path), []
    for name in BEFORE:
        table.add(name)
        times.append(table.time() if isinstance(table, HudiStreams) else "")
    return table, timed(table, times[1]) if isinstance(table, HudiStreams) else versioned(table)


VERSIONED = ["nothing", "a version", "the next version", "a time", "latest"]
TIMED = ["nothing", "an instant", "latest"]
STARTS = [
    *((kind, start) for kind in (DeltaStreams, IndexStreams) for start in VERSIONED),
    *((kind, start) for kind in (HudiStreams, HudiStreamsOfLayout1) for start in TIMED),
]
SPARKS = pytest.mark.parametrize("says_start", [True, False], ids=["Spark 4.2", "Spark 4.0"])


def adding(table, names):
    """Adds one of the names at each call, and says whether there was one left."""
    left = iter(names)

    def add():
        name = next(left, None)
        if name is not None:
            table.add(name)
        return name is not None

    return add


@SPARKS
@pytest.mark.parametrize("death", [Death.BEFORE, Death.DURING, Death.AFTER])
@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize(("kind", "start"), STARTS)
def test_each_row_comes_once_whenever_the_query_dies_and_the_table_moves_on(
    tmp_path, kind, start, batch, death, says_start
):
    table, starts = begun(kind, tmp_path)
    options, there = starts[start]
    query = StreamedQuery(lambda: opened(table, **options), table.names, says_start)
    with pytest.raises(DiedError):
        query.run(adding(table, WHILE_RUNNING), (batch, death))
    planned = [json.loads(each) for each in query.offsets]
    for name in AFTERWARDS:
        table.add(name)
    query.run(lambda: False)
    assert [json.loads(each) for each in query.offsets][: len(planned)] == planned
    came = [*WHILE_RUNNING[: batch + 1], *AFTERWARDS]
    if start == "latest" and not planned:  # nothing was planned, so the query begins when it is started again
        came = []
    assert query.delivered == sorted([*there, *came])


@pytest.mark.parametrize("death", [Death.DURING, Death.AFTER])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_limited_first_batch_is_done_again_as_it_was(tmp_path, batch, death):
    table, _ = begun(DeltaStreams, tmp_path)
    query = StreamedQuery(lambda: opened(table, maxFilesPerTrigger="1"), table.names, says_start=True)
    with pytest.raises(DiedError):
        query.run(lambda: False, (batch, death))
    for name in AFTERWARDS:
        table.add(name)
    query.run(lambda: False)
    assert query.delivered == [*BEFORE, *AFTERWARDS]
    assert {len(names) for names in query.target.values()} <= {0, 1}


@SPARKS
@pytest.mark.parametrize("kind", [DeltaStreams, IndexStreams, HudiStreams, HudiStreamsOfLayout1])
def test_a_restart_with_nothing_new_delivers_nothing(tmp_path, kind, says_start):
    table, _ = begun(kind, tmp_path)
    query = StreamedQuery(lambda: opened(table), table.names, says_start)
    for _ in range(3):
        query.run(lambda: False)
    assert query.delivered == list(BEFORE)
    if says_start:
        assert len(query.offsets) == 1


def planned_by_an_older_release(kind, path, start):
    """A query whose first batch is planned, but not done, and whose end does not say where it began."""
    table, starts = begun(kind, path)
    options, there = starts[start]
    query = StreamedQuery(lambda: opened(table, **options), table.names, says_start=True)
    with pytest.raises(DiedError):
        query.run(lambda: False, (0, Death.DURING))
    query.offsets = [json.dumps(position_of(json.loads(each))) for each in query.offsets]
    for name in AFTERWARDS:
        table.add(name)
    return query, sorted([*there, *AFTERWARDS])


@pytest.mark.parametrize(("kind", "start"), [each for each in STARTS if each[1] != "latest"])
def test_a_first_batch_that_an_older_release_planned_is_done_where_its_options_tell_how(tmp_path, kind, start):
    query, expected = planned_by_an_older_release(kind, tmp_path, start)
    query.run(lambda: False)
    assert query.delivered == expected


@pytest.mark.parametrize("kind", [DeltaStreams, IndexStreams, HudiStreams])
def test_a_first_batch_from_latest_that_an_older_release_planned_is_refused(tmp_path, kind):
    query, _ = planned_by_an_older_release(kind, tmp_path, "latest")
    with pytest.raises(InputError, match="not known any more") as caught:
        query.run(lambda: False)
    assert caught.value.condition == "STREAM_START_UNKNOWN"
    assert query.target == {}


def test_a_first_batch_of_the_rows_that_are_there_is_the_same_after_they_were_rewritten(tmp_path):
    table, _ = begun(DeltaStreams, tmp_path)
    query = StreamedQuery(lambda: opened(table), table.names, says_start=True)
    with pytest.raises(DiedError):
        query.run(lambda: False, (0, Death.DURING))
    table.rewrite("a", "z")  # the same rows in another file
    query.run(lambda: False)
    assert query.delivered == list(BEFORE)


def test_another_table_at_the_same_place_is_not_taken_for_the_one_that_the_first_batch_is_of(tmp_path):
    table, _ = begun(IndexStreams, tmp_path / "t")
    query = StreamedQuery(lambda: opened(table), table.names, says_start=True)
    with pytest.raises(DiedError):
        query.run(lambda: False, (0, Death.DURING))
    store = open_store(str(tmp_path / "t"))
    store.delete_many([meta.path for meta in store.list()])
    begun(IndexStreams, tmp_path / "t")
    with pytest.raises(InputError) as caught:
        query.run(lambda: False)
    assert caught.value.condition == "STREAM_TABLE_REPLACED"
