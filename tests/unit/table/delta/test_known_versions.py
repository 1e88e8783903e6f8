"""A table that stays open goes on from the version it knows, whatever happened to the log meanwhile."""

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from halocline.formats.delta.commit.log_cleanup import clean_log
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.local import LocalStore
from halocline.table import Table


def row(number: int) -> pa.Table:
    return pa.table({"id": [number]})


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow().read_all()["id"].to_pylist())


def cleaned_at(path: Path, days: int) -> int | None:
    """Shortens a log as if it were so many days later; the version that it begins with then."""
    newest = Snapshot.load(LocalStore(path))
    cleaned = clean_log(
        newest.store,
        newest.configuration,
        now_ms=newest.timestamp_ms + days * 86_400_000,
        retention_ms=0,
        newest=newest.version,
        supports=lambda *_: True,
    )
    return cleaned.boundary


def test_appends_to_an_open_table_list_no_folder_however_long_the_log(tmp_path, monkeypatch):
    table = Table.create(tmp_path / "t", row(0))
    table.append_arrow(row(1))
    listed: list[str] = []
    real = LocalStore.list

    def watched(self, prefix="", **options):
        listed.append(prefix)
        return real(self, prefix, **options)

    monkeypatch.setattr(LocalStore, "list", watched)
    for number in range(2, 33):
        table.append_arrow(row(number))
    assert listed == [], "an append listed a folder"
    monkeypatch.undo()
    assert ids(Table.for_path(tmp_path / "t")) == ids(table) == list(range(33))
    assert len(list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))) == 3


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_an_open_table_and_one_opened_anew_are_the_same(policy, tmp_path):
    table = Table.create(tmp_path / "t", row(0), properties={"delta.checkpointPolicy": policy})
    for number in range(1, 26):
        other = Table.for_path(tmp_path / "t")
        other.append_arrow(row(number), txn=("app", number))
        if number == 7:
            other.set_properties({"delta.appendOnly": "true"})
        ours, theirs = table.snapshot(), Table.for_path(tmp_path / "t").snapshot()
        assert ours.version == theirs.version
        assert ours.configuration == theirs.configuration
        assert (ours.txns, ours.domains) == (theirs.txns, theirs.domains)
        assert ours.files().sort_by("path") == theirs.files().sort_by("path")
        assert ours.timestamp_ms == theirs.timestamp_ms


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path):
    table = Table.create(tmp_path / "t", row(0))
    table.append_arrow(row(1))
    assert ids(table) == [0, 1]
    shutil.rmtree(tmp_path / "t")
    other = Table.create(tmp_path / "t", pa.table({"id": [7], "more": ["x"]}))
    other.append_arrow(pa.table({"id": [8], "more": ["y"]}))
    assert ids(table) == [7, 8]
    assert [field["name"] for field in table.schema["fields"]] == ["id", "more"]


def test_an_open_table_finds_the_newest_version_though_its_own_was_cleaned_away(tmp_path):
    table = Table.create(tmp_path / "t", row(0))
    table.append_arrow(row(1))
    other = Table.for_path(tmp_path / "t")
    for number in range(2, 24):
        other.append_arrow(row(number))
    assert cleaned_at(tmp_path / "t", days=10) == 20
    assert table.append_arrow(row(24)) == 24
    assert ids(table) == list(range(25))
    for number in range(25, 31):
        other.append_arrow(row(number))
    assert cleaned_at(tmp_path / "t", days=-10) is None, "a log that begins at 20 is not old yet"
    assert cleaned_at(tmp_path / "t", days=10) == 30
    assert ids(table) == ids(other) == list(range(31))


def test_a_table_that_was_found_before_another_lay_there_does_not_write_behind_its_end(tmp_path):
    for number in range(4):
        Table.create(tmp_path / "t", row(0)) if not number else Table.for_path(tmp_path / "t").append_arrow(row(number))
    found = Table.for_path(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    Table.create(tmp_path / "t", row(10))
    found.append_arrow(row(11))
    assert ids(found) == ids(Table.for_path(tmp_path / "t")) == [10, 11]


def test_the_first_verb_of_a_table_reads_the_newest_version_though_those_between_were_cleaned_away(tmp_path):
    writer = Table.create(tmp_path / "t", row(0))
    found = Table.for_path(tmp_path / "t")
    for number in range(1, 25):
        writer.append_arrow(row(number))
    assert cleaned_at(tmp_path / "t", days=2) == 20
    assert ids(found) == list(range(25))


def test_open_tables_that_append_at_once_lose_and_repeat_nothing(tmp_path):
    Table.create(tmp_path / "t", row(0))
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            table = Table.for_path(tmp_path / "t")
            for number in range(first, first + 20):
                table.append_arrow(row(number))
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(first,)) for first in (1, 21, 41)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert failed == []
    assert ids(Table.for_path(tmp_path / "t")) == list(range(61))
