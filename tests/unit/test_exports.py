"""The everyday names at the root of the package."""

import subprocess
import sys

import pytest

import halocline
from halocline.quickstart import make_lake


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
