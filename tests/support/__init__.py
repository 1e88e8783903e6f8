"""Parts that tests in several rooms share: builders of logs and commits, rows without an engine, other readers.

A helper that one folder alone uses stands in that folder.
"""
