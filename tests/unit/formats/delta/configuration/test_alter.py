"""Changing what a table is, without touching it: states in, states out."""

from __future__ import annotations

import pytest
from tests.support.columns import array, field, of_type, schema

from halocline.compat.protocol import Protocol
from halocline.errors import InputError, NotFoundError, SchemaError
from halocline.formats.delta.actions.action import Metadata, ProtocolAction
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.constraints import checks
from halocline.formats.delta.configuration.identity import IdentityColumn, identity_columns
from halocline.formats.delta.configuration.properties import KNOWN, check, count, duration_ms, flag, parse_duration_ms
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.schema import Field
from halocline.schema.visitor import walk

NESTED = schema(
    "id",
    field("Name", "string"),
    field("day", "date"),
    field("point", schema(field("x", "integer"), field("y", "integer"))),
    field("tags", array("integer")),
)


def state(columns=None, partitions=(), **configuration) -> TableConfiguration:
    settings = {f"delta.{key.replace('__', '.')}": value for key, value in configuration.items()}
    made = new_table(NESTED if columns is None else columns, partitions, settings)
    return TableConfiguration(made.protocol, made.metadata)


def mapped(**more) -> TableConfiguration:
    return state(columnMapping__mode="name", **more)


def names(changed: TableConfiguration) -> list[str]:
    return list(changed.metadata.schema.names)


def find(state: TableConfiguration, *path: str) -> Field:
    return state.metadata.schema.find(path)[1]


# ---------------------------------------------------------------------- new tables


def test_new_table_has_the_least_protocol_and_both_actions():
    made = new_table(NESTED, ["day"], {"delta.appendOnly": "true", "owner": "me"}, name="orders", created_ms=5)
    assert made.protocol == Protocol.delta(1, 2)
    protocol, metadata = made.actions_since(None)
    assert isinstance(protocol, ProtocolAction)
    assert isinstance(metadata, Metadata)
    assert (metadata.name, metadata.created_time, metadata.partition_columns) == ("orders", 5, ("day",))
    assert dict(metadata.configuration) == {"delta.appendOnly": "true", "owner": "me"}


def test_new_table_under_column_mapping_has_ids_and_random_physical_names():
    made = new_table(NESTED, [], {"delta.columnMapping.mode": "name"})
    notes = [each.metadata for _, each in walk(made.metadata.schema)]
    assert sorted(note["delta.columnMapping.id"] for note in notes) == list(range(1, 8))
    assert all(note["delta.columnMapping.physicalName"].startswith("col-") for note in notes)
    assert made.metadata.configuration["delta.columnMapping.maxColumnId"] == "7"
    assert made.protocol == Protocol.delta(2, 7, None, ["appendOnly", "columnMapping", "invariants"])


def test_requests_are_used_up():
    made = new_table(NESTED, [], {"delta.feature.deletionVectors": "supported", "delta.minWriterVersion": "3"})
    assert made.protocol.supports("deletionVectors")
    assert made.protocol.supports("checkConstraints")
    assert made.metadata.configuration == {}


