"""The users of tables: members that speak, clients that an operator declared, and those that only left a trace.

A *trace* says that a release used tables, how that is known (its *provenance*) and when it was last seen. A *user* is
a client together with what it does to one table.

Promise: of a client whose release is not certain the lowest possible one is assumed, and one of which nothing is known
keeps levels where they are.

Limit: a trace tells what was. A reader that leaves none, and that no operator declared, is not known.
"""
