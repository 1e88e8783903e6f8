"""The log of a Delta table replayed: checkpoints, the commits after them, and the live files that both amount to.

Promise: a damaged log is an error that names the file, never a smaller table.
"""
