"""Every pair of commits that can meet, and every check in its order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add, ground, intent, metadata, remove, vector, winner

from halocline.compat.protocol import Protocol
from halocline.errors import ConflictError, IncompatibleError
from halocline.formats.delta.actions.action import Add, DomainMetadata, Metadata, ProtocolAction, Txn
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.conflicts import rebased
from halocline.formats.delta.commit.intent import Reads
from halocline.formats.delta.configuration import row_tracking
from halocline.schema.json_edge import dump

APPEND, DELETE_READ, DELETE_DELETE = "CONCURRENT_APPEND", "CONCURRENT_DELETE_READ", "CONCURRENT_DELETE_DELETE"
METADATA, PROTOCOL = "CONCURRENT_METADATA_CHANGE", "CONCURRENT_PROTOCOL_CHANGE"

PARTITIONED = metadata(partitions=("day",))
LISTED = Protocol.delta(3, 7, ["deletionVectors"], ["appendOnly", "deletionVectors", "invariants"])
MONDAY = Reads(predicates=("day = 'mon' AND id > 3",), paths=frozenset({"mon/a"}))


def currents():
    """What we do, by name."""
    return {
        "blind append": (add("new", day="mon"),),
        "read then write": (remove("mon/a", day="mon"), add("mon/b", day="mon")),
        "compaction": (remove("mon/a", day="mon", data_change=False), add("mon/ab", day="mon", data_change=False)),
        "metadata change": (metadata(partitions=("day",), appendOnly="true"),),
        "protocol change": (ProtocolAction(1, 4),),
    }


def winners():
    """What came first, by name."""
    upgrade = action_of(Protocol.delta(1, 3))
    return {
        "blind append, same partition": winner(add("w", day="mon"), blind=True),
        "blind append, other partition": winner(add("w", day="tue"), blind=True),
        "rewrite of our file": winner(remove("mon/a", day="mon"), add("w", day="mon"), blind=False),
        "rewrite of another file": winner(remove("mon/z", day="mon"), add("w", day="mon"), blind=False),
        "rewrite in another partition": winner(remove("tue/z", day="tue"), add("w", day="tue"), blind=False),
        "compaction of our file": winner(
            remove("mon/a", day="mon", data_change=False), add("w", day="mon", data_change=False), operation="OPTIMIZE"
        ),
        "compaction elsewhere": winner(
            remove("tue/z", day="tue", data_change=False), add("w", day="tue", data_change=False), operation="OPTIMIZE"
        ),
        "metadata": winner(metadata(partitions=("day",), checkpointInterval="7"), operation="SET TBLPROPERTIES"),
        "protocol upgrade": winner(upgrade, operation="UPGRADE PROTOCOL"),
        "feature drop": winner(action_of(Protocol.delta(1, 1)), operation="DROP FEATURE"),
    }


EXPECTED = {
    "blind append": {
        "metadata": METADATA,
        "feature drop": PROTOCOL,
    },
    "read then write": {
        "blind append, same partition": APPEND,
        "rewrite of our file": APPEND,
        "rewrite of another file": APPEND,
        "compaction of our file": APPEND,
        "metadata": METADATA,
        "feature drop": PROTOCOL,
    },
    "compaction": {
        "rewrite of our file": DELETE_READ,
        "compaction of our file": DELETE_READ,
        "metadata": METADATA,
        "feature drop": PROTOCOL,
    },
    "metadata change": {
        "metadata": METADATA,
        "feature drop": PROTOCOL,
    },
    "protocol change": {
        "metadata": METADATA,
        "protocol upgrade": PROTOCOL,
        "feature drop": PROTOCOL,
    },
}


@pytest.mark.parametrize("theirs", winners())
@pytest.mark.parametrize("ours", currents())
def test_pair_of_commits_conflicts_or_goes_on_as_the_table_says(ours, theirs):
    reads = MONDAY if ours in ("read then write", "compaction") else Reads()
    protocol = Protocol.delta(1, 4) if ours == "protocol change" else None
    operation = {"compaction": "OPTIMIZE", "metadata change": "SET TBLPROPERTIES"}.get(ours, "WRITE")
    current = intent(*currents()[ours], reads=reads, table=PARTITIONED, operation=operation, protocol=protocol)
    expected = EXPECTED[ours].get(theirs)
    if expected is None:
        assert rebased(current, winners()[theirs], ground(table=PARTITIONED)).actions == current.actions
    else:
        with pytest.raises(ConflictError) as caught:
            rebased(current, winners()[theirs], ground(table=PARTITIONED))
        assert caught.value.condition == expected, caught.value
        assert caught.value.sides["they"].startswith("version 6")


# ---------------------------------------------------------------------- 1: protocol


def test_winner_that_this_release_cannot_write_is_refused_before_anything_else():
    def refuse(terms):
        raise IncompatibleError(f"cannot write {terms.protocol}")

    with pytest.raises(IncompatibleError, match="cannot write"):
        rebased(intent(add("a")), winner(ProtocolAction(1, 3)), ground(check_access=refuse))


def test_protocol_upgrade_is_adopted_and_known_to_later_checks():
    after = rebased(intent(add("a")), winner(action_of(LISTED)), ground())
    assert after.protocol == LISTED


def test_feature_drop_that_loses_is_revalidated_and_moves_its_protected_version():
    dropped = Protocol.delta(1, 7, None, ["appendOnly", "checkpointProtection", "invariants"])
    asked: list[int] = []
    ours = metadata(requireCheckpointProtectionBeforeVersion="6")
    current = intent(action_of(dropped), ours, operation="DROP FEATURE", protocol=dropped)
    after = rebased(current, winner(add("w")), ground(protocol=LISTED, revalidate=asked.append))
    assert asked == [6]
    assert after.metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"] == "7"
    assert after.commit.metadata == after.metadata


def test_feature_drop_whose_ground_is_gone_fails():
    def gone(version):
        raise ConflictError(f"deletion vectors are back since version {version}")

    current = intent(ProtocolAction(1, 2), operation="DROP FEATURE")
    with pytest.raises(ConflictError, match="back since version 6"):
        rebased(current, winner(add("w")), ground(protocol=LISTED, revalidate=gone))


# ---------------------------------------------------------------------- 2: metadata


@pytest.mark.parametrize(
    ("features", "changed"),
    [
        (["deletionVectors"], {"enableDeletionVectors": "true"}),
        (["v2Checkpoint"], {"checkpointPolicy": "v2"}),
        (["inCommitTimestamp"], {"enableInCommitTimestamps": "true", "inCommitTimestampEnablementVersion": "6"}),
        (["rowTracking"], {"enableRowTracking": "true", "rowTracking__materializedRowIdColumnName": "_row"}),
    ],
    ids=["deletion vectors", "v2 checkpoints", "in-commit timestamps", "row tracking"],
)
def test_switched_on_feature_lets_the_commit_go_on(features, changed):
    protocol = Protocol.delta(1, 2).upgraded(*features)
    after = rebased(intent(add("a"), protocol=protocol), winner(metadata(**changed)), ground(protocol=protocol))
    assert after.metadata == metadata(**changed)
    assert after.commit.metadata is None


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        ({}, {"enableDeletionVectors": "true"}),
        ({"enableDeletionVectors": "true"}, {"enableDeletionVectors": "false"}),
        ({"enableDeletionVectors": "true"}, {}),
        ({}, {"appendOnly": "true"}),
        ({"columnMapping__mode": "name"}, {"columnMapping__mode": "id"}),
    ],
    ids=["feature not supported", "switched off", "key removed", "not on the list", "mapping by id"],
)
def test_other_property_changes_conflict(before, changed):
    protocol = LISTED if before else Protocol.delta(1, 2)
    current = intent(add("a"), protocol=protocol, table=metadata(**before))
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(metadata(**changed)), ground(protocol=protocol, table=metadata(**before)))
    assert caught.value.condition == METADATA


def mapped(name: str) -> dict:
    return field(name, "long", metadata={"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": name})


def test_column_mapping_switched_on_by_name_lets_the_commit_go_on():
    protocol = Protocol.delta(2, 5)
    theirs = metadata(columns=schema(mapped("id")), columnMapping__mode="name", columnMapping__maxColumnId="1")
    after = rebased(intent(add("a"), protocol=protocol), winner(theirs), ground(protocol=protocol))
    assert after.metadata == theirs


@pytest.mark.parametrize(
    "columns",
    [schema("id", "more"), schema(field("id", "string")), schema("other")],
    ids=["added", "retyped", "renamed"],
)
def test_changed_columns_conflict(columns):
    with pytest.raises(ConflictError) as caught:
        rebased(intent(add("a")), winner(metadata(columns=columns)), ground())
    assert caught.value.condition == METADATA


def test_moved_identity_marks_let_the_commit_go_on_unless_it_changes_metadata_too():
    def table(mark: int) -> Metadata:
        notes = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": mark}
        return metadata(columns=schema(field("id", "long", metadata=notes)))

    after = rebased(intent(add("a"), table=table(3)), winner(table(9)), ground(table=table(3)))
    assert after.metadata == table(9)
    with pytest.raises(ConflictError) as caught:
        rebased(intent(add("a"), table(7), table=table(3)), winner(table(9)), ground(table=table(3)))
    assert caught.value.condition == METADATA


def test_row_tracking_switched_on_marks_our_rewrite_as_not_preserving():
    protocol = Protocol.delta(1, 2).upgraded("rowTracking")
    theirs = winner(metadata(enableRowTracking="true"))
    after = rebased(intent(add("a"), protocol=protocol), theirs, ground(protocol=protocol))
    assert after.info["tags"] == {row_tracking.PRESERVED_TAG: "false"}


# ---------------------------------------------------------------------- 3, 4: domains and applications


def test_same_domain_conflicts_and_another_does_not():
    protocol = Protocol.delta(1, 2).upgraded("domainMetadata")
    current = intent(DomainMetadata("billing", "{}"), protocol=protocol)
    assert rebased(current, winner(DomainMetadata("shipping", "{}")), ground(protocol=protocol)) is not None
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(DomainMetadata("billing", "{}", removed=True)), ground(protocol=protocol))
    assert caught.value.condition == "CONCURRENT_DOMAIN_CHANGE"


def test_transaction_of_an_application_we_read_conflicts_and_another_does_not():
    current = intent(add("a"), Txn("etl", 7), reads=Reads(app_ids=frozenset({"etl"})))
    assert rebased(current, winner(Txn("other", 1)), ground()).actions == current.actions
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(Txn("etl", 7)), ground())
    assert caught.value.condition == "CONCURRENT_TRANSACTION"


# ---------------------------------------------------------------------- 5: row ids

TRACKED = Protocol.delta(1, 2).upgraded("rowTracking")


def test_fresh_row_ids_are_taken_again_above_the_winners_and_old_ones_stay():
    current = intent(
        row_tracking.mark_action(29),
        add("new", base_row_id=20, default_row_commit_version=6),
        add("kept", base_row_id=5, default_row_commit_version=2),
        protocol=TRACKED,
        mark=19,
    )
    theirs = winner(row_tracking.mark_action(119), add("w", base_row_id=20, default_row_commit_version=6), blind=True)
    after = rebased(current, theirs, ground(protocol=TRACKED))
    assert after.actions == (
        row_tracking.mark_action(129),
        add("new", base_row_id=120, default_row_commit_version=7),
        add("kept", base_row_id=5, default_row_commit_version=2),
    )
    assert after.row_id_mark == 119
    again = rebased(
        after, winner(add("x"), row_tracking.mark_action(219), version=7, blind=True), ground(protocol=TRACKED)
    )
    assert again.actions[1].base_row_id == 220
    assert again.actions[1].default_row_commit_version == 8


def test_winner_that_brings_row_tracking_makes_us_hand_out_ids():
    after = rebased(intent(add("new")), winner(action_of(TRACKED)), ground())
    assert after.actions == (row_tracking.mark_action(9), add("new", base_row_id=0, default_row_commit_version=7))


def test_suspended_row_tracking_hands_out_nothing():
    suspended = metadata(rowTrackingSuspended="true")
    current = intent(add("new"), protocol=TRACKED, table=suspended)
    assert rebased(current, winner(add("w"), blind=True), ground(protocol=TRACKED, table=suspended)).actions == (
        add("new"),
    )


def test_backfill_leaves_alone_what_the_winner_touched():
    current = intent(
        add("a", data_change=False),
        add("b", data_change=False),
        operation="ROW TRACKING BACKFILL",
        protocol=TRACKED,
        reads=Reads(paths=frozenset({"a", "b"})),
    )
    after = rebased(current, winner(remove("a"), add("c")), ground(protocol=TRACKED))
    assert [each.path for each in after.commit.of(Add)] == ["b"]


def test_winning_backfill_gives_its_ids_to_what_we_rewrite():
    filled = add("a", data_change=False, base_row_id=40, default_row_commit_version=6)
    current = intent(
        remove("a"), add("a", deletion_vector=vector()), protocol=TRACKED, reads=Reads(paths=frozenset({"a"}))
    )
    theirs = winner(filled, row_tracking.mark_action(49), operation="ROW TRACKING BACKFILL")
    after = rebased(current, theirs, ground(protocol=TRACKED))
    files = [each for each in after.actions if not isinstance(each, DomainMetadata)]
    assert [each.base_row_id for each in files] == [40, 40]


# ---------------------------------------------------------------------- 6: type changes


def test_versions_noted_with_type_changes_follow_the_commit():
    def table(version: int) -> Metadata:
        notes = [{"tableVersion": 2, "fromType": "short", "toType": "integer"}]
        notes.append({"tableVersion": version, "fromType": "integer", "toType": "long"})
        return metadata(columns=schema(field("id", "long", metadata={"delta.typeChanges": notes})))

    after = rebased(intent(table(6)), winner(add("w"), blind=True), ground())
    assert after.commit.metadata == after.metadata == table(7)


# ---------------------------------------------------------------------- 7, 8, 9: files


def test_write_serializable_ignores_blind_appends_unless_we_change_metadata():
    table = metadata(isolationLevel="WriteSerializable")
    whole = Reads(whole_table=True)
    blind, not_blind = winner(add("w"), blind=True), winner(add("w"), blind=False)
    current = intent(remove("a"), add("b"), reads=whole, table=table)
    assert rebased(current, blind, ground(table=table)).actions == current.actions
    for conflicting, theirs in (
        (current, not_blind),
        (intent(remove("a"), metadata(appendOnly="true"), reads=whole, table=table), blind),
    ):
        with pytest.raises(ConflictError) as caught:
            rebased(conflicting, theirs, ground(table=table))
        assert caught.value.condition == APPEND


def test_unpartitioned_table_conflicts_with_any_append_once_it_was_read():
    current = intent(remove("a"), add("b"), reads=Reads(predicates=("id = 3",)))
    with pytest.raises(ConflictError, match="should have read") as caught:
        rebased(current, winner(add("w"), blind=True), ground())
    assert caught.value.condition == APPEND


def test_predicate_without_partition_part_matches_every_partition():
    reads = Reads(predicates=("id = 3",))
    current = intent(remove("mon/a", day="mon"), reads=reads, table=PARTITIONED)
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(add("w", day="tue"), blind=True), ground(table=PARTITIONED))
    assert caught.value.condition == APPEND


def test_whole_table_read_conflicts_with_any_removal():
    reads = Reads(whole_table=True)
    current = intent(add("b", data_change=False), reads=reads, operation="OPTIMIZE")
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(remove("z", data_change=False), operation="OPTIMIZE"), ground())
    assert caught.value.condition == DELETE_READ


@pytest.mark.parametrize("path", ["a b", "a%20b"], ids=["decoded", "encoded"])
def test_paths_compare_decoded(path):
    current = intent(add("c", data_change=False), reads=Reads(paths=frozenset({"a b"})), operation="OPTIMIZE")
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(remove(path, data_change=False), operation="OPTIMIZE"), ground())
    assert caught.value.condition == DELETE_READ


def test_both_removing_a_file_conflicts_even_if_nobody_read_it():
    current = intent(remove("a", data_change=False), operation="OPTIMIZE")
    with pytest.raises(ConflictError) as caught:
        rebased(current, winner(remove("a", data_change=False), operation="OPTIMIZE"), ground())
    assert caught.value.condition == DELETE_DELETE


def test_two_vector_updates_of_one_file_conflict():
    reads = Reads(paths=frozenset({"mon/a"}), predicates=MONDAY.predicates)
    ours = (remove("mon/a", day="mon"), add("mon/a", day="mon", deletion_vector=vector("v1")))
    theirs = winner(remove("mon/a", day="mon"), add("mon/a", day="mon", deletion_vector=vector("v2")), blind=False)
    with pytest.raises(ConflictError):
        rebased(intent(*ours, reads=reads, table=PARTITIONED), theirs, ground(table=PARTITIONED))


# ---------------------------------------------------------------------- 10: timestamps


def test_timestamp_is_later_than_the_winners():
    timed = metadata(enableInCommitTimestamps="true")
    current = intent(add("a"), table=timed, inCommitTimestamp=1000)
    after = rebased(current, winner(add("w"), blind=True, inCommitTimestamp=2000), ground(table=timed))
    assert after.info["inCommitTimestamp"] == 2001


def test_commit_that_enables_timestamps_moves_its_enablement():
    protocol = Protocol.delta(1, 2).upgraded("inCommitTimestamp")
    table = metadata(
        enableInCommitTimestamps="true",
        inCommitTimestampEnablementVersion="6",
        inCommitTimestampEnablementTimestamp="1000",
    )
    current = intent(table, protocol=protocol, inCommitTimestamp=1000)
    after = rebased(current, winner(add("w"), blind=True), ground(protocol=protocol))
    # The winner tells no timestamp of its own, so its file's counts.
    assert after.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "7"
    assert after.metadata.configuration["delta.inCommitTimestampEnablementTimestamp"] == "5001"
    assert after.info["inCommitTimestamp"] == 5001


def test_schema_that_only_looks_different_is_not_a_change():
    spaced = replace(metadata(), schema_string=" " + dump(schema("id")))
    assert rebased(intent(add("a")), winner(spaced), ground()).metadata == spaced
