"""Avro, as Hudi uses it: for the schema of a table, for rows in log blocks, and for what the timeline says.

`types` gives Avro types their Arrow types, `columns` decodes many rows at once into Arrow columns, `containers` reads
and writes object container files of one record.

The limit: a union is a type that may be null. Unions of several types, and types that contain themselves, have no
column type and are refused.
"""
