"""Applying a plan: its stages one after the other, with a journal that a crash does not lose.

    journal     what has been done, so that whoever comes next goes on from there
    lease       one applies at a time; another is told who does
    takeover    fences off who held the lease before, and may wake up again
    as_planned  whether tables still require what the plan has them require, asked before every step
    fleetwatch  which release every member runs, by a fleet, a file, or the word of an operator
    levels      raises the fleet for tables, and lowers it for members that go back
    moving      what is done to one table, and again after a crash
    verify      whether a table holds the same rows as before
    walk        how a plan is walked, who is told, and what is waited for
    engine      walks the stages; waits for members, gates, windows and soaking
    backwards   the same plan, the other way round
    status      where a rollout stands

Promise: exactly the plan is done, in its order; nothing is done twice that would not be the same once; a table that
moved since the plan was made, or a member that is not where the plan has it, stops it by name. What is left after a
crash is where the plan says it may be at that moment, hence nobody is broken by it.

Limits: members are not restarted from here. A stage waits until they report their release; whoever never reports has
to be confirmed by an operator. Two processes are kept apart by a lease in the lake, which is looked at immediately
before each commit. What a stalled process commits after that is stopped by the table: by the commit of whoever took
over. A clock that is wrong lets a lease be taken over too early, and nothing more than that.
"""
