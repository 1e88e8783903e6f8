"""What is counted from outside, after a release has changed a table."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.compat.cases import spark_cases, trino_cases
from tests.compat.measure import _checkpointed_rows, _live_rows

CASES = {each.name: each for each in trino_cases()}
REWRITTEN = {
    "add": {"path": "new.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
}


@pytest.fixture
def vectors(tmp_path):
    """A table with three rows in a file, one of them deleted by a vector, and a file with the two that are left."""
    CASES["vector in a file, (3,7)"].build(tmp_path)
    pq.write_table(pa.table({"id": [1, 3]}), tmp_path / "new.parquet")
    return tmp_path


def commit(folder, *actions):
    (folder / "_delta_log" / f"{1:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))


def vector_of(folder):
    lines = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    return next(json.loads(line)["add"]["deletionVector"] for line in lines if '"add"' in line)


def test_a_file_is_gone_only_if_its_vector_is_named(vectors):
    case = CASES["vector in a file, (3,7)"]
    assert _live_rows(vectors, case) == 2
    removed = {"path": "part-0.parquet", "dataChange": True}
    commit(vectors, {"remove": removed}, REWRITTEN)
    assert _live_rows(vectors, case) == 4, "others go on reading the file under its vector"
    commit(vectors, {"remove": removed | {"deletionVector": vector_of(vectors)}}, REWRITTEN)
    assert _live_rows(vectors, case) == 2


def test_rows_of_a_checkpoint_are_those_that_its_vectors_leave(vectors):
    assert _checkpointed_rows(vectors) is None
    adds = [{"path": "part-0.parquet", "deletionVector": {"cardinality": 1}}, {"path": "new.parquet"}]
    pq.write_table(pa.table({"add": adds}), vectors / "_delta_log" / f"{1:020}.checkpoint.parquet")
    assert _checkpointed_rows(vectors) == 4


def test_trino_is_tried_on_what_spark_is_tried_on_and_asked_for_checkpoints(tmp_path):
    assert {each.name for each in spark_cases()} < set(CASES)
    CASES["(1,2) unused"].build(tmp_path)
    assert '"delta.checkpointInterval": "1"' in (tmp_path / "_delta_log" / f"{0:020}.json").read_text()
