"""The feature records: complete, consistent, and loaded only when needed."""

import subprocess
import sys

import pytest

from halocline.compat.features import FORMATS, Feature, FeatureKind, feature, features, find_feature, rules
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.verdict import can
from halocline.errors import NotFoundError
from halocline.versions import Version

EVERY = [record for format in FORMATS for record in features(format).values()]

RW, W = FeatureKind.READER_WRITER, FeatureKind.WRITER

DELTA = {
    "appendOnly": (W, (0, 2), set(), True, None),
    "invariants": (W, (0, 2), set(), True, None),
    "checkConstraints": (W, (0, 3), set(), True, ("3.3.0", False)),
    "changeDataFeed": (W, (0, 4), set(), True, None),
    "generatedColumns": (W, (0, 4), set(), True, None),
    "columnMapping": (RW, (2, 5), set(), True, ("3.3.0", True)),
    "identityColumns": (W, (0, 6), set(), True, None),
    "deletionVectors": (RW, None, set(), True, ("4.0.0", True)),
    "timestampNtz": (RW, None, set(), False, None),
    "v2Checkpoint": (RW, None, set(), True, ("3.1.0", True)),
    "domainMetadata": (W, None, set(), None, ("4.1.0", False)),
    "rowTracking": (W, None, {"domainMetadata"}, True, ("4.1.0", False)),
    "clustering": (W, None, {"domainMetadata"}, None, None),
    "allowColumnDefaults": (W, None, set(), None, None),
    "icebergCompatV1": (W, None, {"columnMapping"}, True, None),
    "icebergCompatV2": (W, None, {"columnMapping"}, True, None),
    "icebergCompatV3": (W, None, {"columnMapping", "rowTracking"}, True, None),
    "typeWidening-preview": (RW, None, set(), None, ("3.2.0", True)),
    "typeWidening": (RW, None, set(), True, ("3.3.0", True)),
    "variantType-preview": (RW, None, set(), None, None),
    "variantType": (RW, None, set(), True, None),
    "variantShredding-preview": (RW, None, set(), None, None),
    "variantShredding": (RW, None, {"variantType"}, True, None),
    "inCommitTimestamp-preview": (W, None, set(), None, ("3.2.0", False)),
    "inCommitTimestamp": (W, None, set(), True, ("3.3.0", False)),
    "vacuumProtocolCheck": (RW, None, set(), None, ("3.3.0", True)),
    "checkpointProtection": (W, None, set(), None, ("3.3.0", False)),
    "materializePartitionColumns": (W, None, set(), True, ("4.1.0", False)),
    "coordinatedCommits-preview": (W, None, {"inCommitTimestamp", "vacuumProtocolCheck"}, True, ("3.3.0", False)),
    "catalogOwned-preview": (RW, None, {"inCommitTimestamp", "vacuumProtocolCheck"}, None, None),
    "catalogManaged": (RW, None, {"inCommitTimestamp", "vacuumProtocolCheck"}, None, None),
    "geospatial-dev": (RW, None, set(), None, ("4.3.0", True)),
    "geospatial": (RW, None, set(), True, ("4.3.0", True)),
    "redirectReaderWriter-preview": (RW, None, set(), True, None),
    "redirectWriterOnly-preview": (W, None, set(), True, None),
    "adaptiveMetadata-preview": (
        RW,
        None,
        {"catalogManaged", "rowTracking", "domainMetadata", "deletionVectors", "columnMapping"},
        None,
        None,
    ),
    "icebergWriterCompatV1": (W, None, {"icebergCompatV2"}, True, None),
    "icebergWriterCompatV3": (W, None, {"icebergCompatV3"}, True, None),
    "collations-preview": (W, None, set(), None, None),
    "collations": (W, None, set(), True, None),
}
"""Kind, legacy versions, requirements, whether an existing table gains it silently (None: nothing adds it), drop."""