@pytest.mark.parametrize(
    ("columns", "partitions", "message"),
    [
        (schema("a", "A"), (), "ambiguous"),
        (schema(field("a b", "long")), (), "cannot"),
        (schema(field("a", "varint")), (), "unknown type"),
        (schema(field("a", "decimal(40,2)")), (), "impossible decimal"),
        (schema(field("a", {"type": "set", "elementType": "long"})), (), "unknown type"),
        (schema(field("a", schema())), (), "without fields"),
        (schema(field("a", "void")), (), "only void"),
        (schema("a", "b"), ("c",), "not a column"),
        (schema("a", "b"), ("a", "a"), "twice"),
        (schema("a"), ("a",), "every column"),
        (
            schema("a", field("b", array("long"))),
            ("b",),
            "partitioned",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_schema_that_cannot_be_written_is_refused(columns, partitions, message):
    with pytest.raises(SchemaError, match=message):
        new_table(columns, partitions)


def test_any_name_can_be_written_under_column_mapping():
    assert new_table(schema(field("a b;c", "long")), (), {"delta.columnMapping.mode": "name"}).metadata.schema.fields


# ---------------------------------------------------------------------- properties


def test_property_that_switches_a_feature_on_brings_it_and_says_why():
    before = state()
    changed = alter.set_properties(before, {"delta.enableChangeDataFeed": "true"})
    assert changed.protocol.supports("changeDataFeed")
    assert [str(reason) for reason in changed.reasons] == ["changeDataFeed: delta.enableChangeDataFeed=true is set"]
    assert len(changed.actions_since(before)) == 2


def test_plain_property_leaves_the_protocol_alone():
    before = state()
    changed = alter.set_properties(before, {"delta.checkpointInterval": "5"})
    assert [type(action) for action in changed.actions_since(before)] == [Metadata]


def test_nothing_changed_means_nothing_to_commit():
    before = state(checkpointInterval="5")
    assert alter.set_properties(before, {"delta.checkpointInterval": "5"}).actions_since(before) == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"delta.checkpointInterval": "0"}, "cannot be '0'"),
        ({"delta.appendOnly": "maybe"}, "cannot be 'maybe'"),
        ({"delta.logRetentionDuration": "interval 1 month"}, "cannot be"),
        ({"delta.checkpointPolicy": "v3"}, "cannot be 'v3'"),
        ({"delta.columnMapping.maxColumnId": "9"}, "kept by writers"),
        ({"delta.constraints.positive": "id > 0"}, "added by name"),
        ({"delta.chekpointInterval": "9"}, "no property of that name; the nearest is delta.checkpointInterval"),
        ({"delta.columnMapping.mode": "id"}, "from none to id"),
        ({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}, "enabled and suspended"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_property_that_cannot_be_set_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        alter.set_properties(state(), values)


def test_column_mapping_switched_on_later_keeps_names_as_physical_names():
    changed = alter.set_properties(state(), {"delta.columnMapping.mode": "name"})
    for path, each in walk(changed.metadata.schema):
        assert each.metadata["delta.columnMapping.physicalName"] == path[-1]
    assert changed.metadata.configuration["delta.columnMapping.maxColumnId"] == "7"


def test_column_mapping_cannot_be_switched_off_by_a_property():
    with pytest.raises(InputError, match="from name to none"):
        alter.set_properties(mapped(), {"delta.columnMapping.mode": "none"})
    with pytest.raises(InputError, match="from name to none"):
        alter.unset_properties(mapped(), ["delta.columnMapping.mode"])


def test_unset_takes_properties_out_and_leaves_features_in():
    before = state(enableChangeDataFeed="true", checkpointInterval="5")
    changed = alter.unset_properties(before, ["delta.enableChangeDataFeed"])
    assert dict(changed.metadata.configuration) == {"delta.checkpointInterval": "5"}
    assert changed.protocol == before.protocol
    with pytest.raises(NotFoundError, match="no property owner"):
        alter.unset_properties(before, ["owner"])
    assert alter.unset_properties(before, ["owner"], if_exists=True) == before
    with pytest.raises(InputError, match="drop the feature"):
        alter.unset_properties(before, ["delta.feature.changeDataFeed"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 1 week", 604_800_000),
        ("INTERVAL 30 DAYS", 2_592_000_000),
        ("2 hours 30 minutes", 9_000_000),
        ("interval 1.5 seconds", 1500),
        ("interval 0 days", 0),
    ],
)
def test_duration_is_read_as_spark_writes_it(text, expected):
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "interval", "a week", "interval 1 month", "interval 1 year", "-1 days", "5"])
def test_text_that_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


def test_defaults_are_what_delta_documents():
    assert count({}, "delta.checkpointInterval") == 10
    assert duration_ms({}, "delta.logRetentionDuration") == 30 * 86_400_000
    assert duration_ms({}, "delta.setTransactionRetentionDuration") is None
    assert flag({}, "delta.checkpoint.writeStatsAsStruct")
    for record in KNOWN.values():
        if record.default is not None:
            check(record.key, record.default)


# ---------------------------------------------------------------------- constraints


def test_constraint_is_added_and_dropped_by_name():
    changed = alter.add_constraint(state(), "Positive", "id > 0")
    assert checks(changed.metadata.configuration) == {"positive": "id > 0"}
    assert changed.protocol.supports("checkConstraints")
    with pytest.raises(InputError, match="already"):
        alter.add_constraint(changed, "POSITIVE", "id > 1")
    assert checks(alter.drop_constraint(changed, "positive").metadata.configuration) == {}
    with pytest.raises(NotFoundError, match="no constraint"):
        alter.drop_constraint(state(), "positive")
    before = state()
    assert alter.drop_constraint(before, "positive", if_exists=True) == before


# ---------------------------------------------------------------------- columns


