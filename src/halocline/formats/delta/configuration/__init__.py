"""What a Delta table is: its properties, its columns and the rules that metadata must obey.

Each noun of the specification that lives in metadata has its module: properties, column mapping, identity columns,
in-commit timestamps, row tracking, type widening. `TableConfiguration` puts them together: what a table is at one
version, valid by construction. Functions take one configuration and return the next; nothing is read or written.
"""
