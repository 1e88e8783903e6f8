"""How a Delta table gets its next version: one transaction, checked against those that came first.

A *transaction* reads a version, prepares actions, and commits all of them or none. A *conflict* is a commit that came
first and that rules this one out. What follows a commit (manifests, checkpoint, checksum, a shorter log) may
fail without harm.
"""