def test_column_is_added_at_the_end_with_an_id_of_its_own():
    changed = alter.add_columns(mapped(), [field("more", "string")])
    assert names(changed)[-1] == "more"
    added = find(changed, "more")
    assert added.metadata["delta.columnMapping.id"] == 8
    assert changed.metadata.configuration["delta.columnMapping.maxColumnId"] == "8"
    nested = alter.add_columns(state(), [field("z", "integer")], parent=("point",))
    assert find(nested, "point", "z").type == of_type("integer")


@pytest.mark.parametrize(
    ("columns", "parent", "error"),
    [
        ([field("id", "long")], (), "ambiguous"),
        ([field("new", "long", nullable=False)], (), "NOT NULL"),
        ([field("new", "long")], ("id",), "no struct"),
        ([field("new", "long")], ("nowhere",), "no column"),
    ],
    ids=["taken", "not null", "into a number", "into nothing"],
)
def test_column_that_cannot_be_added_is_refused(columns, parent, error):
    with pytest.raises(InputError, match=error):
        alter.add_columns(state(), columns, parent)


def test_renamed_column_keeps_its_data_and_its_partition():
    before = mapped_with_partitions()
    changed = alter.rename_column(before, ["DAY"], "date")
    assert changed.metadata.partition_columns == ("date",)
    assert find(changed, "date").metadata == find(before, "day").metadata
    nested = alter.rename_column(before, ["point", "x"], "longitude")
    assert find(nested, "point", "longitude")


def mapped_with_partitions() -> TableConfiguration:
    made = new_table(NESTED, ["day"], {"delta.columnMapping.mode": "name"})
    return TableConfiguration(made.protocol, made.metadata)


def test_dropped_column_is_gone_and_its_id_is_not_given_out_again():
    changed = alter.drop_columns(mapped(), [["name"], ["point", "y"]])
    assert names(changed) == ["id", "day", "point", "tags"]
    again = alter.add_columns(changed, [field("name", "string")])
    assert find(again, "name").metadata["delta.columnMapping.id"] == 8


@pytest.mark.parametrize(
    "change", [lambda s: alter.rename_column(s, ["id"], "key"), lambda s: alter.drop_columns(s, [["id"]])]
)
def test_renaming_and_dropping_need_column_mapping_and_no_reference(change):
    with pytest.raises(SchemaError, match="under column mapping"):
        change(state())
    with pytest.raises(SchemaError, match="constraint positive refers to it"):
        change(alter.add_constraint(mapped(), "positive", "ID > 0 AND name <> 'id'"))
    assert change(alter.add_constraint(mapped(), "other", "name <> 'id'"))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: alter.rename_column(s, ["nam"], "key"),
        lambda s: alter.drop_columns(s, [["nam"]]),
        lambda s: alter.change_type(s, ["nam"], "string"),
    ],
)
def test_a_mistyped_column_is_told_before_what_the_table_lacks(change):
    with pytest.raises(InputError) as told:
        change(state())
    assert told.value.sides["nearest"] == "Name"


def test_partition_column_and_last_column_cannot_be_dropped():
    with pytest.raises(SchemaError, match="partition column day"):
        alter.drop_columns(mapped_with_partitions(), [["day"]])
    made = new_table(schema("id"), (), {"delta.columnMapping.mode": "name"})
    with pytest.raises(SchemaError, match="last column"):
        alter.drop_columns(made, [["id"]])


def test_column_is_widened_and_the_change_noted():
    before = state(enableTypeWidening="true")
    once = alter.change_type(before, ["point", "x"], of_type("long"))
    assert find(once, "point", "x").metadata == {"delta.typeChanges": ({"fromType": "integer", "toType": "long"},)}
    inside = alter.change_type(once, ["tags"], array("long"))
    assert find(inside, "tags").metadata["delta.typeChanges"] == (
        {"fromType": "integer", "toType": "long", "fieldPath": "element"},
    )
    twice = alter.change_type(once, ["point", "x"], of_type("decimal(20,0)"))
    assert len(find(twice, "point", "x").metadata["delta.typeChanges"]) == 2


def test_preview_also_notes_the_version():
    made = new_table(
        NESTED, (), {"delta.feature.typeWidening-preview": "supported", "delta.enableTypeWidening": "true"}
    )
    changed = alter.change_type(
        TableConfiguration(made.protocol, made.metadata), ["point", "x"], of_type("long"), version=7
    )
    assert find(changed, "point", "x").metadata["delta.typeChanges"][0]["tableVersion"] == 7


