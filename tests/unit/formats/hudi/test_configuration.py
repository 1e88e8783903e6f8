"""Properties of every release become one typed value, and what contradicts itself becomes none."""

import pytest

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.configuration import (
    ChangeLogging,
    HudiTableConfig,
    KeyGeneratorType,
    MergeMode,
    PartitionField,
    TableType,
)

WHOLE = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "8"}


def parsed(**more: str) -> HudiTableConfig:
    return HudiTableConfig.parse({**WHOLE, **{f"hoodie.{key}": value for key, value in more.items()}}, "lake/t")


def test_a_table_that_says_little_has_the_defaults_of_hudi():
    found = parsed()
    assert (found.type, found.version, found.layout) == (TableType.MERGE_ON_READ, 8, 2)
    assert (found.timeline_folder, found.history_folder) == (".hoodie/timeline", ".hoodie/timeline/history")
    assert (found.meta_fields, found.hive_style, found.url_encoded, found.is_partitioned) == (True, False, False, False)
    assert (found.merge_mode, found.payload_class, found.change_logging, found.watermark) == (None, None, None, None)
    assert found.base_format == "PARQUET"


def test_older_instants_of_layout_1_lie_where_the_archive_is():
    found = HudiTableConfig.parse({**WHOLE, "hoodie.table.version": "6", "hoodie.archivelog.folder": "old"}, "t")
    assert (found.timeline_folder, found.history_folder) == (".hoodie", ".hoodie/old")


@pytest.mark.parametrize(
    ("key", "expected"),
    [("table.precombine.field", ("ts",)), ("table.ordering.fields", ("ts",))],
)
def test_ordering_fields_are_read_under_either_key(key, expected):
    assert parsed(**{key: "ts"}).ordering_fields == expected
    assert parsed(**{"table.ordering.fields": "a, b", "table.precombine.field": "a"}).ordering_fields == ("a", "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGeneratorType.SIMPLE),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGeneratorType.COMPLEX),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", KeyGeneratorType.NON_PARTITION),
        ("com.example.MyGenerator", KeyGeneratorType.USER_PROVIDED),
    ],
)
def test_a_key_generator_is_read_from_its_class(text, expected):
    assert parsed(**{"table.keygenerator.class": text}).key_generator is expected


def test_a_key_generator_is_read_from_its_type():
    assert parsed(**{"table.keygenerator.type": "COMPLEX_AVRO"}).key_generator is KeyGeneratorType.COMPLEX
    assert parsed(**{"table.keygenerator.type": "SPARK_SQL_UUID"}).key_generator is KeyGeneratorType.USER_PROVIDED


def test_partition_fields_may_say_how_they_are_treated():
    found = parsed(**{"table.keygenerator.type": "CUSTOM", "table.partition.fields": "a:SIMPLE,b.c:timestamp"})
    assert found.partition_fields == (PartitionField("a", "SIMPLE"), PartitionField("b.c", "TIMESTAMP"))
    assert parsed(**{"table.keygenerator.type": "NON_PARTITION", "table.partition.fields": "a"}).partition_fields == ()


def test_merging_and_changes_are_read():
    found = parsed(
        **{
            "record.merge.mode": "commit_time_ordering",
            "compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
            "table.cdc.enabled": "true",
            "table.cdc.supplemental.logging.mode": "data_before",
        }
    )
    assert found.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert found.payload_class == "PartialUpdateAvroPayload"
    assert found.change_logging is ChangeLogging.DATA_BEFORE


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ({"hoodie.table.type": "MERGE"}, "hoodie.table.type"),
        ({"hoodie.populate.meta.fields": "perhaps"}, "hoodie.populate.meta.fields"),
        ({"hoodie.record.merge.mode": "LATEST"}, "hoodie.record.merge.mode"),
        ({"hoodie.timeline.layout.version": "1"}, "contradict each other"),
        ({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "2"}, "contradict each other"),
    ],
)
def test_values_that_cannot_be_are_malformed_and_named(pairs, named):
    with pytest.raises(MalformedError, match=named) as caught:
        HudiTableConfig.parse({**WHOLE, **pairs}, "lake/t")
    assert caught.value.sides


@pytest.mark.parametrize(
    "pairs",
    [
        {"table.storage.layout": "lsm_tree"},
        {"datasource.write.drop.partition.columns": "true"},
    ],
)
def test_kinds_of_tables_that_are_not_read_are_refused_by_name(pairs):
    with pytest.raises(UnsupportedError, match=next(iter(pairs))):
        parsed(**pairs)


def test_who_made_a_table_of_an_older_version_shows_in_its_keys():
    older = {**WHOLE, "hoodie.table.version": "6"}
    assert not HudiTableConfig.parse(older, "t").created_by_1x
    assert HudiTableConfig.parse({**older, "hoodie.table.keygenerator.type": "SIMPLE"}, "t").created_by_1x
