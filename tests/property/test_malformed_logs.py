"""A damaged log gives a typed error or the right table: never another exception, never fewer files, never a hang.

A good table is written, one thing is broken, and the table is opened and listed. Where it still opens, what it lists
must be what some intact reading of the same bytes lists; a commit that got lost silently would show as missing files.
"""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.reached import Reached

from halocline.errors import (
    HaloclineError,
    IncompatibleError,
    InputError,
    MalformedError,
    NotFoundError,
    UnsupportedError,
)
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.memory import MemoryStore

EXPECTED_ERRORS = (MalformedError, NotFoundError, IncompatibleError, UnsupportedError, InputError)
# No example may hang, whatever it is; all of a test's hundreds together take a few seconds.
pytestmark = pytest.mark.timeout(120)
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA = {
    "metaData": {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
    }
}
TEXTS = pa.map_(pa.string(), pa.string())
CHECKPOINT = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", TEXTS),
                ]
            ),
        ),
        ("add", pa.struct([("path", pa.string()), ("partitionValues", TEXTS), ("size", pa.int64())])),
    ]
)
FILES = {f"f{version}-{number}" for version in range(4) for number in range(3)}


def add(path: str) -> dict[str, Any]:
    stats = json.dumps({"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}})
    values = {"path": path, "partitionValues": {}, "size": 5, "modificationTime": 6, "dataChange": True, "stats": stats}
    return {"add": values}


def name(version: int, kind: str = "json") -> str:
    return f"_delta_log/{version:020d}.{kind}"


def lines(*actions: Any) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def commit(version: int) -> bytes:
    first = [
        {"commitInfo": {"timestamp": version, "operation": "WRITE"}},
        *([PROTOCOL, METADATA] if version == 0 else []),
    ]
    removed = [{"remove": {"path": f"gone{version - 1}", "dataChange": True}}] if version else []
    return lines(*first, *(add(f"f{version}-{number}") for number in range(3)), add(f"gone{version}"), *removed)


def checkpoint(version: int) -> bytes:
    metadata = METADATA["metaData"] | {"configuration": [], "format": {"provider": "parquet", "options": []}}
    rows: list[dict[str, Any]] = [PROTOCOL, {"metaData": metadata}]
    for path in [*(f"f{v}-{n}" for v in range(version + 1) for n in range(3)), f"gone{version}"]:
        rows.append({"add": {"path": path, "partitionValues": [], "size": 5}})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT), sink)
    return bytes(sink.getvalue())


GOOD = {name(version): commit(version) for version in range(4)}
WITH_CHECKPOINT = {
    **{name(version): GOOD[name(version)] for version in (2, 3)},
    name(2, "checkpoint.parquet"): checkpoint(2),
    "_delta_log/_last_checkpoint": b'{"version":2,"size":12}',
}


reached = Reached()


def opened(files: dict[str, bytes]) -> tuple[Snapshot | None, set[str]]:
    """What a table lists; no snapshot and nothing where it is refused."""
    snapshot, paths = _opened(files)
    reached("refused" if snapshot is None else "opened")
    return snapshot, paths


def _opened(files: dict[str, bytes]) -> tuple[Snapshot | None, set[str]]:
    store = MemoryStore()
    for path, data in files.items():
        store.put(path, data)
    try:
        snapshot = Snapshot.load(store)
        paths = set(snapshot.files()["path"].to_pylist())
        snapshot.files("id = 5 AND id IS NOT NULL", columns=["size"])
        snapshot.tombstones()
        _ = snapshot.txns, snapshot.domains, snapshot.timestamp_ms
        history(snapshot)
    except EXPECTED_ERRORS:
        return None, set()
    return snapshot, paths


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    """Thousands of broken checkpoints are thousands of warnings."""
    logger = logging.getLogger("halocline")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def test_the_intact_tables_list_their_files():
    for files in (GOOD, WITH_CHECKPOINT):
        snapshot, paths = opened(files)
        assert snapshot is not None
        assert paths == FILES | {"gone3"}


