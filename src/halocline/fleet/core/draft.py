"""One step under construction.

A handler reads the fleet, puts records and adds effects; `finish` turns that into the next state and the list of
effects. The state that the step began with is never touched: a collection is copied when its first record changes.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from halocline.fleet.core.effects import Announce, Audit, CommitRecords, Effect, Refusal, Refuse
from halocline.fleet.core.history import marked
from halocline.fleet.core.ladder_state import LadderState
from halocline.fleet.core.record_map import edited
from halocline.fleet.core.rules import RULES, FleetRules
from halocline.fleet.core.state import SINGLE, Fleet, MemberKey, Presence, RecordChange, State


class Draft:
    """The state as changed so far, and what is to be done about it."""

    def __init__(self, state: State, at: int, rules: FleetRules = RULES) -> None:
        self.at = at
        self.rules = rules
        self.fleet: Fleet = state.fleet
        self.weighed = state.weighed
        self.mark = state.mark
        self._before = state
        self._epoch = state.epoch
        self._presences: Mapping[MemberKey, Presence] = state.presences
        self._changes: dict[tuple[str, Any], RecordChange] = {}
        self._copied: set[str] = set()
        self._announced: dict[str, None] = {}
        self._effects: list[Effect] = []

    @property
    def state(self) -> State:
        """The state as changed so far."""
        return State(self._epoch, self.fleet, self._presences, self.weighed, self.mark)

    def put(self, kind: str, key: Any, value: Any) -> None:
        """Writes a record of the fleet; None deletes it."""
        if kind in SINGLE:
            self.fleet = replace(self.fleet, **{kind: value})
        else:
            if kind not in self._copied:
                self._copied.add(kind)
                copy: Any = edited(getattr(self.fleet, kind))
                self.fleet = replace(self.fleet, **{kind: copy})
            records = getattr(self.fleet, kind)
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value
        self._changes[kind, key] = RecordChange(kind, key, value)

    def presence(self, key: MemberKey) -> Presence:
        """What is remembered of a member; of one that was just registered, only what it was admitted with."""
        return self._presences.get(key) or Presence(self.at, 0, self.fleet.members[key].admitted)

    def remember(self, key: MemberKey, presence: Presence | None) -> None:
        """Keeps in memory what a member last said; None forgets it."""
        if "presences" not in self._copied:
            self._copied.add("presences")
            self._presences = edited(self._presences)
        presences: MutableMapping[MemberKey, Presence] = self._presences  # type: ignore[assignment]
        if presence is None:
            presences.pop(key, None)
        else:
            presences[key] = presence

    def change_ladder(self, ladder: str, **fields: Any) -> LadderState:
        """Changes where the fleet stands on a ladder; members will be told."""
        before = self.fleet.ladder_states[ladder]
        after = replace(before, **{"revision": before.revision + 1, **fields})
        after = marked(ladder, after, self.fleet, self.mark)
        self.put("ladder_states", ladder, after)
        self._announced[ladder] = None
        return after

    def take_over(self, epoch: int) -> None:
        """Acts under a new epoch from now on; the store must still have the old one."""
        self.put("epoch", (), epoch)
        self._epoch = epoch

    def add(self, effect: Effect) -> None:
        """Asks for an effect."""
        self._effects.append(effect)

    def audit(self, actor: str, action: str, subject: str, detail: str = "") -> None:
        """Records a decision."""
        self.add(Audit(self.at, actor, action, subject, detail))

    def refuse(self, to: str, action: str, refusal: Refusal, incarnation: int | None = None) -> None:
        """Says no, and records that."""
        self.add(Refuse(to, refusal, incarnation))
        self.add(Audit(self.at, to, action, refusal.subject, refusal.message, refused=refusal.condition))

    @property
    def decisions(self) -> tuple[str, ...]:
        """What was decided so far, one line for each entry in the audit log."""
        return tuple(str(effect) for effect in self._effects if isinstance(effect, Audit))

    def finish(self) -> tuple[State, tuple[Effect, ...]]:
        """The next state, and the effects in the order in which to carry them out."""
        if self._announced:
            ladder_states = self.fleet.ladder_states
            self.add(Announce(tuple(ladder_states[ladder].announced(ladder) for ladder in self._announced)))
        effects = tuple(self._effects)
        if self._changes or self.rules.confirms(effects):
            # A coordinator that has not taken over acts under no epoch that a store would accept.
            epoch = self._before.fleet.epoch if self._epoch != self._before.epoch else self._epoch
            effects = (CommitRecords(epoch, tuple(self._changes.values())), *effects)
        return self.state, effects
