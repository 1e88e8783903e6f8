"""Apache Hudi in a process of its own: reads a command per line, answers with a line. Runs on PySpark 3.5.

It imports nothing of the project, because it runs in an environment that does not have it.
"""

import json
import os
import sys
import time

MARK = "ANSWER "


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


def read(spark, command):
    """The rows of some columns, as text."""
    found = spark.read.format("hudi").options(**command.get("options", {})).load(command["path"])
    return sorted([[str(value) for value in row] for row in found.select(*command["columns"]).collect()])


def upsert(spark, command):
    """Writes rows again that the table has, with another value in some columns; operation `delete` deletes them."""
    from pyspark.sql.functions import lit

    source = spark.read.format("hudi").load(command["path"]).filter(command["where"])
    source = source.drop(*[name for name in source.columns if name.startswith("_hoodie_")])
    for name, value in command.get("set", {}).items():
        source = source.withColumn(name, lit(value).cast(source.schema[name].dataType))
    rows = spark.createDataFrame(source.collect(), source.schema).coalesce(1)
    rows.write.format("hudi").options(**command["options"]).mode("append").save(command["path"])
    return len(command.get("set", {}))


COMMANDS = {"read": read, "upsert": upsert}


def main():
    spark = start(sys.argv[1])
    print(MARK + json.dumps({"answer": "ready"}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            spark.catalog.clearCache()
            said = {"answer": COMMANDS[command["do"]](spark, command)}
        except Exception as error:
            causes = [text.strip()[:300] for text in str(error).split("\n") if "Exception" in text or "Caused" in text]
            said = {"error": " || ".join(dict.fromkeys(causes))[:2000] or str(error)[:2000]}
        print(MARK + json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
