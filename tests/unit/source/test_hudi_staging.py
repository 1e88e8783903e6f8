"""Rows that tasks of the data source put aside for the buckets of a Hudi table, and the commit that places them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.hudi_tables import COLUMNS, HudiTableMaker, rows, shown
from tests.support.late_answers import LateAnswers

from halocline.errors import ConflictError, ConstraintError, NotFoundError, UnavailableError
from halocline.formats.hudi.buckets import BucketIndex, bucket_of
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.write.stream_batch import StreamBatch
from halocline.schema.arrow import struct_of_arrow
from halocline.source.hudi_writer import HudiWriter
from halocline.source.options import SourceOptions
from halocline.storage import open_store

KINDS = [(6, TableType.MERGE_ON_READ), (9, TableType.COPY_ON_WRITE)]


def made(path: Path, version: int, type: TableType) -> HudiTableMaker:
    return HudiTableMaker.create(open_store(path), version, type, buckets=2)


def begun(path: Path) -> HudiWriter:
    return HudiWriter.open(SourceOptions.read({"path": str(path)}), struct_of_arrow(COLUMNS), overwrite=False)


def written(writer: HudiWriter, *tasks) -> list:
    """What tasks with these rows tell."""
    return [writer.write(iter(each.to_batches())) for each in tasks]


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_rows_of_all_tasks_are_merged_in_the_group_of_their_bucket(tmp_path, version, type):
    maker = made(tmp_path, version, type)
    first = begun(tmp_path)
    first.commit(written(first, rows(range(6), 100, "a"), rows(range(4, 10), 200, "b")))
    expected = {f"k{each}": (100, f"a{each}") for each in range(4)} | {
        f"k{each}": (200, f"b{each}") for each in range(4, 10)
    }
    assert {key: (ts, name) for key, ts, name in shown(maker.snapshot.read())} == expected
    groups = [(each.partition, each.file_id) for each in maker.snapshot.slices]
    second = begun(tmp_path)
    second.commit(written(second, rows([1, 20], 300, "c"), rows([1], 250, "late")))
    expected |= {"k1": (300, "c1"), "k20": (300, "c20")}
    assert {key: (ts, name) for key, ts, name in shown(maker.snapshot.read())} == expected
    assert [(each.partition, each.file_id) for each in maker.snapshot.slices] == groups, "one file group per bucket"
    for each in maker.snapshot.slices:
        for batch in maker.snapshot.reader(["id"]).read(maker.store, each):
            assert set(BucketIndex(2).of(batch["id"]).tolist()) == {bucket_of(each.file_id)}
    assert list(maker.store.list(".hoodie/.aux")) == [], "nothing is left aside"


def test_what_a_failed_write_put_aside_goes_with_it(tmp_path):
    maker = made(tmp_path, *KINDS[1])
    writer = begun(tmp_path)
    told = written(writer, rows(range(4), 100, "a"))
    assert len(list(maker.store.list(".hoodie/.aux"))) == 1
    writer.abort([*told, None])
    assert list(maker.store.list(".hoodie/.aux")) == []
    assert [(each.action, each.state.value) for each in maker.snapshot.timeline.instants] == [("rollback", "completed")]
    assert shown(maker.snapshot.read()) == []
    with pytest.raises(ConstraintError, match="no record key"):
        written(begun(tmp_path), rows([1], 100, "a").set_column(0, "id", [[""]]))


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_rows_stay_if_nobody_knows_whether_they_were_committed(tmp_path, monkeypatch, version, type):
    maker = made(tmp_path, version, type)
    writer = begun(tmp_path)
    told = written(writer, rows(range(4), 100, "a"))
    late = LateAnswers(monkeypatch, lambda path: path.endswith(("commit", "COMMIT")))
    with pytest.raises(UnavailableError):
        writer.commit(told)
    writer.abort(told)  # as Spark does when a commit raises
    late.arrive()
    assert len(shown(maker.snapshot.read())) == 4


def test_a_write_that_has_been_completed_does_not_fail_for_what_it_leaves_aside(tmp_path, monkeypatch):
    maker = made(tmp_path, *KINDS[1])
    writer = begun(tmp_path)
    told = written(writer, rows(range(4), 100, "a"))

    def failing(*_):
        raise NotFoundError("somebody was faster")

    monkeypatch.setattr("halocline.source.hudi_writer.forget_aside", failing)
    writer.commit(told)
    assert len(shown(maker.snapshot.read())) == 4


def test_a_write_that_began_later_and_was_faster_in_a_bucket_is_not_put_behind(tmp_path):
    maker = made(tmp_path, *KINDS[1])
    slow = begun(tmp_path)
    told = written(slow, rows([0], 100, "slow"))
    fast = begun(tmp_path)
    fast.commit(written(fast, rows([0], 200, "fast")))
    with pytest.raises(ConflictError, match="has changed file group"):
        slow.commit(told)
    slow.abort(told)
    assert shown(maker.snapshot.read()) == [("k0", 200, "fast0")]


def test_a_batch_of_a_stream_that_the_table_has_is_not_added_again(tmp_path):
    maker = made(tmp_path, *KINDS[0])
    for tag in ("a", "b"):
        writer = begun(tmp_path)
        writer.sink.commit(writer.begun, written(writer, rows([0], 100, tag)), StreamBatch("query", 7))
    assert shown(maker.snapshot.read()) == [("k0", 100, "a0")]
    assert maker.snapshot.timeline.pending == frozenset()
