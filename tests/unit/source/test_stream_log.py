"""Positions of a stream enclose the same files, whenever they are asked for, and the walk stops where it must."""

from __future__ import annotations

import random

import pytest
from tests.support import columns
from tests.support.columns import field

from halocline.errors import HaloclineError, InputError
from halocline.formats.delta.actions.action import (
    Add,
    CommitInfo,
    Metadata,
    ProtocolAction,
    Remove,
    encode_commit,
)
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.source.options import SourceOptions
from halocline.source.stream_log import OPERATION, Position, StreamLog
from halocline.storage import open_store


def metadata(*fields, **properties):
    text = dump(columns.schema(*fields or ("id",)))
    return Metadata("t", schema_string=text, configuration=properties)


class Log:
    """A table of files that do not exist; walking needs only the log."""

    def __init__(self, path) -> None:
        self.path = str(path)
        self.store = open_store(self.path)
        self.version = -1
        self.commit(ProtocolAction(1, 2), metadata())

    def commit(self, *actions) -> None:
        self.version += 1
        self.store.put_if_absent(DELTA.commit_path(self.version), encode_commit([CommitInfo({}), *actions]))

    def add(self, *names, data_change=True) -> None:
        self.commit(*(Add(name, {}, 10, self.version, data_change) for name in names))

    def remove(self, name, *added) -> None:
        self.commit(Remove(name, 1, True), *(Add(each, {}, 10, 1, True) for each in added))

    def stream(self, **options) -> StreamLog:
        asked = SourceOptions.read({"path": self.path, **{key.lower(): value for key, value in options.items()}})
        return StreamLog(asked.snapshot(OPERATION), asked)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def names(files):
    return [file.path for file in files]


def steps(stream, start, last, most_files=None, most_bytes=None):
    """The names of each micro-batch until nothing is left."""
    found = []
    while (end := stream.advanced(start, last, most_files, most_bytes)) != start:
        found.append(names(stream.files(start, end)))
        start = end
    return found


def test_versions_are_walked_in_order_and_limits_cut_inside_of_them(log):
    log.add("a", "b", "c")
    log.add("d")
    log.add("e", "f", data_change=False)
    log.add("g")
    stream = log.stream()
    start = stream.at_version(0)
    assert steps(stream, start, log.version) == [["a", "b", "c", "d", "g"]]
    assert steps(stream, start, log.version, most_files=2) == [["a", "b"], ["c", "d"], ["g"]]
    assert steps(stream, start, log.version, most_bytes=25) == [["a", "b"], ["c", "d"], ["g"]]
    assert steps(stream, start, log.version, most_bytes=1) == [["a"], ["b"], ["c"], ["d"], ["g"]]
    assert steps(stream, start, 1) == [["a", "b", "c"]]


def test_a_stream_that_starts_with_what_is_there_delivers_live_files_once(log):
    log.add("a", "b")
    log.remove("a", "c")
    stream = log.stream()
    start = stream.at_snapshot()
    assert (start.version, start.index, start.is_starting) == (2, -1, True)
    log.add("d")
    batches = steps(stream, start, log.version, most_files=1)
    assert sorted(name for batch in batches for name in batch) == ["b", "c", "d"]


def test_any_cuts_into_batches_enclose_every_file_exactly_once_also_after_restarts(log):
    rng = random.Random(3)
    expected = []
    for number in range(40):
        added = [f"{number}-{each}" for each in range(rng.randrange(4))]
        expected += added
        log.add(*added)
    for seed in range(25):
        rng = random.Random(seed)
        start, found = log.stream().at_version(0), []
        while True:
            stream = log.stream()  # as after a restart: nothing is remembered but the position
            end = stream.advanced(start, rng.randrange(start.version, log.version + 1), rng.randrange(1, 6), None)
            end = Position.parse(end.to_dict())
            assert names(stream.files(start, end)) == names(log.stream().files(start, end))
            found += names(stream.files(start, end))
            start = end
            if start.version > log.version:
                break
        assert found == expected, f"seed {seed}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "STREAM_ROWS_REMOVED"),
        ({"ignoreDeletes": "true"}, "STREAM_ROWS_REMOVED"),
        ({"ignoreChanges": "true"}, [["b", "c"]]),
        ({"skipChangeCommits": "true"}, [["c"]]),
    ],
    ids=str,
)
def test_rewritten_files_are_an_error_or_as_the_options_say(log, options, expected):
    log.add("a")
    log.remove("a", "b")
    log.add("c")
    stream = log.stream(**options)
    start = stream.at_version(2)
    if isinstance(expected, str):
        with pytest.raises(HaloclineError) as caught:
            stream.advanced(start, log.version, None, None)
        assert caught.value.condition == expected
        assert caught.value.next_step
    else:
        assert steps(stream, start, log.version) == expected


