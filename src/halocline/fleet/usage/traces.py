"""Traces: what those who never call leave behind.

A *trace* says that a release used tables, how that is known (its *provenance*) and when it was last seen. Traces come
from the histories of tables (`halocline.fleet.usage.observers`), from lineage events
(`halocline.fleet.server.lineage`), and from people who declare a member by hand. A fleet keeps one member per trace's
identity; it counts for a while after it was last seen, and a newer trace of the same identity takes the place of an
older one.

The limit: a trace tells what was, not what is. A reader that leaves no trace is known only if an operator declares it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from halocline.fleet.core.events import Observe
from halocline.fleet.core.ladders import supported_by
from halocline.fleet.core.state import LevelRange, Provenance, TableUse, fitted_identity, known_release


@dataclass(frozen=True, slots=True)
class UsageTrace:
    """A release that was seen using tables.

    Args:
        release: What it runs, as far as known; of a range of releases the lowest.
        seen_ms: When it was seen; None for a declaration.
    """

    identity: str
    release: str
    provenance: Provenance
    seen_ms: int | None
    uses: frozenset[TableUse]
    role: str = "reader"

    @property
    def supported(self) -> dict[str, LevelRange]:
        """The levels that the release is known to support, on the ladders of the tables it uses.

        Nothing is claimed of a release that is not known; it then keeps levels where they are.
        """
        if known_release(self.release) is None:
            return {}
        found: dict[str, LevelRange] = {}
        for ladder in {use.ladder for use in self.uses}:
            used = {use.operation.partition(".")[0] for use in self.uses if use.ladder == ladder}
            able = supported_by(self.release, sorted(used & {"read", "write"}) or ["read"])
            found |= {name: each for name, each in able.items() if name == ladder}
        return found

    def event(self, actor: str = "") -> Observe:
        """The same for the core of a fleet. A fleet that is told over the wire knows the actor by itself."""
        return Observe(
            self.identity, self.release, self.provenance, actor, self.seen_ms, self.supported, self.uses, self.role
        )


def identity_of(name: str, *where: str) -> str:
    """An identity that people can read and that differs wherever any part differs.

    Example:
        >>> identity_of("nightly load", "prod")
        'nightly-load-28f8874a'
        >>> identity_of("nightly load", "prod") == identity_of("nightly load", "test")
        False
    """
    digest = hashlib.sha256("\0".join((name, *where)).encode()).hexdigest()[:8]
    return f"{fitted_identity(name, 'client', 100)}-{digest}"
