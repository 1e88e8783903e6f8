"""Domain metadata: named configurations in the log, owned by a feature or by a user.

Names that begin with `delta.` belong to the format's features, everything else is a user's own. A domain is taken away
by a tombstone that still carries the last configuration, so that the change can be read both ways. Domains that are not
known here are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from halocline.compat.protocol import Protocol
from halocline.errors import InputError
from halocline.formats.delta.actions.action import Action, DomainMetadata

SYSTEM_PREFIX: Final = "delta."
FEATURE: Final = "domainMetadata"


def after(present: Mapping[str, DomainMetadata], actions: Iterable[Action]) -> dict[str, DomainMetadata]:
    """The live domains once the actions have been committed."""
    live = dict(present)
    for action in actions:
        if isinstance(action, DomainMetadata):
            live.pop(action.domain, None)
            if not action.removed:
                live[action.domain] = action
    return live


def check(actions: Iterable[Action], protocol: Protocol) -> None:
    """Makes sure that the table may hold domains if the commit sets any."""
    named = [action.domain for action in actions if isinstance(action, DomainMetadata)]
    if named and not protocol.supports(FEATURE):
        raise InputError(
            f"domain {named[0]!r} needs the feature {FEATURE}, which the table does not support",
            condition="FEATURE_DEPENDENCY",
            sides={"table": str(protocol), "needed": FEATURE},
            next_step=f"Set {'delta.feature.' + FEATURE}=supported on the table first.",
        )