def test_what_comes_before_an_error_is_delivered_first(log):
    log.add("a")
    log.remove("a")
    stream = log.stream()
    here = stream.advanced(stream.at_version(1), log.version, None, None)
    assert (here.version, here.index) == (2, -1)
    with pytest.raises(HaloclineError, match="ignoreDeletes"):
        stream.advanced(here, log.version, None, None)
    assert steps(log.stream(ignoreDeletes="true"), stream.at_version(1), log.version) == [["a"]]


CHANGES = {
    "a new column": (metadata(field("id", "long"), field("b", "long")), True),
    "a dropped column": (metadata(field("other", "long")), True),
    "another type": (metadata(field("id", "string")), True),
    "another property": (metadata(**{"delta.appendOnly": "true"}), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_columns_that_change_under_a_stream_stop_it_and_properties_do_not(log, change):
    new, stops = CHANGES[change]
    stream = log.stream()
    log.commit(new, Add("a", {}, 10, 1, True))
    if not stops:
        assert steps(stream, stream.at_version(0), log.version) == [["a"]]
        return
    with pytest.raises(HaloclineError) as caught:
        stream.advanced(stream.at_version(1), log.version, None, None)
    assert caught.value.condition == "STREAM_SCHEMA_CHANGED"


def test_a_restart_reads_older_columns_that_still_fit(log):
    log.add("a")
    log.commit(metadata(field("id", "long"), field("b", "long")), Add("b", {}, 10, 1, True))
    stream = log.stream()
    assert steps(stream, stream.at_version(0), log.version) == [["a", "b"]]


@pytest.mark.parametrize("kind", ["a file", "what is there"])
@pytest.mark.parametrize("change", ["a dropped column", "another type", "another partition"])
def test_a_restart_refuses_files_of_columns_that_do_not_fit_those_of_now(log, change, kind):
    """The columns of the version where the stream goes on are told by no commit that it walks."""
    log.add("a")
    log.add("b")
    before = Position(2, -1, kind == "what is there", "t")
    by_id = Metadata("t", schema_string=metadata().schema_string, partition_columns=("id",))
    log.commit({**CHANGES, "another partition": (by_id, True)}[change][0], Remove("a", 1, True))
    with pytest.raises(HaloclineError) as caught:
        log.stream(ignoreDeletes="true").advanced(before, log.version, None, None)
    assert caught.value.condition == "STREAM_SCHEMA_CHANGED"
    assert "new checkpoint" in str(caught.value)
    with pytest.raises(HaloclineError):
        log.stream(ignoreDeletes="true").files(before, Position(3, -1, False, "t"))


def test_a_restart_where_the_log_begins_goes_on_while_nothing_changes_the_columns(log):
    for name in "abc":
        log.add(name)
    stream = log.stream()
    log.store.delete(DELTA.commit_path(0))
    assert steps(stream, stream.at_version(1), log.version) == [["a", "b", "c"]]


def test_every_version_passes_the_gate(log):
    log.add("a")
    stream = log.stream()
    log.commit(ProtocolAction(3, 7, ("glow",), ("glow",)))
    here = stream.advanced(stream.at_version(0), log.version, None, None)
    assert here.version == 2
    with pytest.raises(HaloclineError) as caught:
        stream.advanced(here, log.version, None, None)
    assert caught.value.condition == "READER_TOO_OLD"


def test_positions_that_do_not_belong_here_are_refused(log):
    stream = log.stream()
    with pytest.raises(InputError, match="checkpoint holds no position"):
        Position.parse({"offset": 3})
    with pytest.raises(InputError) as caught:
        stream.advanced(Position(0, -1, False, "another"), 0, None, None)
    assert caught.value.condition == "STREAM_TABLE_REPLACED"
    with pytest.raises(HaloclineError) as caught:
        stream.at_version(5)
    assert caught.value.condition == "VERSION_NOT_FOUND"


@pytest.mark.parametrize("versions", [1, 2, 4])
def test_a_table_that_is_replaced_under_a_running_stream_stops_it(log, versions):
    log.add("a")
    stream = log.stream()
    assert stream.newest() == 1
    for meta in list(log.store.list()):
        log.store.delete(meta.path)
    other = Metadata("another", schema_string=dump(columns.schema("id")))
    log.store.put_if_absent(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), other]))
    for log.version in range(versions - 1):
        log.add("b")
    with pytest.raises(InputError) as caught:
        stream.newest()
    assert caught.value.condition == "STREAM_TABLE_REPLACED"
    assert "another" in str(caught.value)


def test_a_log_that_is_brought_back_from_a_backup_goes_on(log):
    log.add("a")
    stream = log.stream()
    assert stream.newest() == 1
    path = DELTA.commit_path(1)
    kept = log.store.get(path)
    log.store.delete(path)
    log.store.put_if_absent(path, kept)
    log.add("b")
    assert stream.newest() == 2


def test_a_gap_in_the_log_is_named_rather_than_skipped(log):
    log.add("a")
    log.add("b")
    stream = log.stream()
    log.store.delete(DELTA.commit_path(1))
    with pytest.raises(HaloclineError) as caught:
        stream.advanced(stream.at_version(1), log.version, None, None)
    assert caught.value.condition == "VERSION_NOT_FOUND"
