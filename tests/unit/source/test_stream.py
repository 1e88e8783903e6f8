"""Streams into a Delta table, without Spark: a stream with a name needs no checkpoint that can be read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.late_answers import LateAnswers

from halocline.errors import UnavailableError
from halocline.formats.log.names import DELTA
from halocline.schema.types import Field, Primitive, Struct
from halocline.source.delta import DeltaWriter
from halocline.source.options import SourceOptions
from halocline.source.stream import DeltaStreamWriter
from halocline.storage import open_store
from halocline.table import Table

COLUMNS = Struct([Field("id", Primitive("long"))])


def opened(path) -> DeltaStreamWriter:
    asked = SourceOptions.read({"path": str(path), "txnAppId": "clicks-1"})
    return DeltaStreamWriter.open(asked, COLUMNS, overwrite=False)


def written(writer: DeltaStreamWriter, *ids: int):
    return writer.write(iter([pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})]))


def test_a_stream_that_has_a_name_and_no_checkpoint_option_adds_each_batch_once(tmp_path):
    for batch, ids in ((0, [1, 2]), (0, [1, 2]), (1, [3])):
        writer = opened(tmp_path)
        writer.commit([written(writer, *ids)], batch)
    assert sorted(Table.for_path(tmp_path).to_arrow().read_all()["id"].to_pylist()) == [1, 2, 3]


def test_a_named_stream_that_was_killed_before_its_first_commit_is_started_again(tmp_path):
    open_store(tmp_path).put("left.parquet", b"half a file")
    writer = opened(tmp_path)
    writer.commit([written(writer, 1)], 0)
    assert Table.for_path(tmp_path).to_arrow().read_all()["id"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_files_stay_if_nobody_knows_whether_they_were_committed(kind, tmp_path, monkeypatch):
    Table.create(tmp_path, pa.table({"id": [1]}))
    asked = SourceOptions.read({"path": str(tmp_path), "txnAppId": "clicks-1", "txnVersion": "0"})
    writer = opened(tmp_path) if kind == "stream" else DeltaWriter(asked, COLUMNS, overwrite=False)
    number = [0] if kind == "stream" else []
    told = [written(writer, 2)]
    late = LateAnswers(monkeypatch, lambda path: path.startswith(DELTA.folder))
    with pytest.raises(UnavailableError, match="may still take effect"):
        writer.commit(told, *number)
    writer.abort(told, *number)  # as Spark does when a commit raises
    late.arrive()
    assert sorted(Table.for_path(tmp_path).to_arrow().read_all()["id"].to_pylist()) == [1, 2]
