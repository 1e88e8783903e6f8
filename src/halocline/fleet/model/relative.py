"""What a coordinator knows, told anew: times relative to now, lives to the one that runs, members by other names."""

from __future__ import annotations

from dataclasses import replace

from halocline.fleet.core.state import MemberKey, State
from halocline.fleet.model.member import FAR, LIFE


def later(state: State) -> State:
    """Time passes."""
    presences = {
        key: presence if presence.until > FAR else replace(presence, until=presence.until - 1)
        for key, presence in state.presences.items()
    }
    return replace(state, presences=presences)


def _renamed(state: State, keys: dict[MemberKey, MemberKey], incarnations: dict[str, int]) -> State:
    members = {}
    for key, member in state.fleet.members.items():
        new = keys.get(key, key)
        report = replace(member.report, identity=new.identity, incarnation=new.incarnation)
        members[new] = replace(member, report=report)
    fleet = replace(state.fleet, members=members, incarnations=incarnations)
    return replace(state, fleet=fleet, presences={keys.get(key, key): each for key, each in state.presences.items()})


def called(state: State, names: dict[str, str]) -> State:
    """Members are called differently."""
    keys = {
        key: MemberKey(names[key.identity], key.incarnation) for key in state.fleet.members if key.identity in names
    }
    return _renamed(state, keys, {names.get(name, name): life for name, life in state.fleet.incarnations.items()})


def outlived(state: State, name: str, strays: bool) -> State:
    """A new life of one member begins: what was its life is now its last one, and others lie before that.

    Of those before, only the order matters; and of the highest that was ever admitted, only whether a life that can
    still speak is higher.
    """
    lives = sorted((key for key in state.fleet.members if key.identity == name), reverse=True)
    before = [key for key in lives if key.incarnation < LIFE]
    keys = {key: MemberKey(name, LIFE - 2 - rank) for rank, key in enumerate(before)}
    if len(before) < len(lives):
        keys[MemberKey(name, LIFE)] = MemberKey(name, LIFE - 1)
    incarnations = {**state.fleet.incarnations}
    highest = max(incarnations.pop(name, 0) - 1, LIFE - 2)
    if lives or (strays and highest == LIFE - 1):
        incarnations[name] = highest
    return _renamed(state, keys, incarnations)
