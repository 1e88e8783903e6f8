"""The main job on one machine: a lake that is moved to newer versions, and back, while everybody uses it.

Terms
-----
The *lake* has three tables of three formats: events as they come in (Hudi), orders (Delta) and notes that people
search (index). A *pipeline* is a program that reads or writes one of them all the while; it acts as a release of a
product, and what that release would refuse is refused to it. A *real client* is another implementation, installed from
the package index into an environment of its own, that reads the same tables. The *ledger* knows which rows every
version of every table must hold, so each read can be called right or wrong.

Promise
-------
The demo ends well only if no read or write failed, no read was wrong, and every stage of the rollout and of the way
back went as planned. It needs no service, and leaves nothing behind but its report.
"""
