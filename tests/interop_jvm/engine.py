"""Apache Hudi in a process of its own: a job per line in, an answer per line out. Runs on PySpark 3.5.

It imports nothing of the project, because it runs in an environment that does not have it.
"""

import json
import os
import sys
import time


def start(jar):
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC -Djol.skipHotspotSAAttach=true"
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def frame(spark, job):
    return spark.read.format("hudi").options(**job.get("options", {})).load(job["path"])


def shown(rows):
    return sorted([str(value) for value in row] for row in rows)


def read(spark, job):
    """The rows of some columns, as text."""
    return {"rows": shown(frame(spark, job).select(*job["columns"]).collect())}


def opened(spark, job):
    """Makes a DataFrame and keeps it; `collected` reads it later."""
    HELD[job["name"]] = frame(spark, job).select(*job["columns"])
    if job.get("planned"):
        HELD[job["name"]]._jdf.queryExecution().executedPlan()
    return {}


def collected(spark, job):
    return {"rows": shown(HELD.pop(job["name"]).collect())}


def upsert(spark, job):
    """Writes rows again that the table has, with another value in some columns; operation `delete` deletes them."""
    from pyspark.sql.functions import lit

    source = spark.read.format("hudi").load(job["path"]).filter(job["where"])
    source = source.drop(*[name for name in source.columns if name.startswith("_hoodie_")])
    for name, value in job.get("set", {}).items():
        source = source.withColumn(name, lit(value).cast(source.schema[name].dataType))
    # Read now, and kept where they are: the table must not change while it is read.
    rows = source.coalesce(1).localCheckpoint()
    rows.write.format("hudi").options(**job["options"]).mode("append").save(job["path"])
    return {}


def write(spark, job):
    """Writes the rows of a Parquet file."""
    rows = spark.read.parquet(job["rows"]).coalesce(1)
    rows.write.format("hudi").options(**job["options"]).mode("append").save(job["path"])
    return {}


def bootstrap(spark, job):
    """Makes a table of Parquet files that are there, one folder per partition, as the options say."""
    from pyspark.sql.types import StructType

    nothing = spark.createDataFrame([], StructType([]))
    nothing.write.format("hudi").options(**job["options"]).mode("overwrite").save(job["path"])
    return {}


def sql(spark, job):
    """Runs a statement, such as a call of a procedure."""
    return {"rows": shown(spark.sql(job["statement"]).collect())}


def lives(spark):
    try:
        return bool(spark.sparkContext._jvm.java.lang.System.currentTimeMillis())
    except Exception:
        return False


HELD = {}
JOBS = {
    "read": read,
    "opened": opened,
    "collected": collected,
    "upsert": upsert,
    "write": write,
    "bootstrap": bootstrap,
    "sql": sql,
}


def main():
    # Libraries print to standard output as they please; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = start(sys.argv[1])
    for line in sys.stdin:
        job = json.loads(line)
        try:
            spark.catalog.clearCache()
            answer = {"outcome": "done", **JOBS[job["operation"]](spark, job)}
        except Exception as error:
            causes = [text.strip()[:300] for text in str(error).split("\n") if "Exception" in text or "Caused" in text]
            answer = {"outcome": "error", "note": " || ".join(dict.fromkeys(causes))[:2000] or str(error)[:2000]}
            if not lives(spark):
                sys.exit("the JVM died")  # the next job gets another; here every answer would be an error
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
