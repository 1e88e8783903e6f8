"""The protocol of a fleet as pure functions: `step` for the coordinator, `member_step` for the member.

An *event* is a *cause* (a message of a member, a command of an operator, the passing of time) and when it is taken up.
A *step* turns a state and an event into the next state and *effects*: records to commit, answers, audit entries. The
*rules* are the small decisions that safety rests on, each by name, so that the explorer can take one out.

Promise: the same events lead to the same state. Nothing in here knows time, a store or a network; all three come in as
events and go out as effects.

Limit: a step decides by what the coordinator knows. That its effects are carried out in order, and none of them after
a commit was refused, is up to the caller.
"""
