"""A table is merged by the rule that it stores, in the reading of the release that made it."""

import pytest

from halocline.errors import UnsupportedError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.merge.rules import DeleteMarker, Dialect, Filling, MergeRule, Ordering, merge_rule

EVENT, COMMIT = Ordering.EVENT_TIME, Ordering.COMMIT_TIME
MODEL = "org.apache.hudi.common.model."


def rule(version: int, dialect: Dialect | None = None, **pairs: str) -> MergeRule:
    whole = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": str(version)}
    named = {f"hoodie.{key.replace('_', '.')}": value for key, value in pairs.items()}
    return merge_rule(HudiTableConfig.parse(whole | named, "t"), dialect)


@pytest.mark.parametrize(
    ("payload", "in_logs", "with_base", "filling"),
    [
        ("OverwriteWithLatestAvroPayload", EVENT, COMMIT, (Filling.NONE, Filling.NONE)),
        ("DefaultHoodieRecordPayload", EVENT, EVENT, (Filling.NONE, Filling.NONE)),
        ("EventTimeAvroPayload", EVENT, EVENT, (Filling.NONE, Filling.NONE)),
        ("OverwriteNonDefaultsWithLatestAvroPayload", EVENT, COMMIT, (Filling.NONE, Filling.DEFAULTS)),
        ("PartialUpdateAvroPayload", EVENT, EVENT, (Filling.NULLS, Filling.NULLS)),
    ],
)
def test_version_6_of_0x_goes_by_its_payload_class(payload, in_logs, with_base, filling):
    found = rule(6, compaction_payload_class=MODEL + payload, table_precombine_field="ts")
    assert (found.dialect, found.in_logs, found.with_base) == (Dialect.BEFORE_1, in_logs, with_base)
    assert (found.filling_in_logs, found.filling_with_base) == filling
    plain = rule(6, compaction_payload_class=MODEL + payload)
    assert plain.in_logs is COMMIT, "nothing to order by"


def test_overwriting_with_the_latest_is_read_either_way():
    pairs = {"compaction_payload_class": f"{MODEL}OverwriteWithLatestAvroPayload", "table_precombine_field": "ts"}
    assert (rule(6, **pairs).in_logs, rule(6, Dialect.FROM_1, **pairs).in_logs) == (EVENT, COMMIT)
    made_by_1x = pairs | {"table_keygenerator_type": "SIMPLE"}
    assert (rule(6, **made_by_1x).in_logs, rule(6, Dialect.BEFORE_1, **made_by_1x).in_logs) == (COMMIT, EVENT)


@pytest.mark.parametrize("version", [8, 9])
def test_later_versions_go_by_their_mode(version):
    for mode, expected in (("EVENT_TIME_ORDERING", EVENT), ("COMMIT_TIME_ORDERING", COMMIT)):
        found = rule(version, record_merge_mode=mode, table_ordering_fields="ts,n")
        assert (found.in_logs, found.with_base, found.ordering_fields) == (expected, expected, ("ts", "n"))
        assert found.dialect is Dialect.FROM_1
    assert rule(version, record_merge_mode="EVENT_TIME_ORDERING").in_logs is COMMIT, "nothing to order by"


def test_without_a_mode_later_versions_order_by_what_they_have():
    assert rule(8, table_precombine_field="ts").in_logs is EVENT
    assert rule(8).in_logs is COMMIT


def test_version_9_fills_as_its_partial_update_mode_says():
    for mode, expected in (("IGNORE_DEFAULTS", Filling.DEFAULTS), ("FILL_UNAVAILABLE", Filling.UNAVAILABLE)):
        found = rule(
            9, record_merge_mode="EVENT_TIME_ORDERING", table_ordering_fields="ts", table_partial_update_mode=mode
        )
        assert (found.filling_in_logs, found.filling_with_base) == (expected, expected)


def test_a_custom_mode_with_a_class_of_hudi_goes_by_the_class():
    found = rule(
        8,
        record_merge_mode="CUSTOM",
        compaction_payload_class=f"{MODEL}PartialUpdateAvroPayload",
        table_precombine_field="ts",
    )
    assert found.filling_in_logs is Filling.NULLS


def test_classes_without_a_mode_are_read_otherwise_from_1_on():
    # Measured: Apache Hudi 0.15.0 and 1.2.0 on the same tables.
    pairs = {
        "compaction_payload_class": f"{MODEL}OverwriteNonDefaultsWithLatestAvroPayload",
        "table_precombine_field": "ts",
    }
    before, after = rule(6, **pairs), rule(6, Dialect.FROM_1, **pairs)
    assert (before.in_logs, before.filling_in_logs) == (EVENT, Filling.NONE)
    assert (after.in_logs, after.filling_in_logs) == (COMMIT, Filling.DEFAULTS)
    pairs["compaction_payload_class"] = f"{MODEL}PartialUpdateAvroPayload"
    assert [rule(6, dialect, **pairs).deletes_win for dialect in Dialect] == [False, True]


def test_a_marker_of_deletes_is_read():
    key = "record_merge_property_hoodie_payload_delete"
    found = rule(9, **{f"{key}_field": "op", f"{key}_marker": "d"})
    assert found.marker == DeleteMarker("op", "d")
    assert rule(6, compaction_payload_class=f"{MODEL}AWSDmsAvroPayload").marker == DeleteMarker("Op", "D")


@pytest.mark.parametrize(
    ("version", "pairs", "named"),
    [
        (6, {"compaction_payload_class": "com.example.MyPayload"}, "com.example.MyPayload"),
        (6, {"compaction_record_merger_strategy": "1897ef5f-18bc-4557-939c-9d6a8afd1519"}, "1897ef5f"),
        (
            8,
            {"record_merge_mode": "CUSTOM", "compaction_payload_class": "com.example.MyPayload"},
            "com.example.MyPayload",
        ),
        (8, {"record_merge_strategy_id": "1897ef5f-18bc-4557-939c-9d6a8afd1519"}, "1897ef5f"),
        (9, {"record_merge_mode": "EVENT_TIME_ORDERING", "table_partial_update_mode": "KEEP_SOME"}, "KEEP_SOME"),
    ],
)
def test_rules_in_code_of_the_owner_are_refused_by_name(version, pairs, named):
    with pytest.raises(UnsupportedError, match=named) as caught:
        rule(version, **pairs)
    assert "read_optimized" in caught.value.next_step