thorough = settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def cut_commits() -> st.SearchStrategy[tuple[str, int, bytes]]:
    """A commit, where to cut it, and what follows; often at the end of a line, which may be its last but one sign."""
    ends = {path: [at + 1 for at, sign in enumerate(data) if sign == ord("\n")] for path, data in GOOD.items()}
    length = {path: st.integers(0, len(GOOD[path])) for path in GOOD}
    near = {path: st.builds(int.__add__, st.sampled_from(ends[path]), st.integers(-1, 1)) for path in GOOD}
    return st.sampled_from(sorted(GOOD)).flatmap(
        lambda path: st.tuples(st.just(path), length[path] | near[path], st.just(b"") | st.binary(max_size=8))
    )


def actions_in(commit: bytes) -> list[dict[str, Any]]:
    """Return the values of a commit; the newline between two of them may be what was cut off."""
    text, values, at = commit.decode(), [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = json.JSONDecoder().raw_decode(text, at)
        values.append(value)
    return values


@reached.at_least(opened=50, refused=50, compared=10)
@thorough
@given(cut_commits())
@example(("_delta_log/00000000000000000000.json", 370, b"{}"))
def test_a_commit_cut_short_never_loses_files_unnoticed(cut):
    """A cut within a line is noticed. One exactly between two lines cannot be: it is a shorter, valid commit."""
    path, length, tail = cut
    data = GOOD[path][:length]
    snapshot, paths = opened({**GOOD, path: data + tail})
    if snapshot is not None and not data.endswith(b"\n") and data + tail not in (GOOD[path], GOOD[path][:-1]):
        whole = actions_in(data + tail)
        reached("compared")
        assert whole, "an empty commit was taken as a commit"
        listed = {line["add"]["path"] for line in whole if "add" in line}
        assert listed <= paths | {f"gone{n}" for n in range(4)}


@reached.at_least(opened=50, refused=50)
@thorough
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_is_an_error_or_still_every_file(path, position, byte):
    data = bytearray(GOOD[path])
    data[position % len(data)] = byte
    snapshot, paths = opened({**GOOD, path: bytes(data)})
    if snapshot is not None:
        # One byte may rename one file, or turn one action into an unknown one; it cannot touch two.
        assert len(FILES - paths) <= 1


WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["../x", "/", "", "%", "%FF", "a%00b", "x:/y", "s3://", "file:"]),
)
ACTIONS: list[dict[str, Any]] = [
    add("new"),
    {"remove": {"path": "f0-0", "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True, "size": 1}},
    PROTOCOL,
    METADATA,
    {"txn": {"appId": "a", "version": 1, "lastUpdated": 2}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 1, "operation": "WRITE"}},
    {"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}},
    {"sidecar": {"path": "s", "sizeInBytes": 1, "modificationTime": 1}},
    {"checkpointMetadata": {"version": 1}},
]


@reached.at_least(opened=50, refused=50)
@thorough
@given(st.data())
def test_a_field_of_the_wrong_type_is_an_error_or_harmless(data):
    action = json.loads(json.dumps(data.draw(st.sampled_from(ACTIONS))))
    (key,) = action
    field = data.draw(st.sampled_from(sorted(action[key])))
    change = data.draw(st.sampled_from(["replace", "drop", "whole", "nest"]))
    if change == "replace":
        action[key][field] = data.draw(WRONG)
    elif change == "drop":
        del action[key][field]
    elif change == "whole":
        action[key] = data.draw(WRONG)
    else:
        action[key][field] = {field: [action[key][field]]}
    snapshot, paths = opened({**GOOD, name(4): lines({"commitInfo": {}}, action)})
    if snapshot is not None:
        assert FILES - paths <= {"f0-0"}


@reached.at_least(opened=50, refused=10)
@thorough
@given(st.lists(st.sampled_from([*ACTIONS, add("f0-0"), add("new")]), min_size=1, max_size=6))
def test_actions_repeated_in_a_commit_list_no_file_twice(actions):
    snapshot, paths = opened({**GOOD, name(4): lines(*actions)})
    if snapshot is not None:
        listed = snapshot.files()["path"].to_pylist()
        assert len(listed) == len(paths)
        assert FILES - paths <= {"f0-0"}


@reached.at_least(opened=50, refused=50)
@example(path=name(2, "checkpoint.parquet"), position=2972, garbage=b"\x00")
@thorough
@given(st.sampled_from(sorted(WITH_CHECKPOINT)), st.integers(0, 5000), st.binary(min_size=1, max_size=4))
def test_a_damaged_checkpoint_is_an_error_or_still_every_file(path, position, garbage):
    data = bytearray(WITH_CHECKPOINT[path])
    position %= len(data)
    data[position : position + len(garbage)] = garbage
    snapshot, paths = opened({**WITH_CHECKPOINT, path: bytes(data)})
    if snapshot is not None:
        # Checkpoints carry no checksum of their values: a byte may rename a file, and must not take any away.
        assert len(paths) >= len(FILES)


@reached.at_least(opened=20, refused=50, compared=20)
@thorough
@given(st.sampled_from(sorted(WITH_CHECKPOINT)), st.integers(0, 6000))
def test_a_file_cut_short_beside_a_checkpoint_is_an_error_or_still_every_file(path, length):
    data = WITH_CHECKPOINT[path]
    kept = data[: length % len(data)]
    snapshot, paths = opened({**WITH_CHECKPOINT, path: kept})
    # A commit cut between two lines, with or without the line end, is a shorter commit that nothing gives away.
    between = path.endswith(".json") and (kept[-1:] == b"\n" or data[len(kept) : len(kept) + 1] == b"\n")
    if snapshot is not None and not between:
        reached("compared")
        assert paths >= FILES


@reached.at_least(opened=50, refused=50)
@thorough
@given(st.binary(max_size=200), st.sampled_from(["json", "checkpoint.parquet", "crc", "x"]))
def test_bytes_that_mean_nothing_are_an_error_or_harmless(data, kind):
    for path in (name(4, kind), "_delta_log/_last_checkpoint"):
        snapshot, paths = opened({**GOOD, path: data})
        if snapshot is not None:
            assert paths >= FILES


@reached.at_least(opened=2)
@pytest.mark.parametrize(
    "data",
    [
        b'{"x":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001,
        b'{"commitInfo":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        lines(add("a" * 5_000_000)),
        b'{"add":{"path":"a","partitionValues":{},"size":'
        + b"9" * 1_000_000
        + b',"modificationTime":1,"dataChange":true}}',
        b'{"txn":{"appId":"a","version":1e999999999}}',
        lines({"metaData": {"id": "1", "schemaString": "[" * 1_000_000}}),
        lines({"metaData": {"id": "1", "schemaString": '{"type":"struct","fields":' * 50_000}}),
        lines({"add": {**add("a")["add"], "stats": '{"minValues":' * 100_000}}),
        lines(
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["x"] * 100_000,
                    "writerFeatures": [],
                }
            }
        ),
        b"\n" * 5_000_000,
        random.Random(7).randbytes(2_000_000),
    ],
    ids=[
        "deep",
        "deep list",
        "long path",
        "long number",
        "huge exponent",
        "deep schema",
        "torn schema",
        "deep stats",
        "many features",
        "only newlines",
        "noise",
    ],
)
def test_extremes_end_soon(data):
    for path in (name(4), name(3, "checkpoint.parquet"), name(3, "crc"), "_delta_log/_last_checkpoint"):
        snapshot, paths = opened({**GOOD, path: data})
        if snapshot is not None:
            assert paths >= FILES


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_commit_is_never_passed_over(lost):
    files = {path: data for path, data in GOOD.items() if path != name(lost)}
    snapshot, paths = opened(files)
    # Losing the newest commit cannot be told from its never having been written.
    assert (snapshot is None) == (lost < 3)
    assert paths == (set() if lost < 3 else {path for path in FILES if not path.startswith("f3")} | {"gone2"})


def test_errors_are_all_of_the_one_tree():
    assert all(issubclass(error, HaloclineError) for error in EXPECTED_ERRORS)
