"""The names at the root of the package: sorted, documented, and all that its verbs return."""

import inspect
import re

import pytest

import halocline
from halocline import errors


def test_exported_names_are_sorted_and_all_have_a_home():
    assert halocline.__all__ == sorted(halocline.__all__, key=lambda name: (name[0].islower(), name))
    assert set(halocline.__all__) == set(halocline._HOMES)


@pytest.mark.parametrize("name", halocline.__all__)
def test_exported_name_is_importable_and_documented(name):
    value = getattr(halocline, name)
    assert value.__doc__, f"{name} has no docstring"
    assert value.__module__.startswith("halocline."), value.__module__


def test_every_error_is_exported():
    known = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert known - set(halocline.__all__) == set()


def test_what_the_verbs_of_a_table_return_is_exported():
    plain = {"DataFrame", "None", "SparkSession", "Store", "Snapshot", "TableHeader", "Any", "Moment", "Self"}
    plain |= {
        "bool",
        "dict",
        "float",
        "int",
        "list",
        "str",
        "type",
        "Opening",
        "Sequence",
        "IndexSnapshot",
        "pa",
        "RecordBatchReader",
        "tuple",
    }
    lacking = set()
    for table, name in (
        (kind, name) for kind in (halocline.DeltaLakeTable, halocline.IndexTable) for name in dir(kind)
    ):
        value = inspect.getattr_static(table, name)
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(inspect.unwrap(value)):
            returned = str(inspect.unwrap(value).__annotations__.get("return", ""))
            lacking |= {f"{name}: {word}" for word in re.findall(r"[A-Za-z]+", returned) if word not in plain}
    assert {each for each in lacking if each.partition(": ")[2] not in halocline.__all__} == set()
