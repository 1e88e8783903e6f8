"""The protocol of a fleet as pure functions: `step` for the coordinator, `member_step` for the member.

Nothing in here knows time, a store or a network; all three come in as events and go out as effects.
"""
