"""What is known of a data file without opening it, and what a predicate can conclude from it.

*Bounds* are the least and greatest value and the number of nulls of a column in each file. A conclusion may keep a file
that holds no row; it never leaves out one that does.
"""
