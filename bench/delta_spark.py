"""Promise: what is done to a Delta table takes at most half of what Delta Spark takes for it, in the same session.

Both work on copies of one table, in turns, one after the other. Every run opens the table anew; the copying is not
counted. Beside them, plain Parquet: what Spark takes to read or write the same rows as bare files, without a table,
where there is such a thing: the files that a change touches, and no others. Whoever has Spark read and write does not
come below that. Where this floor itself takes more than half of Delta Spark's time, it is what counts: FLOOR, with the
share of Delta Spark's time that it takes, says that Halocline takes at most 1.1 of it; else the promise is MISSED.

It needs PySpark 4.2 and the jars of Delta Spark 4.4, which are fetched from Maven Central, and says so where they
cannot be had: `make bench-delta-spark` makes such an environment.

    python bench/delta_spark.py            1 million rows
    python bench/delta_spark.py --full     8 million rows, the promise
    python bench/delta_spark.py --only merge
    python bench/delta_spark.py --full --markdown    the rows of the table in docs/speed.md
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
# Plain Parquet is the least that Spark takes; so much more is within the noise of a run.
NEAR_FLOOR = 1.1
FILES = 12
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


def bare(spark, path: Path, touched=slice(None)):
    """The files of a table, or some of them by the order of their rows, without the table: deleted rows are there."""
    files = sorted(str(file) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts)
    return spark.read.parquet(*files[touched])


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

    def merged(source, touched=slice(None)):
        def ours(spark, path):
            merge = Table.for_path(path, spark).merge(spark.sql(source), "t.id = s.id")
            merge.when_matched_update(set={"d": "s.d"}).execute()

        def plain(spark, path):
            new = spark.sql(source).withColumnRenamed("d", "new")
            df = bare(spark, path, touched).join(new, "id", "left").withColumn("d", F.coalesce("new", "d"))
            writes(df.drop("new"), path)

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

    # A third of the rows is in a third of the files, so this is the first row of one of them; half of them likewise.
    point, at_point, at_half = (
        f"id = {count // 3}",
        slice(FILES // 3, FILES // 3 + 1),
        slice(FILES // 2, FILES // 2 + 1),
    )
    yield "count", "plain", *reads(lambda df: df.count())
    yield "sum of one column", "plain", *reads(lambda df: df.agg({"k": "sum"}).collect())
    yield "filter 1 %", "plain", *reads(lambda df: df.where("k < 10").agg({"id": "sum", "s": "max"}).collect())
    yield "point look-up by statistics", "plain", *reads(lambda df: df.where(point).collect(), point)
    yield "all columns hashed", "plain", *reads(hashed)
    # Delta Spark answers the count of a DataFrame from its log as well.
    asked, _, footers = reads(lambda df: df.count())
    yield (
        "with vectors: `Table.count()`",
        "marked",
        asked,
        lambda spark, path: Table.for_path(path, spark).count(),
        footers,
    )
    yield "with vectors: `to_df().count()`", "marked", *reads(lambda df: df.count())
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
    yield "delete 1 % scattered, by vectors", "vectors", *deleted("id % 100 = 7")[:2]
    yield (
        "update in one file",
        "plain",
        by_sql(f"UPDATE {{t}} SET d = -1.0 WHERE {point}"),
        lambda spark, path: Table.for_path(path, spark).update({"d": "-1.0"}, point),
        lambda spark, path: writes(bare(spark, path, at_point).withColumn("d", F.expr(f"IF({point}, -1.0D, d)")), path),
    )
    yield "merge 1 % scattered, rewriting", "plain", *merged(one_in_100)
    yield "merge 1 % scattered, by vectors", "vectors", *merged(one_in_100)[:2]
    yield "merge of a near range", "plain", *merged(near, at_half)
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
    files = {"plain": FILES, "vectors": FILES, "marked": FILES, "small": 200}
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


def judged(ratio: float, floor: float | None) -> str:
    """What is said of a ratio: nothing if it is good."""
    if ratio <= TARGET:
        return ""
    if floor is not None and floor > TARGET and ratio <= NEAR_FLOOR * floor:
        return f"  FLOOR {floor:.2f}"
    return f"  target {TARGET}  MISSED"


def line(name: str, theirs: float, ours: float, used: float, plain: float | None) -> str:
    """A line for people, with the judgement."""
    ratio, floor = ours / theirs, None if plain is None else plain / theirs
    beside = f"{'':15}" if plain is None else f"{plain:8.2f} {floor:6.2f}"
    return f"{name:<48} {theirs:8.2f} {ours:8.2f} {ratio:6.2f} {used:9.2f} {beside}{judged(ratio, floor)}"


def row(name: str, theirs: float, ours: float, used: float, plain: float | None) -> str:
    """A row of the table in `docs/speed.md`."""
    beside = "" if plain is None else f"{plain:.2f} s ({plain / theirs:.2f})"
    return f"| {name} | {theirs:.2f} s | {ours:.2f} s | {ours / theirs:.2f} (processor {used:.2f}) | {beside} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="works whose name has this")
    parser.add_argument("--markdown", action="store_true", help="rows for docs/speed.md")
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
        rows(spark, count, FILES).createOrReplaceTempView("new")
        shown = row if asked.markdown else line
        print(f"{count:,} rows, Delta Spark {VERSION}, Spark {spark.version}; seconds, and ours to theirs\n")
        print(f"{'':<48} {'theirs':>8} {'ours':>8} {'ratio':>6} {'processor':>9} {'plain':>8} {'ratio':>6}")
        for name, table, *sides in chosen:
            theirs, ours, *plain = measured(spark, tables.get(table), root, sides, asked.repeats)
            used, bare_files = ours[1] / max(theirs[1], 0.01), plain[0][0] if plain else None
            print(shown(name, theirs[0], ours[0], used, bare_files), flush=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
