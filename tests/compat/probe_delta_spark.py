"""Runs with one release of Delta Spark: takes jobs from standard input, one JSON object a line, and answers each.

It imports nothing of the project, because it runs in an environment that does not have it.
"""

import json
import os
import sys
import time

import cloudpickle

# That of the oldest releases cannot be imported by this Python. Nothing is pickled here.
sys.modules.setdefault("pyspark.cloudpickle", cloudpickle)


def start():
    os.environ["TZ"] = "UTC"
    time.tzset()
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": os.environ["HALOCLINE_JARS"],
        # Delta Spark keeps the state of every table it saw: in 1 GB it spends its time on collecting garbage.
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def read(spark, job):
    return rows_of(spark.read.format("delta").load(job["path"]), job["columns"])


def changes(spark, job):
    if release() < (2, 0):
        return {"outcome": "absent"}
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(job["path"])
    return rows_of(feed, [*job["columns"], "_change_type"])


def append(spark, job):
    values = ", ".join(f"{expression(name, value)} as {name}" for name, value in job["row"].items())
    if release() < (3, 1):
        spark.sql(f"select {values}").write.format("delta").mode("append").save(job["path"])
    else:
        # Only an INSERT fills in the defaults of columns that it leaves out.
        spark.sql(f"insert into delta.`{job['path']}` ({', '.join(job['row'])}) select {values}")
    return {"outcome": "done"}


def delete(spark, job):
    spark.sql(f"delete from delta.`{job['path']}` where id = 1")
    return read(spark, job)


def merge(spark, job):
    source = "(select cast(3 as bigint) as id)"
    on = f"merge into delta.`{job['path']}` t using {source} s on t.id = s.id"
    spark.sql(f"{on} when matched then update set t.value = 'm'")
    return read(spark, job)


def optimize(spark, job):
    if release() < (1, 2):
        return {"outcome": "absent"}
    append(spark, job)
    spark.sql(f"optimize delta.`{job['path']}`")
    return read(spark, job)


def statements(spark, job):
    """Runs SQL, and returns the rows of the last statement as text."""
    found = []
    for text in job["statements"]:
        found = spark.sql(text).collect()
    return {"outcome": "done", "rows": sorted([str(value) for value in row] for row in found)}


def attempts(spark, job):
    """Runs SQL, and goes on after what fails: of each statement what is said against it, its rows, and the version."""
    found = []
    for text in job["statements"]:
        note, rows = "", []
        try:
            rows = sorted([str(value) for value in row] for row in spark.sql(text).collect())
        except Exception as error:
            note = note_of(error)
        log = os.path.join(job["path"], "_delta_log")
        versions = [int(name[:20]) for name in os.listdir(log) if name.endswith(".json") and name[:20].isdigit()]
        found.append({"note": note, "rows": rows, "version": max(versions)})
    return {"outcome": "done", "found": found}


def written(spark, job):
    """Writes the rows of a query the way DataFrames are written."""
    into = spark.sql(job["query"]).write.format("delta").mode(job["mode"]).options(**job.get("options", {}))
    into.partitionBy(*job.get("by", [])).save(job["path"])
    return {"outcome": "done"}


def feed(spark, job):
    """What happened to rows, as text."""
    rows = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(job["path"])
    found = rows.select("_change_type", "_commit_version", *job["columns"]).collect()
    return {"outcome": "done", "rows": sorted([str(value) for value in row] for row in found)}


def stream(spark, job):
    """Copies what a table has, and what it got since the last time, into another one."""
    rows = spark.readStream.format("delta").options(**job.get("options", {})).load(job["path"])
    if job.get("counts"):
        rows = rows.groupBy(job["counts"]).count()
    into = rows.writeStream.format("delta").option("checkpointLocation", job["checkpoint"])
    into = into.outputMode(job.get("mode", "append"))
    into.trigger(availableNow=True).start(job["target"]).awaitTermination()
    return {"outcome": "done"}


def release():
    names = [os.path.basename(each) for each in os.environ["HALOCLINE_JARS"].split(",")]
    name = next(each for each in names if each.startswith(("delta-core_", "delta-spark_")))
    return tuple(int(each) for each in name.rpartition("-")[2][: -len(".jar")].split(".")[:2])


def expression(name, value):
    if name == "at":
        return f"cast('{value}' as timestamp_ntz)"
    if name == "v":
        return f"parse_json('{value}')"
    if name == "small":
        return f"cast({value} as int)"
    return f"cast({value} as bigint)" if isinstance(value, int) else f"'{value}'"


def rows_of(frame, columns):
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        return {"outcome": "done", "rows": None, "note": "no column " + ", ".join(missing)}
    found = [[plain(value) for value in row] for row in frame.select(*columns).collect()]
    return {"outcome": "done", "rows": sorted(found, key=repr)}


def note_of(error):
    if isinstance(error, ConnectionError):
        # Java is gone, and so is this process then: whoever asks starts another.
        raise SystemExit(1)
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    while java is not None and "TASK_WRITE_FAILED" in text and java.getCause() is not None:
        java = java.getCause()
        text = str(java.getMessage() or java)
    return ([each.strip() for each in text.splitlines() if each.strip()] or [type(error).__name__])[0][:300]


def plain(value):
    return value if isinstance(value, (int, str, type(None))) else str(value)


OPERATIONS = {
    "read": read,
    "read.changes": changes,
    "write.append": append,
    "write.delete": delete,
    "write.merge": merge,
    "write.optimize": optimize,
    "statements": statements,
    "attempts": attempts,
    "written": written,
    "feed": feed,
    "stream": stream,
}

if __name__ == "__main__":
    # Java prints to standard output as it pleases; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = start()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = OPERATIONS[job["operation"]](session, job)
        except Exception as error:
            answer = {"outcome": "error", "note": note_of(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
