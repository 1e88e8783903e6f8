"""What a user hears: nothing of a call that succeeds, and of a refusal the refusal alone.

Each script runs in a process of its own, since Spark writes to the error stream of the process that started it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

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
