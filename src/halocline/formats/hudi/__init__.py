"""Hudi tables as they lie on disk: what they are, what was done to them, and their rows, without Spark.

A Hudi table has one number for its protocol, the *table version*, in its *properties*. What happened to it is in its
*timeline*: one file per action and state, whose name says when it began, and from table version 8 on when it ended. Its
rows lie in *file groups*; a *file slice* is one version of a group, a *base file* and the *log files* that change it.
A *record key* names a row, and a *merge rule* says which of its versions holds.

From the bottom: `properties` and `configuration` say what a table is, `timeline` what was done to it, `names` and
`slices` which files hold its rows, `blocks` and `merge` read them, and `snapshot`, `incremental` and `change_data` are
the three ways to ask for rows.

Table versions 6 to 9 are read, copy on write and merge on read. What is refused, by name: other versions, base files
and log blocks that are not Parquet or Avro, tables that were bootstrapped without their rows, tables whose files lack
the partition columns or whose columns may have been renamed, and rows that are merged by code of the table's owner or
ordered by nested fields. The metadata table is not used: files are found by listing, which is always right, and its
indexes only make things faster.

A commit's metadata has no field for the release that wrote it (its fields are partitionToWriteStats, compacted,
extraMetadata, version and operationType), so a writer is never observed by name; the table version tells which releases
it can have been.
"""
