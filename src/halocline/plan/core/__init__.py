"""Planning as pure functions: a rollout in, a plan or an impasse out. Nothing in here knows files, time or a network.

rollout     what is given: tables, members, goals, releases that can be had
rules       the small decisions that safety rests on, each by name
judge       may this member at this release use this table on these terms? Asks `compat` and nothing else
routes      the releases that members pass, and the bridges among them
waves       as much as possible at once, then the next
plan        the frozen result
impasse     who is in the way, and the compromise
planner     all of it together
"""
