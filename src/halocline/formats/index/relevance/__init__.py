"""Relevance: how well each row fits a query, the same however the rows are spread over splits.

A *score* is BM25, the sum over the words and phrases that a row has of

    idf * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * length / average))

where n is how often the word is in the text, at most 255; length is how many words the text has, as the index keeps it
(exact up to forty); average is the mean of the lengths over the table; and idf is ln(1 + (rows - f + 0.5) / (f + 0.5))
with f of the table's rows that have the word. A phrase has the sum of the idf of its words. Everything else in a query
(strings, numbers, ranges, patterns, misspelt words, words inside JSON, what stands behind NOT) says which rows are
found, and adds nothing.

It takes two rounds. First every split tells its *statistics*: rows, lengths, and how many rows have each word; they add
up to those of the table. Then every split scores its rows by those and gives its best; the best of these are the best
of the table. Scores are doubles that depend on the row and the table's statistics alone, so splitting, merging and the
order of splits change nothing. Deleted rows count nowhere. Of rows with the same score, the one in the split with the
lesser path comes first, then the one with the lesser number.

A *snippet* is the part of a text that shows best why it was found, with the places of the words in it.
"""
