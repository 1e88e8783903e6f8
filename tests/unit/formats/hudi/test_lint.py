"""What releases of Apache Hudi leave behind in properties is found, and repaired where that is safe."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.errors import ConflictError
from halocline.formats.hudi.configuration import MergeMode, TableType
from halocline.formats.hudi.lint import HURTS, fix, lint
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.slices import data_files
from halocline.storage.memory import MemoryStore


def repaired(made) -> tuple[str, ...]:
    return fix(made.store, lambda *_: "").codes


def table(version: int = 8, type: TableType = TableType.MERGE_ON_READ, **options) -> HudiTableMaker:
    made = HudiTableMaker.create(MemoryStore(), version, type, **options)
    made.upsert(range(3), 100, "a")
    return made


def changed(made: HudiTableMaker, without: tuple[str, ...] = (), **pairs: str) -> None:
    found = {key: value for key, value in properties(made.store).items() if key not in without}
    made.store.put(".hoodie/hoodie.properties", encode(found | pairs, datetime.now(UTC)))


def codes(made: HudiTableMaker) -> list[str]:
    return [each.code for each in lint(made.store).findings]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_of_ours_has_nothing_wrong(version):
    assert codes(table(version)) == []


def test_the_ordering_key_of_a_later_version_is_put_right_for_older_readers():
    made = table(8)
    changed(made, ("hoodie.table.precombine.field",), **{"hoodie.table.ordering.fields": "ts"})
    assert codes(made) == ["NEW_ORDERING_KEY"]
    assert repaired(made) == ("NEW_ORDERING_KEY",)
    assert codes(made) == []
    assert properties(made.store)["hoodie.table.precombine.field"] == "ts"


def test_what_cannot_be_repaired_says_what_to_do():
    made = table(6, merge_mode=MergeMode.COMMIT_TIME_ORDERING)
    (finding,) = lint(made.store).findings
    assert (finding.code, finding.safe) == ("OLD_PAYLOAD_CLASS", False)
    assert "halocline.hudi.mergeRules" in finding.by_hand
    changed(made, **{"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"})
    assert "COMPLEX_ONE_KEY" in codes(made)
    made.begin()
    assert "PENDING_WRITES" in codes(made)
    made.store.put(".hoodie/hoodie.properties.backup", b"")
    assert "BACKUP_LEFT" in codes(made)
    assert repaired(made) == ()


def test_a_metadata_table_that_is_not_there_and_a_checksum_that_is_not_there_are_repaired():
    made = table(9)
    changed(made, ("hoodie.table.checksum",), **{"hoodie.table.metadata.partitions": "files"})
    assert codes(made) == ["CHECKSUM_MISSING", "METADATA_TABLE_MISSING"]
    assert repaired(made) == ("CHECKSUM_MISSING", "METADATA_TABLE_MISSING")
    assert codes(made) == []


def test_properties_that_another_writer_replaces_are_left_alone():
    made = table(9)
    changed(made, ("hoodie.table.checksum",))
    made.store.put(".hoodie/hoodie.properties.backup", made.store.get(".hoodie/hoodie.properties"))
    made.store.put(".hoodie/hoodie.properties", b"#half")
    with pytest.raises(ConflictError, match="being replaced"):
        repaired(made)


def test_every_code_says_whom_it_hurts():
    assert all(HURTS.values())


@pytest.mark.parametrize("version", [6, 8, 9])
def test_files_of_attempts_that_came_too_late_are_named_and_cleaned_away(version):
    made = table(version, TableType.COPY_ON_WRITE)
    before = shown(made.snapshot.read())
    (file, *_) = data_files(made.store)
    task, stage, attempt = file.token.split("-")
    other_group = file.path.replace(file.file_id, "other-0")
    for path in (file.path, other_group):
        late = path.replace(file.token, f"{task}-{stage}-{int(attempt) + 9}")
        made.store.put(late, made.store.get(file.path))
    assert shown(made.snapshot.read()) == before
    (finding,) = lint(made.store).findings
    assert (finding.code, finding.by_hand) == ("LATE_FILES", "clean()")
    assert "2 files" in finding.what
    archived = (made.upsert([9 + each], 200, "b") for each in range(4))
    times = [*archived]
    assert archive(made.store, keep=1, at_most=2)
    assert len(shown(made.snapshot.read())) == len(before) + len(times), "nor do they count once the commit is archived"
    clean(made.store)
    assert codes(made) == []
    assert len(shown(made.snapshot.read())) == len(before) + len(times)
