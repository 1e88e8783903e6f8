"""Rows out of files: native scans of exactly the live files, and the same rows through Arrow where Spark cannot."""
