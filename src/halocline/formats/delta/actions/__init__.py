"""The words of a Delta log: what one line of a commit says, as a value, both ways.

An *action* is one statement of a commit: a file was added or removed, the metadata or the protocol is now this. A
*location* is where a path in the log points to. Nothing in here reads a log or decides anything.
"""
