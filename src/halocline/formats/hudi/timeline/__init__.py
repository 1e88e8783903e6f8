"""The timeline: what was done to a Hudi table, when, and what came of it.

An *instant* is an action that began at a time; the time is its name. It is *requested*, *inflight* or *completed*, and
each state is a file. *Writes* are the actions that change rows: `commit`, `deltacommit` and `replacecommit`. Some
actions end under another name than they begin with: a compaction as a commit, a clustering as a replace commit.

There are two *layouts*. In layout 1 (table versions up to 7) the files lie in `.hoodie`, and what was committed is told
as JSON. In layout 2 (from 8 on) they lie in `.hoodie/timeline`, the names of completed ones also carry the *completion
time*, and bodies are Avro. A body is recognised by its first bytes, never by the layout. A table that was moved to
layout 2 without touching its timeline has both: up to the *watermark* in its properties the old rules hold.

The *active* timeline holds recent instants. Older ones are in the *archive* (layout 1) or the *LSM timeline* (layout
2); both are `history` here and read only when somebody asks for what lies before the active timeline.

`instant` reads names, `bodies` and `metadata` what files say, `history` what is no longer active, `timeline` puts them
together, and `progress` is how far somebody has read one.
"""
