"""Merging rows of a source into a Delta table.

`builder` gathers the clauses, `plan` and `keys` say which files have to be looked into, and `merge` finds the pairs of
rows that match and changes what the clauses say, in one commit.
"""
