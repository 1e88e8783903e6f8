"""Promise: what is done to a Delta table takes at most half of what Delta Spark takes for it, in the same session.

Both work on copies of one table, in turns, one after the other. Every run opens the table anew; the copying is not
counted. Beside them, plain Parquet: what Spark takes to read or write the same rows as bare files, without a table,
where there is such a thing. Whoever has Spark read and write does not come below that. It needs PySpark 4.2 and
the jars of Delta Spark 4.4, which are fetched from Maven Central, and says so where they cannot be had:
`make bench-delta-spark` makes such an environment.

    python bench/delta_spark.py            1 million rows
    python bench/delta_spark.py --full     8 million rows, the promise
    python bench/delta_spark.py --only merge
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyspark
import pyspark.sql.functions as F
from delta_log import write_commits
from measuring import cpu, rows, session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.compat.delta_spark import delta_spark_releases
from tests.interop_jvm.maven import NoEngineError

from halocline.table import Table

TARGET = 0.5
VERSION = "4.4.0"
VECTORS = {"delta.enableDeletionVectors": "true"}


def delta_session(jars):
    """A session that has Delta Spark."""
    delta = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    return session(**delta)


def copied(table: Path, place: Path) -> Path:
    """A table of its own that shares the data files, which nobody changes."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(
        table, place, copy_function=lambda a, b: os.link(a, b) if a.endswith(".parquet") else shutil.copy(a, b)
    )
    return place


def bare(spark, path: Path):
    """The files of a table without the table: rows that vectors delete are there."""
    files = (str(file) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts)
    return spark.read.parquet(*sorted(files))


def reads(query, where=None):
    """The same query on a DataFrame of either side, and of the bare files."""
    return (
        lambda spark, path: query(spark.read.format("delta").load(str(path))),
        lambda spark, path: query(Table.for_path(path, spark).to_df(where=where)),
        lambda spark, path: query(bare(spark, path)),
    )


def writes(df, path: Path) -> None:
    """Rows as bare files."""
    df.write.parquet(f"{path}/bare")


def hashed(df):
    df.selectExpr("sum(hash(*))").collect()


def merge_sql(path, source):
    return f"MERGE INTO delta.`{path}` t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET d = s.d"


def works(count):
    """What is done: the name, the table it is done to, Delta Spark's way, ours, and Spark's without a table."""
    one_in_100 = f"SELECT id, -1.0D AS d FROM range(0, {count}, 100)"
    near = f"SELECT id, -1.0D AS d FROM range({count // 2}, {count // 2 + count // 100})"
    some = f"SELECT * FROM new WHERE id < {count // 10}"

    def by_sql(text):
        return lambda spark, path: spark.sql(text.format(t=f"delta.`{path}`"))

    def merged(source):
        def ours(spark, path):
            merge = Table.for_path(path, spark).merge(spark.sql(source), "t.id = s.id")
            merge.when_matched_update(set={"d": "s.d"}).execute()

        def plain(spark, path):
            new = spark.sql(source).withColumnRenamed("d", "new")
            df = bare(spark, path).join(new, "id", "left").withColumn("d", F.coalesce("new", "d")).drop("new")
            writes(df, path)

        return lambda spark, path: spark.sql(merge_sql(path, source)), ours, plain

    def appended(query):
        return (
            lambda spark, path: spark.sql(query).write.format("delta").mode("append").save(str(path)),
            lambda spark, path: Table.for_path(path, spark).append(spark.sql(query)),
            lambda spark, path: writes(spark.sql(query), path),
        )

    def deleted(where):
        return (
            by_sql(f"DELETE FROM {{t}} WHERE {where}"),
            lambda spark, path: Table.for_path(path, spark).delete(where),
            lambda spark, path: writes(bare(spark, path).where(f"NOT ({where})"), path),
        )

    point = f"id = {count // 3}"
    yield "count", "plain", *reads(lambda df: df.count())
    yield "sum of one column", "plain", *reads(lambda df: df.agg({"k": "sum"}).collect())
    yield "filter 1 %", "plain", *reads(lambda df: df.where("k < 10").agg({"id": "sum", "s": "max"}).collect())
    yield "point look-up by statistics", "plain", *reads(lambda df: df.where(point).collect(), point)
    yield "all columns hashed", "plain", *reads(hashed)
    yield "with vectors: count", "marked", *reads(lambda df: df.count())
    yield "with vectors: sum of one column", "marked", *reads(lambda df: df.agg({"k": "sum"}).collect())
    yield "with vectors: all columns hashed", "marked", *reads(hashed)
    yield (
        "create and write all rows",
        "",
        lambda spark, path: spark.table("new").write.format("delta").save(str(path)),
        lambda spark, path: Table.create(path, spark.table("new"), spark),
        lambda spark, path: writes(spark.table("new"), path),
    )
    yield "append one row", "plain", *appended("SELECT * FROM new WHERE id = 1")
    yield "append 10 % of the rows", "plain", *appended(some)
    yield "delete 1 % scattered, rewriting", "plain", *deleted("id % 100 = 7")
    yield "delete 1 % scattered, by vectors", "vectors", *deleted("id % 100 = 7")
    yield (
        "update in one file",
        "plain",
        by_sql(f"UPDATE {{t}} SET d = -1.0 WHERE {point}"),
        lambda spark, path: Table.for_path(path, spark).update({"d": "-1.0"}, point),
    )
    yield "merge 1 % scattered, rewriting", "plain", *merged(one_in_100)
    yield "merge 1 % scattered, by vectors", "vectors", *merged(one_in_100)
    yield "merge of a near range", "plain", *merged(near)
    yield (
        "optimize",
        "small",
        by_sql("OPTIMIZE {t}"),
        lambda spark, path: Table.for_path(path, spark).optimize().execute_compaction(),
        lambda spark, path: writes(bare(spark, path).coalesce(1), path),
    )
    yield (
        "open and prune 100,000 files in 1,000 commits",
        "log",
        lambda spark, path: len(spark.read.format("delta").load(str(path)).where("id = 5").inputFiles()),
        lambda spark, path: len(Table.for_path(path, spark).to_df(where="id = 5").inputFiles()),
    )


