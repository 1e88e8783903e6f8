"""Log files: rows, deletes and rollbacks that lie beside a base file until compaction merges them into it.

A log file is a row of *blocks*. A block has a *type*, a *header* (small texts by key) and a *content*. Rows come in
Avro or Parquet *data blocks*, keys to delete in *delete blocks*; a *command block* takes the blocks of another instant
back; *change blocks* tell how rows changed. The same frame carries the archived timeline of layout 1.

`frame` cuts a file into blocks and puts blocks together, the other modules read and write what is inside them. Bytes
that are no block are returned as a `CorruptSpan`: whoever knows which bytes were committed decides whether they may be
skipped, as a writer that died leaves such bytes behind.

The limit: HFile data blocks, delete blocks older than Avro, and types that this release does not know are refused by
name.
"""
