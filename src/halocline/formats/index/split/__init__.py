"""Splits: files that hold rows, and an index over them.

Our own split is a valid Parquet file. Behind its last row group, and before the footer, lie the files of a Tantivy
index as *blobs*, each compressed with zstd; the *layout*, an entry of the footer's metadata, says where each blob is
and what its checksum is. Parquet readers follow the footer's offsets and never see the blobs, so any of them reads the
rows; the index can be dropped or built anew.

A *field* is what the index has of one column; its *kind* says how values become terms. Text is cut into lower-case
words of up to 255 bytes by an *analyzer*; strings are kept whole. Numbers, booleans, dates, timestamps (in
microseconds) and decimals are whole numbers or doubles in columns of the index; structs and maps are JSON; binary is in
the rows only. A *hashed* field has 64 bits of each value instead of the value. Nothing is stored twice: an index finds
*row numbers*, positions in the file, and rows come from Parquet.

Promises: blobs, pages and, by what the log says, the footer are checked before they are used, so a flipped byte
anywhere is an error and not another answer; what the library raises on damage, a panic included, becomes a
`MalformedError`; a split is built in memory that does not grow with its rows.

Limits: values that no field can take (addresses that are none, strings above 65,530 bytes) are not in the index; the
layout counts them, and a search in such a field is answered from the rows. Decimals of more than 18 digits, binary
values and nested lists are in the rows only. NaN is no value of an index of doubles.

*Bundles* are the splits of IndexTables4Spark. Their rows are read from the fields that the index stores.
"""