@pytest.mark.parametrize(
    ("type", "enabled", "message"),
    [
        ("integer", True, "cannot change its type"),
        ("string", True, "cannot change its type"),
        ("string", False, "cannot change its type"),
        ("decimal(20,0)", False, "does not allow"),
    ],
)
def test_type_that_loses_values_is_refused(type, enabled, message):
    before = state(enableTypeWidening="true") if enabled else state()
    with pytest.raises(SchemaError, match=message):
        alter.change_type(before, ["id"], of_type(type))


def test_not_null_can_be_taken_away():
    before = state(schema(field("id", "long", nullable=False), "more"))
    assert find(alter.allow_nulls(before, ["id"]), "id").nullable is True


def test_replaced_schema_keeps_ids_of_columns_that_stay():
    before = mapped()
    changed = alter.replace_schema(before, schema("id", "brand_new"), ())
    kept, new = (find(changed, name).metadata for name in ("id", "brand_new"))
    assert kept == find(before, "id").metadata
    assert new["delta.columnMapping.id"] == 8


# ---------------------------------------------------------------------- identity columns


@pytest.mark.parametrize(
    ("column", "following", "furthest"),
    [
        (IdentityColumn("id", 1, 1, None, False), 1, 5),
        (IdentityColumn("id", 1, 1, 9, False), 10, 9),
        (IdentityColumn("id", 100, -10, 50, True), 40, 5),
    ],
    ids=["unused", "ahead", "falling"],
)
def test_identity_column_knows_what_is_next_and_what_is_furthest(column, following, furthest):
    assert column.next_value == following
    assert column.furthest(5) == furthest


def test_identity_columns_are_found_by_their_annotations():
    notes = {"delta.identity.start": 1, "delta.identity.step": 2, "delta.identity.allowExplicitInsert": True}
    columns = schema("plain", field("id", "long", metadata=notes))
    assert identity_columns(columns) == (IdentityColumn("id", 1, 2, None, True),)


# ---------------------------------------------------------------------- properties that Delta refuses together


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.logRetentionDuration": "interval 1 day"},
        {"delta.deletedFileRetentionDuration": "interval 60 days"},
        {"delta.logRetentionDuration": "interval 1 day", "delta.deletedFileRetentionDuration": "interval 2 days"},
    ],
)
def test_log_that_is_kept_for_less_time_than_deleted_files_is_refused(properties):
    for change in (lambda: new_table(NESTED, (), properties), lambda: alter.set_properties(state(), properties)):
        with pytest.raises(InputError) as refused:
            change()
        assert refused.value.condition == "PROPERTY_INVALID"
        assert set(refused.value.sides) == {"delta.logRetentionDuration", "delta.deletedFileRetentionDuration"}


def test_log_that_is_kept_as_long_as_deleted_files_is_taken():
    same = {"delta.logRetentionDuration": "interval 2 days", "delta.deletedFileRetentionDuration": "interval 2 days"}
    assert alter.set_properties(state(), same).properties.log_retention_ms == 2 * 86_400_000


@pytest.mark.parametrize("formats", ["iceberg", "hudi, Iceberg"])
def test_table_that_is_shown_to_iceberg_without_its_features_is_refused(formats):
    wanted = {"delta.universalFormat.enabledFormats": formats}
    for change in (lambda: new_table(NESTED, (), wanted), lambda: alter.set_properties(state(), wanted)):
        with pytest.raises(InputError, match="Iceberg") as refused:
            change()
        assert "Leave iceberg out" in refused.value.next_step
        assert "=true" not in refused.value.next_step, "what it would say to set is refused itself"


@pytest.mark.parametrize("settings", [{}, {"feature__allowColumnDefaults": "supported"}], ids=["without", "with"])
def test_a_new_column_with_a_default_is_refused_whether_or_not_the_table_allows_defaults(settings):
    with pytest.raises(SchemaError, match="cannot come in with a default"):
        alter.add_columns(state(**settings), [field("more", metadata={"CURRENT_DEFAULT": "1"})])


def test_a_comment_among_properties_describes_the_table():
    after = alter.set_properties(state(appendOnly="true"), {"comment": "about orders", "owner": "me"})
    assert after.metadata.description == "about orders"
    assert dict(after.metadata.configuration) == {"delta.appendOnly": "true", "owner": "me"}
