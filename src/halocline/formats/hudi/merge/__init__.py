"""Merging: which version of a row a reader sees, when log files hold newer ones.

Every row has a *record key* that is unique in its file group. For each key, the log files hold a sequence of *entries*:
rows, parts of rows, and deletes, each with an *ordering value* if the table has ordering fields. The *rule* says which
entry wins, and whether it beats the row in the base file:

- *event time*: the larger ordering value wins; of two equal ones, the later write. A delete without an ordering value
  takes whatever was written before it.
- *commit time*: the later write wins.
- *column by column*: values that the winner leaves out, or has as null or default, are taken from the loser.

Releases before 1.0 decide by a *payload class*, later ones by a *merge mode*, and for the same table they may disagree;
`rules` says where, and which of the two holds. `entries` reads log files, `log_state` finds the winner for each key,
and `merged_rows` streams the base file against the winners. What is in memory at once is the log files of one slice and
a batch of the base file.

The limit: rules that only code of the table's owner knows (custom mergers and payloads) are refused by name.
"""
