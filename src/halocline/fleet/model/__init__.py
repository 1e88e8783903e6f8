"""A small fleet as a transition system: the real coordinator and the real members, with everything that can go wrong.

A *global state* of the model has two kinds of nodes. The *coordinator node* is the store, the coordinator of the newest
epoch, possibly an older one that has not noticed, and how far the one table has been raised. A *member node* is one
member's process together with the message between it and the coordinator node, what is left of its former life, and how
far its clock has fallen behind. Nodes are numbered as they turn up, so a global state is a few small numbers, and what
follows from an event is computed once for each node, by the functions that the service runs:
`halocline.fleet.core.step.step` and `halocline.fleet.core.member_step.member_step`.

What can happen: a process starts with any binary, crashes, leaves; a message is sent, arrives at either coordinator at
any later time, or never does (the next one takes its place); time passes, and a member's clock may not notice; a
coordinator's timer goes off; another coordinator takes over, at any time, since the clock of the database may be set,
while the former one relies on its lease on the store for a while; an operator gives one of the scenario's commands;
what was decided takes its time to be written, and again until the coordinator hears of it, while heartbeats arrive.

Promise: `explore` visits every global state that a scenario can reach and checks all invariants there, or says that it
stopped before. Reductions keep it small, and none loses a behaviour:

- Times are relative to now, the number of a life to the process that runs; what lies too far back to matter is equal.
- Members are interchangeable.
- A stale coordinator is followed only if it could do anything. Whether it could is tried with every message and timer:
  if each of its answers waits for a commit that the store refuses, it can be dropped.
- A table is raised as soon as a gate lets any member. Later would only be less dangerous.
- A process that stops for good is one that sends nothing; a refusal that is lost is one that was never sent.

Limits: six bounds are bounds, and the random walk of a larger fleet goes beyond each of them:

- Between a member and the coordinator there is one message at a time, beside a push and a stray if the scenario has
  them.
- Of what former lives sent, only what the last one sent can still arrive.
- A store is put back once, to what it was before the first command. Connections break, and what was on its way is lost.
- Of the coordinators that were replaced only the last is followed. What earlier ones still believe ends before that.
- A member starts again only while no more former lives are registered than the scenario says.
- Whoever waits for an answer to what took its time to be written has to ask again.
"""
