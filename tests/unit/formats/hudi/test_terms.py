"""What kind of Hudi table it is decides who reads it right, and the table tells its kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.hudi_tables import HudiTableMaker

from halocline.compat.breaks import Client, breaks
from halocline.compat.product import Evidence
from halocline.compat.release import Release
from halocline.compat.verdict import can
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import ChangeLogging, KeyGeneratorType, MergeMode, TableType
from halocline.formats.hudi.maintain.compaction import compact, schedule_compaction
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import encode, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.formats.log.gate import own_release
from halocline.storage.memory import MemoryStore

MODELS = "org.apache.hudi.common.model."


def table(version: int, type: TableType = TableType.MERGE_ON_READ, **options) -> HudiTableMaker:
    made = HudiTableMaker.create(MemoryStore(), version, type, **options)
    made.upsert(range(4), 100, "a")
    return made


def changed(made: HudiTableMaker, without: tuple[str, ...] = (), **pairs: str) -> HudiTableMaker:
    found = {key: value for key, value in properties(made.store).items() if key not in without}
    made.store.put(".hoodie/hoodie.properties", encode(found | pairs, datetime.now(UTC)))
    return made


def answers(made: HudiTableMaker, *releases: str) -> list[str]:
    return [str(can(release, terms_of(made.store)).answer) for release in releases]


@pytest.mark.parametrize(("version", "answer"), [(6, "wrong"), (8, "ok"), (9, "ok")])
def test_a_pending_compaction_is_wrong_for_hudi_rs_up_to_version_7(version, answer):
    made = table(version)
    made.upsert([1, 2], 200, "b")
    assert answers(made, "hudi-rs@0.5.0") == ["ok"]
    schedule_compaction(made.store)
    assert answers(made, "hudi-rs@0.5.0", "hudi@1.2.0") == [answer, "ok"]
    assert HudiSnapshot.load(made.store).terms == terms_of(made.store)
    compact(made.store)
    assert answers(made, "hudi-rs@0.5.0") == ["ok"]


def test_a_move_that_completes_the_compaction_mends_the_reader():
    made = table(6)
    made.upsert([1, 2], 200, "b")
    schedule_compaction(made.store)
    planned = plan_move(made.store, 8)
    reader = Client(Release.parse("hudi-rs@0.5.0"))
    assert breaks(planned.before, planned.after, [reader]) == ()
    assert can(reader.release, planned.before).wrong
    assert can(reader.release, planned.after).ok


@pytest.mark.parametrize("version", [6, 8])
def test_the_ordering_key_of_1_2_is_wrong_for_releases_that_do_not_know_it(version):
    old = ["hudi@0.15.0", "hudi@1.0.2"] if version == 6 else ["hudi@1.0.2"]
    made = changed(table(version), (keys.PRECOMBINE_FIELD,), **{keys.ORDERING_FIELDS: "ts"})
    assert answers(made, *old, "hudi@1.1.1", "hudi@1.2.0", "hudi-rs@0.5.0") == ["wrong"] * len(old) + ["ok"] * 3
    copied = changed(table(version, TableType.COPY_ON_WRITE), (keys.PRECOMBINE_FIELD,), **{keys.ORDERING_FIELDS: "ts"})
    assert answers(copied, *old) == ["ok"] * len(old), "base files hold what is true"


@pytest.mark.parametrize(
    ("payload", "rust"),
    [
        ("OverwriteWithLatestAvroPayload", "wrong"),
        ("OverwriteNonDefaultsWithLatestAvroPayload", "refused"),
    ],
)
def test_payload_classes_of_0_x_that_1_x_reads_by_another_rule(payload, rust):
    made = changed(table(6, merge_mode=MergeMode.COMMIT_TIME_ORDERING), **{keys.PAYLOAD_CLASS: MODELS + payload})
    assert answers(made, "hudi@0.15.0", "hudi@1.0.2", "hudi@1.2.0", "hudi-rs@0.5.0") == ["ok", "wrong", "wrong", rust]


def test_payload_classes_that_hudi_rs_does_not_have():
    partial = changed(table(6), **{keys.PAYLOAD_CLASS: f"{MODELS}PartialUpdateAvroPayload"})
    assert answers(partial, "hudi@0.15.0", "hudi@1.2.0", "hudi-rs@0.5.0") == ["ok", "ok", "refused"]
    own = changed(table(6), **{keys.PAYLOAD_CLASS: "com.example.Own"})
    assert answers(own, "hudi-rs@0.5.0") == ["refused"]


def test_a_table_without_partitions_that_1_2_made_is_empty_for_hudi_rs_before_0_5():
    pairs = {keys.KEY_GENERATOR_TYPE: "NON_PARTITION"}
    made = table(6, TableType.COPY_ON_WRITE, partition_fields=[])
    assert answers(made, "hudi-rs@0.4.0") == ["ok"], "as we make it"
    changed(made, (keys.KEY_GENERATOR_CLASS,), **pairs)
    assert answers(made, "hudi-rs@0.2.0", "hudi-rs@0.3.0", "hudi-rs@0.4.0", "hudi-rs@0.5.0") == [
        *("ok", "wrong", "wrong", "ok")
    ]


def test_paths_made_of_times_stand_in_for_values_before_1_0():
    settings = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    by = {"partition_fields": ["ts"], "key_generator": KeyGeneratorType.TIMESTAMP, "key_settings": settings}
    made = table(6, TableType.COPY_ON_WRITE, **by)
    assert answers(made, "hudi@0.15.0", "hudi@1.0.2", "hudi-rs@0.5.0") == ["wrong", "ok", "ok"]


@pytest.mark.parametrize("type", TableType)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_range_of_a_table_without_meta_columns_is_wrong_for_hudi_rs(version, type):
    terms = terms_of(table(version, type, meta_columns=False).store)
    assert "virtualKeys" in (terms.in_use or ())
    assert can("hudi-rs@0.5.0", terms, "read.snapshot").ok
    found = can("hudi-rs@0.5.0", terms, "read.incremental")
    assert found.wrong
    assert found.evidence is Evidence.MEASURED
    assert found.blockers == {"virtualKeys"}
    for operation in ("read", "write"):
        assert can("hudi@1.2.0", terms, operation).ok
        if version < 9:
            assert can("hudi@1.0.2", terms, operation).ok is (type is TableType.COPY_ON_WRITE)
    assert can(own_release(), terms, "write").ok
    with_columns = terms_of(table(version, type).store)
    assert breaks(with_columns, terms, [Client(Release.parse("hudi-rs@0.5.0"))])[0].verdict.wrong, "so a fleet refuses"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_writers_need_to_know_bucket_indexes_and_change_logs_and_readers_do_not(version):
    made = table(version, buckets=3, change_logging=ChangeLogging.DATA_BEFORE)
    terms = terms_of(made.store)
    asked = {"bucketIndex", "changeDataCapture"}
    assert asked <= terms.requires("write")
    assert asked.isdisjoint(terms.requires("read"))
    newest = "hudi@1.2.0"
    assert can(newest, terms).ok
    assert can(newest, terms, "write").ok
    assert can(own_release(), terms, "write").ok
    assert can("hudi-rs@0.5.0", terms).ok
    assert can("hudi-rs@0.5.0", terms, "write").refused, "it writes no table"


def test_a_table_that_cannot_be_read_still_says_what_it_asks_for():
    store = MemoryStore()
    pairs = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "10"}
    store.put(".hoodie/hoodie.properties", encode(pairs, datetime.now(UTC)))
    store.put(".hoodie/timeline/20250101000000001.compaction.requested", b"")
    assert "mergeOnRead:pendingCompaction" in (terms_of(store).in_use or ())
