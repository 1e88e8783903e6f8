"""Rows into new files: rules of the table put into the plan, files written, statistics taken from their footers.

Spark writes rows that are new; files of which few rows change are copied by Arrow (`file_copies`).
"""
