"""Hudi tables, as far as their own files tell who writes them.

A Hudi table has one number for its protocol, the *table version*, in its *properties*. What happened to it is in its
*timeline*: one file per action and state, whose name says when it began, and from table version 8 on when it ended.

The limit: nothing here reads or writes rows yet. A commit's metadata has no field for the release that wrote it (its
fields are partitionToWriteStats, compacted, extraMetadata, version and operationType), so a writer is never observed
by name; the table version tells which releases it can have been.
"""
