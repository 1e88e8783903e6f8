"""Rollouts: move tables and the programs that use them from one version to another, with nobody broken, and back.

Terms
-----
A *rollout* is what a planner is given: tables with what each is to become, members with their releases and what they
do to which table, the releases that products are to have, and those that can be had.

A *plan* is a frozen list of *stages*, one after the other. A stage is a *wave* of members that get another release, or
a set of tables that move. Inside a stage the order is free: one at a time, in any order, whatever has been done so far.
A *bridge* is a release between the one a member has and the one it is to have, which it passes because it gets along
with more of what others do meanwhile. Bridges are found, not configured.

Some releases move a table up *by themselves* when they write it. Facts about that stand with the knowledge of products.
Where such a release has a switch against it, the plan throws that switch (the member is *pinned*); where it has none,
the plan counts with the table having moved, or not yet, at any time from there on.

An *impasse* is a rollout for which there is no safe plan. It says who is in the way, and the *compromise* that stops
the fewest members, each for as short as possible.

Promise
-------
At every moment of a plan, in every order that its stages allow, each member can read and write what it uses: the
verdict is `ok`. It is never `wrong`; `unknown` only for members that were accepted by name. What a member could not do
when the rollout began may stay as it was until the plan mends it.

Limits
------
The plan is as good as the knowledge, and as complete as the list of members. It is found step by step and never taken
back on the way: it has the fewest stages among those that lead every product over the same bridges, and that may not
be the fewest there are.
"""
