"""A lake: many tables of any format, by name.

A *lake* is a set of tables: those below one prefix, those that a `lake.toml` names, or both. Each has a *name* of one
or more parts, as in SQL: the folders below the prefix joined by dots, `sales.orders`, or what the file calls it. An
*entry* is a table's name, its place, and the format that its log folder shows; it is made without reading the table, so
a damaged table is an entry like any other.

A *client* of a lake is a release that uses some of its tables, as `lake.toml` declares it: those that neither leave a
trace in a log nor speak to a fleet.

Promise: finding tables reads listings of folders only, several at a time, and never what is inside a table. What could
not be listed, or lies too deep, is told. Tables come in the order of their paths, so a search that ends early goes on
where it ended.

Limits: a table inside another table's folder is not found, nor is one in a folder that begins with a dot or an
underscore, or is named like a partition (`day=2026-11-01`). Such tables can be named in the file.
"""
