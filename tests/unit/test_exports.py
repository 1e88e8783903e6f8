"""The everyday names at the root of the package."""

import inspect
import re
import subprocess
import sys

import pytest

import halocline
from halocline import errors
from halocline.quickstart import make_lake


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


def test_a_notebook_gets_from_one_import_what_it_got_from_the_other():
    pytest.importorskip("pyspark")
    found: dict = {}
    exec("from halocline.delta.tables import *", found)
    builders = {"DeltaTable", "DeltaTableBuilder", "DeltaMergeBuilder", "DeltaOptimizeBuilder", "IdentityGenerator"}
    assert builders | {"DataFrame", "SparkSession", "StructType", "functions"} <= found.keys()


def test_a_name_that_is_not_exported_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Tables'"):
        _ = halocline.Tables


def test_importing_the_package_loads_neither_arrow_nor_spark_nor_grpc():
    code = "import halocline, sys; print([m for m in ('pyarrow', 'pyspark', 'grpc', 'typer') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_judging_a_release_loads_neither_arrow_nor_spark_nor_grpc():
    code = (
        "import halocline, sys; halocline.can('deltalake@1.0.2', '(1,2)');"
        "print([m for m in ('pyarrow', 'pyspark', 'grpc', 'typer') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_a_lake_is_surveyed_without_spark_installed(tmp_path):
    make_lake(tmp_path / "lake")
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from halocline.cli.main import run\n"
        "print(run(['survey', 'lake/lake.toml']), run(['sql', 'lake', '-e', 'SELECT 1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["0 1"], done.stderr
    assert "pip install 'halocline[spark]'" in done.stderr