FAILS_OTHERS = {
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "identityColumns",
    "clustering",
    "allowColumnDefaults",
    "variantType-preview",
    "variantType",
    "variantShredding-preview",
    "variantShredding",
    "checkpointProtection",
    "materializePartitionColumns",
    "coordinatedCommits-preview",
    "geospatial-dev",
    "geospatial",
    "redirectReaderWriter-preview",
    "redirectWriterOnly-preview",
    "adaptiveMetadata-preview",
}


def test_every_delta_feature_has_a_record():
    assert features("delta").keys() == DELTA.keys()


@pytest.mark.parametrize("name", DELTA)
def test_each_delta_record_says_what_the_format_says(name):
    record = features("delta")[name]
    silently = record.upgrades_existing if record.added_by_metadata else None
    drop = None if record.drop is None else (str(record.drop.since), record.drop.barrier)
    assert (record.kind, record.legacy, set(record.requires), silently, drop) == DELTA[name]
    assert record.fails_others is (name in FAILS_OTHERS)


def test_iceberg_versions_exclude_each_other_and_deletion_vectors_as_each_says():
    first, second, third = (feature("delta", f"icebergCompatV{number}") for number in (1, 2, 3))
    assert first.excludes_supported == {"deletionVectors"}
    assert first.excludes_enabled == {"icebergCompatV2", "icebergCompatV3"}
    assert second.excludes_enabled == {"deletionVectors", "icebergCompatV1", "icebergCompatV3"}
    assert third.excludes_enabled == {"icebergCompatV1", "icebergCompatV2"}
    assert feature("delta", "catalogManaged").requires_enabled == {"inCommitTimestamp"}


def test_previews_know_their_stable_feature_and_the_other_way_round():
    pairs = {record.name: record.preview_of for record in features("delta").values() if record.preview_of}
    assert pairs == {
        "typeWidening-preview": "typeWidening",
        "variantType-preview": "variantType",
        "variantShredding-preview": "variantShredding",
        "inCommitTimestamp-preview": "inCommitTimestamp",
        "catalogOwned-preview": "catalogManaged",
        "geospatial-dev": "geospatial",
        "collations-preview": "collations",
    }
    assert all(name in feature("delta", stable).previews for name, stable in pairs.items())


# ---------------------------------------------------------------- every format


@pytest.mark.parametrize("record", EVERY, ids=lambda record: f"{record.format}-{record.name}")
def test_each_record_stands_on_its_own(record):
    known = features(record.format)
    mentioned = record.requires | record.requires_enabled | record.excludes_supported | record.excludes_enabled
    assert mentioned <= known.keys()
    assert record.preview_of is None or record.preview_of in known
    assert record.summary.endswith("."), "a record says what the feature means"
    assert record.known
    assert not record.added_by_metadata or record.enabled_by
    assert not record.upgrades_existing or record.added_by_metadata or record.name.startswith("variant")
    assert record.requires_enabled <= {
        *record.requires,
        *(each for name in record.requires for each in known[name].requires),
    }
    if record.drop is not None:
        assert Version.parse(record.drop.since).known
        assert all(step.name for step in record.drop.steps)
        at_drop = [step.at_drop for step in record.drop.steps]
        assert at_drop == sorted(at_drop), "what comes before the drop stands before what belongs to it"


SWITCHED_OFF = [
    record for record in EVERY if record.drop and {step.name for step in record.drop.steps} & {"set", "unset"}
]


@pytest.mark.parametrize("record", SWITCHED_OFF, ids=lambda record: record.name)
def test_what_a_drop_undoes_is_what_switches_the_feature_on(record):
    keys = {each.key for each in record.enabled_by if each.key}
    undone = {text.partition("=")[0] for step in record.drop.steps for text in step.detail}
    assert keys <= undone


