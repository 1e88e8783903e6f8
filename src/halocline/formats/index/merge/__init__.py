"""Merging: many small splits become few large ones, with the same rows.

A *group* is splits of one partition that become one. Their indexes are *stitched*; where that gives eight segments or
more, these are *merged* physically; and where indexes were built in different ways, or a tenth of the rows is deleted,
the rows that are left are *indexed again*. Rows keep their order.

Promises: no row is lost or comes back, whoever writes meanwhile. A group whose splits lost rows to somebody else takes
their masks over and is committed all the same; one whose splits were removed gives way, and its file goes. Appends
never stand in the way. A split that cannot be used is left out and recorded as a skip with the reason, and rests until
its cooldown is over; its rows stay where they are and are served from Parquet.
"""
