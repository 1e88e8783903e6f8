"""Aggregates over the rows that a search finds: counts, sums, least and greatest values, by group.

A *metric* is what is worked out: `Count`, `Sum`, `Min`, `Max`, `Avg`. A *bucket* is what rows are grouped by:
`TermBuckets` (each value), `HistogramBuckets` (steps of equal width), `DateBuckets` (hours, days, months) and
`RangeBuckets` (named ones). A row without a value, or in no range, is in the group of null. Each split gives a
*partial*, an Arrow table of groups and states; partials of any splits, in any order, *merge* into the same result.

Promises: results are exact. Whole numbers and decimals never pass through doubles; a sum that its type cannot hold is
refused. Sums and averages of doubles are those of the real numbers, rounded once at the end, so they do not depend on
the order of rows or splits. NaN is above all other doubles, and the two zeros are one. Deleted rows do not count.

What the log knows is not read from splits: the number of rows, and the least and greatest values of splits without
deleted rows, where nothing is searched for and rows are grouped by partition columns at most.

Limits: arrays, structs and maps can be counted, and nothing else. All groups of the result are held in memory.
"""
