"""Columns and values between a table and Spark: types, partition values, text of limited length, assignment."""
