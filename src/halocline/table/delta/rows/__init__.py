"""Rows that are in a Delta table and change: found, given new values, and written in one commit.

A *clause* says what is done to a row and when; a *hit* is a row that one takes, by its file and its position there. The
verbs (delete, update, merge, optimize) bring clauses and hits, `changes` makes the actions of a commit of them, and
`files` keeps what is written until it is committed, or leaves nothing of it.

Every change goes the same way. The newest version is opened behind the gate; the log and one Spark job tell which files
hold rows that are to change; those files are rewritten, or their rows marked where the table has deletion vectors
enabled; and one transaction commits it all. If anything fails before, nothing is left behind. A change that finds
nothing to change commits nothing.

Somebody else's commit in between is no trouble unless it touched rows that this one read: then a `ConflictError` says
so, and the change can be repeated. The limit is what the log knows: see `counts`.
"""