@pytest.mark.parametrize("format", ["hudi", "index"])
def test_each_rung_adds_features_that_its_number_implies_and_the_one_below_does_not(format):
    levels = rules(format).levels
    assert tuple(level.number for level in levels) == rules(format).readers
    for level in levels:
        for name in level.adds:
            assert max(feature(format, name).legacy) == level.number
    added = {name for level in levels for name in level.adds}
    implied = {record.name for record in features(format).values() if record.legacy}
    implied -= {f"table version {number}" for number in range(11)}
    assert implied == added


def test_hudi_rungs_are_features_of_their_own():
    assert [name for name in features("hudi") if name.startswith("table version")] == [
        f"table version {number}" for number in range(11)
    ]
    assert Protocol.hudi(8).features > Protocol.hudi(6).features
    assert "completionTime" in Protocol.hudi(8).features - Protocol.hudi(7).features
    assert Protocol.hudi(7).features - Protocol.hudi(6).features == {"table version 7"}


def test_index_features_are_those_that_shipped_and_those_of_our_own_splits():
    assert features("index").keys() == {
        "checkpoint",
        "optimizeWrite",
        "skippedFiles",
        "extendedMetadata",
        "footerOffsets",
        "multiPartCheckpoint",
        "schemaDeduplication",
        "avroState",
        "parquetSplit",
        "tantivyFst7",
        "deletionMasks",
    }


@pytest.mark.parametrize("release", ["0.3.0", "0.4.0", "0.4.5", "0.5.4", "0.5.5"])
@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("name", ["tantivyFst7", "deletionMasks"])
def test_every_release_of_indextables4spark_refuses_our_splits_and_masks(release, operation, name):
    protocol = Protocol.of("index", [name])
    assert (protocol.reader, protocol.writer) == (5, 5)
    assert can(f"indextables4spark@{release}", protocol, operation).refused


# ---------------------------------------------------------------- looking one up


def test_an_unknown_name_is_a_value():
    assert feature("delta", "shiny") == Feature("delta", "shiny")
    assert not feature("delta", "shiny").known
    assert feature("delta", "shiny").minimum == (1, 7)


def test_an_alias_leads_to_its_record():
    assert feature("delta", "timestampWithoutTimezone") is feature("delta", "timestampNtz")


@pytest.mark.parametrize("name", ["deletionVectors", "DELETIONVECTORS", "deletionvectors"])
def test_people_write_names_in_any_case(name):
    assert find_feature("delta", name).name == "deletionVectors"
    assert feature("delta", name.lower()).known is False, "on disk, case matters"


def test_a_name_that_people_got_wrong_is_an_error_with_near_ones():
    with pytest.raises(NotFoundError) as caught:
        find_feature("delta", "rowTraking")
    assert caught.value.condition == "FEATURE_UNKNOWN"
    assert "rowTracking" in caught.value.sides["known"]


def test_a_format_that_does_not_exist_is_an_error():
    with pytest.raises(NotFoundError, match="iceberg"):
        features("iceberg")


def test_records_cannot_be_changed():
    with pytest.raises(TypeError):
        features("delta")["appendOnly"] = feature("delta", "shiny")
    with pytest.raises(AttributeError):
        feature("delta", "appendOnly").kind = FeatureKind.UNKNOWN


def test_importing_reads_no_record():
    program = (
        "import sys, halocline.compat.evolution\n"
        "from halocline.compat import features\n"
        "print(features._book.cache_info().currsize, 'tomllib' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["0", "False"]


def test_a_mode_may_take_several_conditions():
    pairs = {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.precombine.field": "ts",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    }
    mode = feature("hudi", "mergeOnRead").modes["overwriteWithLatest"]
    assert mode.holds(TableMetadata(pairs))
    assert not mode.holds(TableMetadata(pairs | {"hoodie.table.keygenerator.type": "SIMPLE"})), "made by 1.x"
    assert not mode.holds(TableMetadata(pairs | {"hoodie.table.precombine.field": ""}))
    assert str(mode).endswith("and no hoodie.record.merge.strategy.id")
