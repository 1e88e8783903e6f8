"""Rows into new files: rules of the table put into the plan, files written, statistics taken from their footers."""
