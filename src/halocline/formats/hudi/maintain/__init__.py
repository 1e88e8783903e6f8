"""Keeping a Hudi table fast and small, at the table version that it has.

Each *service* is an action of the timeline like any other: it is requested with a *plan*, is under way, and counts once
it is completed; a crash in between leaves it pending, and it is run again with the same plan. `compaction` merges log
files into base files, `clustering` puts the rows of small files together, `cleaning` removes files that no query can
ask for any more, `archiving` moves old instants to the history. `running` is how the first two are done in parts,
`locks` how several writers take turns.

What no service touches: rows. A query returns the same before and after, except time travel behind what was cleaned.
"""
