"""One tree, drawn in the docstring; every error carries code, sides and next step."""

import copy
import inspect
import pickle
import re

import pytest

from halocline import errors
from halocline.errors import CONDITIONS, HaloclineError, IncompatibleError, InternalError, MissingExtraError

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, HaloclineError)]


def made(kind):
    if kind is MissingExtraError:
        return kind("PySpark", "spark")
    return kind("it went wrong", sides={"table": "(3,7)", "you are": "deltalake@1.0.2"}, next_step="Upgrade.")


def drawn_tree():
    """Class and parent, as drawn."""
    above = {-1: None}
    tree = {}
    for line in errors.__doc__.splitlines():
        if found := re.match(r"    (?P<branches>[│├└─ ]*)(?P<name>[A-Z]\w*Error)\b", line):
            depth = len(found["branches"]) // 4
            tree[found["name"]] = above[depth - 1]
            above[depth] = found["name"]
    return tree


def test_the_tree_in_the_docstring_is_the_tree():
    assert drawn_tree() == {
        each.__name__: each.__bases__[0].__name__ if each is not HaloclineError else None for each in CLASSES
    }


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_a_registered_condition_and_a_docstring(kind):
    assert kind.default_condition in CONDITIONS
    assert kind.__doc__
    assert made(kind).condition == kind.default_condition


def test_an_error_shows_its_code_both_sides_and_the_next_step():
    error = IncompatibleError(
        "lake/orders requires reader feature deletionVectors.",
        condition="READER_TOO_OLD",
        sides={"table": "(3,7)", "you are": "deltalake@1.0.2"},
        next_step="Upgrade to deltalake 1.4.0 or later.",
    )
    assert str(error).splitlines() == [
        "READER_TOO_OLD: lake/orders requires reader feature deletionVectors.",
        "  table    (3,7)",
        "  you are  deltalake@1.0.2",
        "Upgrade to deltalake 1.4.0 or later.",
    ]
    assert error.to_dict() == {
        "condition": "READER_TOO_OLD",
        "message": "lake/orders requires reader feature deletionVectors.",
        "sides": {"table": "(3,7)", "you are": "deltalake@1.0.2"},
        "next": "Upgrade to deltalake 1.4.0 or later.",
    }


def test_an_error_without_sides_is_one_line():
    assert str(InternalError("the log has two ends")) == "INTERNAL_ERROR: the log has two ends"


def test_an_unregistered_condition_is_our_own_bug():
    with pytest.raises(InternalError, match="NO_SUCH_CODE is not registered"):
        HaloclineError("x", condition="NO_SUCH_CODE")


def test_incompatibility_and_damaged_tables_alone_have_the_exit_code_two():
    assert {kind.__name__ for kind in CLASSES if made(kind).exit_code == 2} == {"IncompatibleError"}
    damage = {code for code in CONDITIONS if HaloclineError("x", condition=code).exit_code == 2}
    assert {"MALFORMED_LOG", "MALFORMED_METADATA", "MALFORMED_PROTOCOL"} <= damage
    assert damage.isdisjoint({"MALFORMED", "MALFORMED_KNOWLEDGE", "MALFORMED_HISTORY", "NOT_FOUND", "TABLE_NOT_FOUND"})


def test_a_missing_extra_names_the_command():
    assert str(MissingExtraError("PySpark", "spark")).endswith("pip install 'halocline[spark]'")


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_survives_the_way_to_another_process(kind):
    error = made(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_the_sides_given_are_not_kept_by_reference():
    sides = {"table": "(3,7)"}
    error = HaloclineError("x", sides=sides)
    sides["table"] = "(1,2)"
    assert error.sides == {"table": "(3,7)"}
