"""What the log tells of each version, and which version was there at a time."""

import pytest
from tests.support.index_logs import IndexLog, add, entry, metadata, protocol, remove, skip

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.index.history import history, version_at
from halocline.formats.log.names import INDEX


def info(at: int, operation: str) -> dict:
    said = {"timestamp": at, "operation": operation, "engineInfo": "Halocline/0.1.0", "operationParameters": {"a": 1}}
    return {"commitInfo": said}


def log() -> IndexLog:
    made = IndexLog().commit(0, protocol(2, 2), metadata(), info(100, "CREATE TABLE"))
    made.commit(1, add("a.split"), add("b.split"), info(200, "WRITE"))
    return made.commit(2, remove("a.split"), skip("b.split"), info(300, "MERGE"))


def test_the_newest_version_comes_first_with_all_that_is_known():
    newest, middle, first = history(log().store)
    assert (newest.version, newest.operation, newest.timestamp_ms) == (2, "MERGE", 300)
    assert (newest.added, newest.removed, newest.skipped) == (0, 1, 1)
    assert (middle.added, middle.engine, middle.parameters) == (2, "Halocline/0.1.0", {"a": 1})
    assert first.operation == "CREATE TABLE"
    assert [each.version for each in history(log().store, limit=1)] == [2]


def test_versions_of_others_are_told_by_their_files():
    made = IndexLog().commit(0, protocol(4, 4), metadata()).state(1, {"manifests/m.avro": [entry("a.split")]})
    state, commit = history(made.store)
    assert (state.version, state.operation, state.added) == (1, "", None)
    assert (commit.version, commit.added) == (0, 0)
    assert state.timestamp_ms > 0


@pytest.mark.parametrize(("at", "version"), [(100, 0), (199, 0), (200, 1), (10**15, 2)])
def test_a_time_leads_to_the_version_that_was_there(at, version):
    assert version_at(log().store, at) == version


def test_before_the_first_version_there_is_none():
    with pytest.raises(NotFoundError) as missing:
        version_at(log().store, 99)
    assert missing.value.condition == "VERSION_NOT_FOUND"


def test_a_damaged_commit_is_an_error():
    made = log()
    made.store.put(INDEX.commit_path(1), b"{")
    with pytest.raises(MalformedError):
        history(made.store)
