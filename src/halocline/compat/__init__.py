"""The one rule: a party may act only if it provides every feature that the other side requires.

    features    what is known of each feature: one record, from data
    protocol    what a table requires: a set of features, and the numbers it is written down with
    terms       a protocol and what is in use under it, with modes: the one input of every verdict
    evolution   what metadata does to a protocol: new tables, altered tables
    history     two sides of a wire, feature by feature
    release     a product at a version
    knowledge   what each release provides per operation, with a source for every fact
    verdict     may this release do this to a table with these terms? `check` raises unless it may
    breaks      who breaks when the terms of a table change

Everything in here is pure: values in, values out. Only the shipped data files, and history files that are named by
path, are read. What nobody has recorded is `unknown`; it is never guessed and never passes the gate.
"""
