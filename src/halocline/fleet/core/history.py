"""Whose history it is: how a fleet tells that its store was put back to an earlier state.

A store that is put back, by an import or by tools of its own, forgets what was announced since. Members that heard it
do not: their gates may be open above the level that now holds. So what a member knows must belong to the *history* of
the store as it is. Each coordinator that takes over has a *mark* of its own, which no other ever had. A ladder keeps
from which revision on which mark made its revisions, and each announcement carries its mark; revision and mark together
belong to one history only.

Whoever knows what is not in the history joins anew, in another life that has heard nothing. What such a member heard
was sealed with a key that the store keeps. If the seal is right, this fleet did announce it, and the store was put
back: then the *generation* of the fleet rises, and every life that was admitted in an older one has to be begun anew.
Nobody can make it rise who has not heard from a coordinator what the store has lost, and nobody twice by the same.

Limits: members of releases that send no marks are known by a newer revision only, until the generation rises. What was
announced more than `MOST_MARKS` coordinators ago is in no history any more.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from halocline.fleet.core.ladder_state import LadderState, View
from halocline.fleet.core.state import Fleet

MOST_MARKS: Final = 64
"""Coordinators whose revisions of a ladder are told apart."""


def marked(ladder: str, state: LadderState, fleet: Fleet, mark: str) -> LadderState:
    """Return where a ladder stands, with its newest revision under a coordinator's mark; as it was without a mark."""
    if not mark:
        return state
    known = state.marks if state.marks and state.marks[-1][1] == mark else (*state.marks, (state.revision, mark))
    return replace(state, marks=known[-MOST_MARKS:], proof=_seal(fleet, ladder, state.revision, fleet.generation, mark))


def is_foreign(fleet: Fleet, views: Mapping[str, View]) -> bool:
    """Return whether a member knows something that is not in the history of this store."""
    return any(not _belongs(fleet.ladder_states.get(ladder), view) for ladder, view in views.items())


def lost_generation(fleet: Fleet, views: Mapping[str, View]) -> int | None:
    """Return the newest generation in which this fleet announced what its store does not know any more; None if none.

    What was announced in an older generation than the present one has been found lost before.
    """
    lost = [
        told
        for ladder, view in views.items()
        if not _belongs(fleet.ladder_states.get(ladder), view)
        if (told := _sealed_in(fleet, ladder, view)) is not None and told >= fleet.generation
    ]
    return max(lost, default=None)


def newest_lost(fleet: Fleet, ladder: str, views: Mapping[str, View]) -> int:
    """Return the revision of a ladder that a member is proven to have heard; 0 if there is no proof.

    A revision that is merely claimed may be any, and those that follow it would be too.
    """
    view = views.get(ladder)
    return 0 if view is None or _sealed_in(fleet, ladder, view) is None else view.revision


def _belongs(state: LadderState | None, view: View) -> bool:
    if state is None or view.revision > state.revision:
        return False
    mark = view.proof.split(".")[1] if view.proof.count(".") == 2 else view.proof
    made_by = next((known for since, known in reversed(state.marks) if since <= view.revision), "")
    return mark in ("", made_by)


def _sealed_in(fleet: Fleet, ladder: str, view: View) -> int | None:
    """Return the generation in which this fleet sealed a view; None if it did not."""
    generation, _, rest = view.proof.partition(".")
    if not fleet.seal_key or not generation.isdecimal() or len(generation) > 18:
        return None
    expected = _seal(fleet, ladder, view.revision, int(generation), rest.partition(".")[0])
    return int(generation) if hmac.compare_digest(expected.encode(), view.proof.encode()) else None


def _seal(fleet: Fleet, ladder: str, revision: int, generation: int, mark: str) -> str:
    text = f"{ladder}\0{revision}\0{generation}\0{mark}".encode()
    return f"{generation}.{mark}.{hmac.new(fleet.seal_key.encode(), text, hashlib.sha256).hexdigest()[:32]}"