def made(spark, root: Path, count: int, needed: set[str]) -> dict[str, Path]:
    """The tables that are worked on."""
    files = {"plain": 12, "vectors": 12, "marked": 12, "small": 200}
    for name, number in files.items():
        if name not in needed:
            continue
        properties = VECTORS if name in ("vectors", "marked") else {}
        table = Table.create(root / name, rows(spark, count, number), spark, properties=properties)
        if name == "marked":
            table.delete("id % 100 = 7")
    if "log" in needed:
        write_commits(root / "log", 1000)
    return {name: root / name for name in (*files, "log")}


def measured(spark, table: Path | None, root: Path, sides, repeats: int):
    """Seconds of wall and processor time of each side: medians of runs that take turns on fresh copies."""
    found = [([], []) for _ in sides]
    for turn in range(repeats + 1):
        for at in (range(len(sides)), reversed(range(len(sides))))[turn % 2]:
            place = root / f"work-{at}-{turn}"
            if table is not None:
                copied(table, place)
            before, start = cpu(), time.perf_counter()
            sides[at](spark, place)
            wall, used = time.perf_counter() - start, cpu() - before
            shutil.rmtree(place, ignore_errors=True)
            if turn:
                found[at][0].append(wall)
                found[at][1].append(used)
    return [tuple(map(statistics.median, each)) for each in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="works whose name has this")
    asked = parser.parse_args()
    count = asked.rows or (8_000_000 if asked.full else 1_000_000)
    release = next(each for each in delta_spark_releases() if each.version == VERSION)
    if not pyspark.__version__.startswith(release.spark.rpartition(".")[0] + "."):
        print(f"skipped: Delta Spark {VERSION} needs PySpark {release.spark}, here is {pyspark.__version__}")
        return
    try:
        jars = release.jars()
    except NoEngineError as error:
        print(f"skipped: {error}")
        return
    spark = delta_session(jars)
    root = Path(tempfile.mkdtemp(prefix="halocline-bench-"))
    try:
        chosen = [work for work in works(count) if asked.only in work[0]]
        tables = made(spark, root, count, {table for _, table, *_ in chosen})
        rows(spark, count, 12).createOrReplaceTempView("new")
        print(f"{count:,} rows, Delta Spark {VERSION}, Spark {spark.version}; seconds, and ours to theirs\n")
        print(f"{'':<48} {'theirs':>8} {'ours':>8} {'ratio':>6} {'processor':>9} {'plain':>8} {'ratio':>6}")
        for name, table, *sides in chosen:
            theirs, ours, *plain = measured(spark, tables.get(table), root, sides, asked.repeats)
            ratio, used = ours[0] / theirs[0], ours[1] / max(theirs[1], 0.01)
            floor = f"{plain[0][0]:8.2f} {plain[0][0] / theirs[0]:6.2f}" if plain else f"{'':15}"
            judged = "" if ratio <= TARGET else f"  target {TARGET}  MISSED"
            print(f"{name:<48} {theirs[0]:8.2f} {ours[0]:8.2f} {ratio:6.2f} {used:9.2f} {floor}{judged}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
