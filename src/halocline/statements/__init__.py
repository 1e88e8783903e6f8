"""SQL statements on tables by name or by path, without a jar.

A *statement* is cut into tokens by sqlglot's Databricks dialect. If the table that it acts on is *ours* (a name of the
lake, or a path as in ``delta.`lake/orders` ``), it is translated into the verb of `Table` that does it; tables of ours
that a query reads are put in its place as DataFrames, each at the version asked for. Everything else goes to Spark as
it is.

Promise: a statement is done as a whole or refused. A translation takes in every token of its statement, and one that is
left over is an error that names it; so is a clause that the verb has no place for. Conditions, values and queries reach
Spark in the words that they came in.

Limits: rows come from the version that is the newest when the statement is run. Several statements, separated by
semicolons, are run one after the other, each a commit of its own. Views over tables of ours are made with
`Lake.register_views`, not with SQL.
"""
