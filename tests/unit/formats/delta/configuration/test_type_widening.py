import json

import pytest
from tests.support.columns import array, of_type
from tests.support.columns import field as column
from tests.support.columns import schema as columns

from halocline.errors import MalformedError, SchemaError, UnsupportedError
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.configuration.type_widening import (
    can_widen,
    has_changed,
    widened,
    widened_to,
    with_later_version,
)
from halocline.schema import Primitive


def field(name, type="long", metadata=None):
    return {"name": name, "type": type, "nullable": True, "metadata": metadata or {}}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def parse(content):
    return Schema.parse(json.dumps(content))


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("byte", "short", True),
        ("short", "long", True),
        ("integer", "long", True),
        ("integer", "double", True),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,2)", True),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(12,2)", True),
        ("long", "decimal(20,0)", True),
        ("long", "integer", False),
        ("long", "double", False),
        ("date", "timestamp", False),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(19,0)", False),
        ("string", "long", False),
        ("integer", "decimal", True),
    ],
)
def test_widening_follows_the_formats_table(old, new, allowed):
    assert can_widen(Primitive(old), Primitive(new)) is allowed


def test_known_changes_of_type_are_read():
    changes = [{"fromType": "short", "toType": "integer"}, {"fromType": "integer", "toType": "long", "tableVersion": 3}]
    assert parse(struct(field("a", metadata={"delta.typeChanges": changes}))).find("a").type == Primitive("long")


def test_an_unknown_change_of_type_is_refused():
    nested = struct(field("b", metadata={"delta.typeChanges": [{"fromType": "string", "toType": "long"}]}))
    with pytest.raises(UnsupportedError, match=r"a\.b was changed from string to long") as caught:
        parse(struct(field("a", nested)))
    assert caught.value.condition == "TYPE_CHANGE_UNKNOWN"


@pytest.mark.parametrize("changes", ["x", [1], [{}], [{"fromType": {"type": "struct"}, "toType": "long"}]])
def test_changes_of_type_that_cannot_be_read_are_damage(changes):
    with pytest.raises(MalformedError, match="changes of type"):
        parse(struct(field("a", metadata={"delta.typeChanges": changes})))


def test_a_change_is_noted_beside_earlier_ones_with_its_steps_and_version():
    once = widened(column("l", array("byte")), array("short"), ("l",))
    twice = widened(once, array("long"), ("l",), version=7)
    assert twice.type == array("long")
    assert twice.metadata["delta.typeChanges"] == (
        {"fromType": "byte", "toType": "short", "fieldPath": "element"},
        {"tableVersion": 7, "fromType": "short", "toType": "long", "fieldPath": "element"},
    )


def test_the_same_type_again_is_no_change():
    assert not has_changed(widened(column("a"), of_type("long"), ("a",)))


@pytest.mark.parametrize("type", ["integer", "string", array("long"), columns("x")])
def test_a_change_that_loses_values_is_refused(type):
    with pytest.raises(SchemaError, match="column a cannot change"):
        widened(column("a"), of_type(type), ("a",))


def test_a_commit_that_comes_later_notes_its_changes_at_its_own_version():
    changed = widened(column("a", "byte"), of_type("short"), ("a",), version=4)
    changed = widened(changed, of_type("long"), ("a",), version=5)
    moved = with_later_version(columns(changed), 5, 6).fields[0]
    assert [each["tableVersion"] for each in moved.metadata["delta.typeChanges"]] == [4, 6]


def test_types_that_columns_at_any_depth_were_widened_to_are_told_without_their_parameters():
    inner = field("b", "decimal(12,2)", {"delta.typeChanges": [{"fromType": "integer", "toType": "decimal(12,2)"}]})
    outer = field("a", struct(inner))
    steps = [{"fromType": "byte", "toType": "short"}, {"fromType": "short", "toType": "integer"}]
    assert widened_to(parse(struct(outer, field("c", "integer", {"delta.typeChanges": steps}))).struct) == {
        "decimal",
        "short",
        "integer",
    }
    assert widened_to(parse(struct(field("a"))).struct) == frozenset()
