"""The data plane on Spark: tables are scanned and written by Spark itself, through PySpark's public interface only.

A *scan* is a DataFrame over exactly the live files of a table. A *write* leaves new files below the table and describes
them; nothing here touches a log. Both work on classic Spark and on Spark Connect, from PySpark 4.0 on.

Spark is an optional part of Halocline: importing this package does not import it.
"""
