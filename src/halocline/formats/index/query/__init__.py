"""The query language: from a text to rows of a split.

    timeout                    a word, in any column that is searched
    timeout error              either; AND, OR, NOT, + and - say more, brackets group
    "connection reset"         words in a row; "connection reset"~2 in this order, with up to two others in between
    "connection res"*          the last word may go on
    tim*  t?meout              patterns of one word, or of a whole string
    timout~1                   words that differ in one letter, or in two
    level:ERROR                one column; level:(ERROR OR WARN)
    status:[400 TO 499]        a range; {400 TO *} leaves out 400 and has no end; status:>=400 is the same as [400 TO *]
    level:IN [ERROR WARN]      one of several
    user.name:ann              inside a struct or a map
    client:10.0.0.0/8          a network
    message:*                  has a value; * alone is every row

`parse` makes a *tree* of a text; `bind` gives every leaf its field and the values their types, and refuses what the
column cannot answer; `evaluate` runs a bound tree on one split. What cannot be done is refused with the reason, and
nothing is ever taken for a literal because it was not understood: a colon after what is no column, a pattern on stemmed
words, a range over text, and AND next to a mere blank are errors. A backslash takes its meaning from the next
character.

Words are found as the column's analyzer cut them; strings are compared whole and exactly. Dates are `2024-01-31`,
timestamps `2024-01-31T12:30:00.25Z`, in UTC where no zone is said. NaN is found by no range. A text with several words
and no quotes around it, such as `time-out`, means these words in a row. Without a column, words are looked for in every
column of text or strings, and numbers, dates and addresses also in the columns that have such values; never inside
JSON, and never in columns that are not in the index.

Where the index of a split cannot answer a leaf (a range over strings, a hashed string, a column with values that are
not in the index), its column is read and the leaf is answered from the rows: slower, never different.
`Evaluation.scanned` names such columns. For words with others in between, the index tells which rows may have them, and
these rows alone are read. Inside structs and maps a number is compared in the type of what stands there: decimals
exactly, for which the index again tells which rows to read.
"""
