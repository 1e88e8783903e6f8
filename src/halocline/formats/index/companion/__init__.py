"""Companion indexes: an index table over the rows of another table, kept up to date by its versions.

The *source* is a table of another format. Its companion is an index table of its own, elsewhere, with a split for each
file of the source and the columns that were chosen; it says what it belongs to in its properties. The version of the
source that it shows is recorded with every commit. Merging puts the splits of several files together.

Bringing it up to date costs what changed: files that are new are indexed, and rows that the source has deleted in place
are masked, for the rows of a file are numbered as they are in it. A file that changed in another way is indexed again.
Of a file that is gone all rows are masked; a split with more such rows than others is removed, and what is left of its
files is indexed again. All of it is one commit, so a companion shows one version of its source or another, and never
something in between.

A companion keeps a *mark* of its source: the identity of the table, and the state of it that is shown. It is *fresh* if
the source is at that mark. Of a Hudi table that is a set of completed writes, and not the newest of them: a write that
began before another one may be completed after it. Whether a companion that is not fresh may answer is the caller's to
say: with `stale="refuse"` it does not. It never answers for another table that lies where its source lay, nor does one
without a mark; both have to be built anew.

The limit: the columns that were chosen are in the splits as well, as in every split of ours.
"""
