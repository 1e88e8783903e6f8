"""The everyday names at the root of the package."""

import subprocess
import sys

import pytest

import halocline


def test_exported_names_are_sorted_and_all_have_a_home():
    assert halocline.__all__ == sorted(halocline.__all__, key=lambda name: (name[0].islower(), name))
    assert set(halocline.__all__) == set(halocline._HOMES)


@pytest.mark.parametrize("name", halocline.__all__)
def test_exported_name_is_importable_and_documented(name):
    value = getattr(halocline, name)
    assert value.__doc__, f"{name} has no docstring"
    assert value.__module__.startswith("halocline."), value.__module__


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
