"""Index tables on disk: full-text search over splits, and a log of versions, without Spark.

An index table's rows lie in *splits*, files that hold rows and a search index over them. Its *log* is a folder of
numbered commits, as Delta's is, with a *protocol* of its own: two version numbers and two feature sets. A *skip*
records a split that an operation could not use, and when it may be tried again. A *deletion mask* says which rows of a
split are gone; tables that have one need the feature `deletionMasks`.

There are two kinds of splits. *Our own* are valid Parquet files with the index between the last row group and the
footer (`halocline.formats.index.split`); tables that hold one need version 5 and the features `parquetSplit` and
`tantivyFst7`, so that IndexTables4Spark refuses them. *Bundles* are those of IndexTables4Spark 0.3 to 0.5: their rows
and columns are read, but their term dictionaries are of a kind that this release's library does not search.

From the bottom: `log` reads and writes commits and checkpoints, `split` writes and opens splits, `query` reads what is
searched for and runs it on one split, `pruning` says which splits need not be asked, `rows` gives rows as the table has
them, `protocol` says what a commit needs; `snapshot` is a version behind the gate, `transaction` makes the next one,
`search` finds rows, `relevance` puts the best first, `aggregate` counts and adds them up, `delete` takes them out,
`merge` makes few splits of many, `companion` indexes the rows of another table, `maintain` keeps a table in order, and
`inspection` tells what a table is.

What is refused, by name: tables that require more than this release provides, writing to tables whose newest state is
in Avro, companions of IndexTables4Spark (which hold no rows), and full-text search in bundles. Nothing is ever left out
silently: a commit, manifest or split that cannot be read is an error that names it.
"""
