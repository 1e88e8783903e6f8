"""What a user hears: nothing of a call that succeeds, and of a refusal the refusal alone.

Each script runs in a process of its own, since Spark writes to the error stream of the process that started it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import halocline

START = """
import os, sys, warnings
warnings.filterwarnings("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
                   "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
import halocline as hc
from halocline.errors import HaloclineError
root = sys.argv[1]
orders = hc.Table.create(root + "/orders", spark.sql("SELECT id, 'SECRET' country, 1.5D amount FROM range(9)"), spark)
keyed = hc.Table.create(root + "/keyed", "id INT NOT NULL, c CHAR(3)", spark)
updates = spark.sql("SELECT id + 5 id, 'nz' country, 2D amount FROM range(9)")
def heard(name, call):
    print("@", name, flush=True)
    try:
        call()
    except HaloclineError as error:
        print("=", error.condition, flush=True)
"""
CALLS = """
heard("merge", lambda: orders.merge(updates, "t.id = s.id")
      .when_matched_update_all().when_not_matched_insert_all().execute())
heard("update", lambda: orders.update({"amount": "amount * 2"}, "id > 3"))
heard("delete", lambda: orders.delete("id = 4"))
heard("add_constraint", lambda: orders.add_constraint("positive", "amount > 0"))
heard("a constraint", lambda: orders.append(spark.sql("SELECT 1L id, 'SECRET' country, -1D amount")))
heard("a constraint, in an update", lambda: orders.update({"amount": "-1"}, "id = 5"))
heard("a null", lambda: keyed.append(spark.sql("SELECT CAST(NULL AS INT) id, 'abc' c")))
heard("a length", lambda: keyed.append(spark.sql("SELECT 1 id, 'SECRET' c")))
heard("a cast", lambda: keyed.append(spark.sql("SELECT 5000000000L id, 'abc' c"), cast="ansi"))
heard("a name", lambda: orders.delete("nosuch = 1"))
heard("a function", lambda: orders.delete("nosuch(id) = 1"))
heard("chance", lambda: orders.delete("rand() < 0.5"))
heard("a name, in a merge", lambda: orders.merge(updates, "t.nosuch = s.id").when_matched_delete().execute())
heard("end", lambda: None)
"""
REFUSED = {
    "a constraint": "CONSTRAINT_VIOLATED",
    "a constraint, in an update": "CONSTRAINT_VIOLATED",
    "a null": "CONSTRAINT_VIOLATED",
    "a length": "CONSTRAINT_VIOLATED",
    "a cast": "CONSTRAINT_VIOLATED",
    "a name": "PREDICATE_INVALID",
    "a function": "PREDICATE_INVALID",
    "chance": "PREDICATE_INVALID",
    "a name, in a merge": "PREDICATE_INVALID",
}


@pytest.mark.skipif(
    os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a server has an error stream of its own"
)
def test_calls_print_nothing_and_refusals_nothing_but_themselves(tmp_path):
    command = [sys.executable, "-c", START + CALLS, str(tmp_path)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False
    )
    parts = re.split(r"^@ (.*)\n", done.stdout, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert "end" in said, done.stdout[-2000:]
    expected = {name: f"= {REFUSED[name]}\n" if name in REFUSED else "" for name in said}
    assert said == expected


SOURCE = """
hc.register(spark)
typed = hc.Table.create(root + "/typed", "id INT NOT NULL, s STRUCT<x: INT NOT NULL>", spark)
def refused(name, sql):
    print("@", name, flush=True)
    try:
        spark.sql(sql).write.format("halocline").mode("append").save(root + "/typed")
    except Exception as error:
        print("=", str(error), flush=True)
refused("a null", "SELECT CAST(NULL AS INT) id, named_struct('x', 1) s")
refused("a null struct", "SELECT 1 id, CAST(NULL AS STRUCT<x: INT>) s")
refused("end", "SELECT 1 id, named_struct('x', 1) s")
print(typed.to_df().count(), flush=True)
"""


@pytest.mark.skipif(
    os.environ.get("HALOCLINE_TEST_SPARK") == "connect", reason="a server has an error stream of its own"
)
def test_the_data_source_is_silent_and_its_refusals_end_no_task(tmp_path):
    command = [
        sys.executable,
        "-c",
        START.replace("spark = builder", 'print("@ start", flush=True)\nspark = builder') + SOURCE,
    ]
    places = os.pathsep.join(filter(None, [str(Path(halocline.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [*command, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": places},
    )
    parts = re.split(r"^@ (.*)\n", done.stdout, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert said.get("end") == "1\n", done.stdout[-2000:]
    assert "DataSourceManager" not in said["start"], said["start"]
    for name, rule in {"a null": "NOT NULL id", "a null struct": "NOT NULL inside s"}.items():
        # Spark itself says in two lines that a write is given up.
        heard, _, refusal = said[name].partition("= ")
        assert all("abort" in line for line in heard.splitlines()), heard
        assert f"a row breaks {rule}; nothing was written" in refusal, refusal
