"""Writing Hudi tables, as far as no engine is needed: files, what commits say about them, and instants.

A *write* is an instant. It is requested, then inflight, then completed; only the last step makes what it wrote count.
Before a data file is written, a *marker* for it is, so that whoever finds the instant unfinished knows which files to
remove. A write is at the *table version* that the table has; nothing here raises it.

`creation` makes a table, `transaction` takes a write through its states, `base_writer` and `log_writer` write data
files and give the *write stat* of each, `rollback` takes back what did not finish.
"""
