"""Keeping an index table in order.

`purge` deletes files that no version within the retention needs; `drop_partitions` takes whole partitions out;
`truncate_history` keeps the newest version and forgets the others; `describe_log` lists every action; `repair_log`
makes a damaged log readable again from what is left of it; `reindex` builds indexes anew, also of tables that
IndexTables4Spark wrote; `lint` tells what is wrong and what it costs.
"""
