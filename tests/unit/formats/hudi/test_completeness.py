"""Tables that have lost something: refused with the file or the instant named, never read as smaller ones."""

from __future__ import annotations

from itertools import count

import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker, rows, shown

from halocline.errors import HaloclineError, MalformedError, NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.lint import lint
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import CleaningPolicy, clean
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.timeline import timeline_files
from halocline.formats.hudi.write.rollback import roll_back
from halocline.storage.memory import MemoryStore

NAMES = count()
COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


def made(version: int = 8, type: TableType = MOR) -> HudiTableMaker:
    """Four keys in two partitions, two of them changed by a second write."""
    maker = HudiTableMaker.create(MemoryStore(f"lossy {next(NAMES)}"), version, type)
    maker.upsert(range(4), 100, "a")
    maker.upsert([0, 1], 200, "b")
    return maker


def forget(maker: HudiTableMaker, time: str, *states: str) -> None:
    """Takes the files of an instant in these states out of the timeline; all of them if none is named."""
    for each in timeline_files(maker.store, maker.config):
        if each.time == time and (not states or each.state in states):
            maker.store.delete(each.path)


def keys(maker: HudiTableMaker) -> list[str]:
    return sorted(str(row["id"]) for batch in maker.snapshot.read(["id"]) for row in batch.to_pylist())


def newest_files(maker: HudiTableMaker) -> list[str]:
    return [each.path for slice in maker.snapshot.slices for each in (slice.base, *slice.logs) if each]


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_lost_file_of_a_completed_write_is_named(version, type):
    for number in range(len(newest_files(made(version, type)))):
        maker = made(version, type)
        path = newest_files(maker)[number]
        maker.store.delete(path)
        with pytest.raises(NotFoundError, match="is not there") as caught:
            list(maker.snapshot.read())
        assert caught.value.condition == "DATA_FILES_MISSING"
        assert path in caught.value.message, "the older version of the group is not taken for it"
        assert [each.code for each in lint(maker.store).findings] == ["FILES_LOST"]


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_files_that_cleaning_removed_are_not_missed_and_older_instants_are_refused(version, type):
    maker = made(version, type)
    first = maker.snapshot.timeline.writes[0].time
    for number in range(3):
        maker.upsert(range(4), 300 + number, "c")
    if type is COW:
        clean(maker.store, policy=CleaningPolicy.VERSIONS, keep=1)
        with pytest.raises(NotFoundError):
            list(HudiSnapshot.load(maker.store, as_of=first).read())
    assert len(shown(maker.snapshot.read())) == 4
    assert not lint(maker.store).findings


@pytest.mark.parametrize("version", [6, 9])
def test_files_whose_writes_were_archived_are_missed_by_lint(version):
    maker = made(version, COW)
    kept = next(each.base.path for each in maker.snapshot.slices)
    for number in range(6):
        maker.upsert([10 + 2 * number], 300, "c")
    archive(maker.store, keep=2)
    assert not lint(maker.store).findings
    maker.store.delete(kept)
    (found,) = lint(maker.store).findings
    assert found.code == "FILES_LOST"
    assert kept in found.what


@pytest.mark.parametrize("version", [6, 8])
def test_base_files_that_changed_places_are_refused_by_their_sizes(version):
    maker = HudiTableMaker.create(MemoryStore(f"swapped {next(NAMES)}"), version, COW)
    maker.upsert(range(5), 100, "a" * 50)
    one, other = (each.base.path for each in maker.snapshot.slices)
    first, second = maker.store.get(one), maker.store.get(other)
    assert len(first) != len(second)
    maker.store.put(one, second)
    maker.store.put(other, first)
    with pytest.raises(MalformedError, match="another file was put in its place") as caught:
        list(maker.snapshot.read())
    assert caught.value.sides["file"] == f"{len(second)} bytes"


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_an_instant_of_which_no_trace_is_left_is_noticed_by_what_it_wrote(version, type):
    maker = made(version, type)
    last = maker.snapshot.timeline.writes[-1].time
    forget(maker, last)
    with pytest.raises(MalformedError, match="no trace") as caught:
        list(maker.snapshot.read())
    assert last in caught.value.message
    for each in timeline_files(maker.store, maker.config):
        maker.store.delete(each.path)
    with pytest.raises(MalformedError, match="no trace"):
        list(maker.snapshot.read())


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_an_instant_that_a_later_write_is_based_on_is_missed(version, type):
    maker = made(version, type)
    maker.upsert([0, 1], 300, "c")
    earlier = maker.snapshot.timeline.writes[0 if type is MOR else 1].time
    forget(maker, earlier, "completed")
    with pytest.raises(MalformedError, match=f"based on {earlier}, which is not completed"):
        list(maker.snapshot.read())


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_what_was_taken_back_does_not_count_even_if_a_late_task_leaves_a_file(version, type):
    maker = made(version, type)
    before = shown(maker.snapshot.read())
    write = maker.begin()
    stats = maker.write(write, rows([2], 300, "c"), [])
    left = {each.path: maker.store.get(each.path) for each in stats}
    roll_back(maker.store, maker.config, write.instant)
    for path, data in left.items():
        maker.store.put(path, data)
    assert shown(maker.snapshot.read()) == before


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_write_whose_completed_file_is_gone_cannot_be_told_from_one_that_died(version, type):
    """The limit: byte for byte the same table. Lint names it, and a reader shows the rows without it."""
    maker, died = made(version, type), made(version, type)
    maker.upsert([2], 300, "c")
    forget(maker, maker.snapshot.timeline.writes[-1].time, "completed")
    write = died.begin()
    died.write(write, rows([2], 300, "c"), [])
    assert shown(maker.snapshot.read()) == shown(died.snapshot.read())
    findings = [[each.code for each in lint(each.store).findings] for each in (maker, died)]
    assert findings == [["PENDING_WRITES"], ["PENDING_WRITES"]]


@pytest.mark.parametrize("version", [6, 8])
def test_no_changed_bit_of_a_log_file_makes_a_table_smaller(version):
    """The limit: values of columns that are neither keys nor Hudi's own; there is no checksum over them."""
    maker = made(version)
    path = next(each.logs[0].path for each in maker.snapshot.slices if each.logs)
    data, whole = maker.store.get(path), keys(maker)
    silent = []
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        maker.store.put(path, bytes(changed))
        try:
            found = keys(maker)
        except HaloclineError:
            continue
        if found != whole:
            silent.append((at, bytes(data[max(0, at - 20) : at + 10]), found))
    assert not silent, f"{len(silent)} of {len(data)}"
