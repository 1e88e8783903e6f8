"""The fleet: who uses the tables, with which release, and when new behaviour may begin.

Terms
-----
A *ladder* is the ordered versions of one format or product; its *rungs* carry the facts about each *level*. The fleet
stands on every ladder at one level: what all of its members understand, hence what any of them may use.

A *member* is a process with an *identity*, a *release*, an *incarnation* (a number that grows with every start), a
supported *range* per ladder and a *lease*. It joins, sends heartbeats, and leaves or falls silent. A member that never
speaks is *observed* in a table's history, *inferred*, or *declared* by hand; it counts for a while after it was last
seen.

A *view* is what a member knows of a ladder: a revision, and the level its gates open up to. It reports the oldest view
that any of its operations still acts under. The level is *settled* once no live member has an older one.

A *gate* is the question "may I use level n now?". It is asked where new behaviour begins, of one *snapshot* per
operation. A *hold* keeps the level from rising; a *downgrade* is the only thing that lets it fall.

The *coordinator* decides. It acts under an *epoch*; the store accepts writes of the newest epoch only, so a coordinator
that was replaced without noticing changes nothing.

Promise ------- If a gate for level n is open anywhere, every member whose lease is in force supports n, then and until
a downgrade has gone through all its phases. When level n is settled, no member acts under an older one. A member that
cannot say what it supports is refused and, if it is only observed, keeps the level where it is.

The decisions are one pure function, `halocline.fleet.core.step.step`, and the member's half is another,
`halocline.fleet.core.member_step.member_step`. The service, the tests and the explorer drive the same two. The rules
that the promise rests on are written as invariants in `halocline.fleet.model.invariants`, and `halocline fleet
explore` walks through every interleaving of a small fleet to check them.

Limits
------
A lease is checked before acting, and a process can stall between the two. No lease closes that gap; the table does:
raising its version is a commit, so the late commit of a stalled writer conflicts, reads the requirements again and
stops. Formats without such commits need their own lock. A reader that never commits is bounded by its lease and by
the rule that it refuses what it does not understand.

Leases compare durations, not clocks: a member's clock may be hours off, but it must not run slower than the
coordinator's by more than the margin within one lease.

Members that do not speak are known only from traces. They keep a level from rising; nothing can stop them from
appearing afterwards, except the table's own protocol.
"""
