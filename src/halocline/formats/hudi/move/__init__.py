"""Moving a Hudi table to another table version, up and down, while readers keep reading.

A *move* is a value: the version that the table has and the one that it is to have, what it requires of clients before
and after, and the *stages* that take it there. `explain` shows the stages and `apply_move` walks them, so what is shown
is what is done. A move goes through every version in between, one *step* each (`to_7`, `to_8`, `to_9`): a step knows
how the properties read on both sides of it, and what stands in the way. The table itself changes its version once.

**Copy, flip, clean later.** What is not finished is finished or taken back under the old rules. Where the layout of the
timeline changes, the new timeline is written beside the old one, from file to file and from archive to archive. The
table as its next version will show it is compared with the table as it is; only then do the properties *flip*, in one
atomic write. Readers from before still find the old timeline until it is *cleaned*, after a grace period.

A crash before the flip leaves the table as it was, and copies that nobody reads; after it, the table is at the new
version, and the old timeline waits to be cleaned. `resume_move` goes on either way, `undo_move` takes copies away
again. What a move changed is recorded in the table (`record`), so that the way back restores it.

The promises: every row, every instant and every archived action is there afterwards, once; a table that the version
cannot hold is refused with the feature named, before anything is changed. Log files are compacted only where the two
versions would read them differently: on the way down those that older releases cannot assign to a slice, on the way up
those for which the new merge rule chooses another row.

The limits: other writers must hold the same lock as the move. One that does not and commits to the old timeline after
the flip is found when the old timeline is cleaned, and cleaning stops. The metadata table is dropped when the layout
changes, because it is a copy of what the timeline says; the next writer that wants it builds it again. Time travel
behind a move down reads log files of the newer version, which releases before 1.0 cannot do.
"""
