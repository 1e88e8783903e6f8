"""Companion indexes: an index table over the rows of another table, kept up to date by its versions.

The *source* is a table of another format. Its companion is an index table of its own, elsewhere, with a split for each
file of the source and the columns that were chosen; it says what it belongs to in its properties. The version of the
source that it shows is recorded with every commit. Merging puts the splits of several files together.

Bringing it up to date costs what changed: files that are new are indexed, and rows that the source has deleted in place
are masked, for the rows of a file are numbered as they are in it. A file that changed in another way is indexed again.
Of a file that is gone all rows are masked; a split with more such rows than others is removed, and what is left of its
files is indexed again. All of it is one commit, so a companion shows one version of its source or another, and never
something in between.

A companion is *fresh* if it shows the version that the source has. Whether an old one may answer is the caller's to
say: with `stale="refuse"` it does not.

The limit: the columns that were chosen are in the splits as well, as in every split of ours.
"""
