"""Domain metadata: named configurations in the log, owned by a feature or by a user.

Names that begin with `delta.` belong to the format's features; a user may neither set nor remove them. Everything
else is a user's own. A domain is taken away by a tombstone that still carries the last configuration, so that the
change can be read both ways. Domains that nobody here knows are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from halocline.errors import DeniedError, InputError, NotFoundError
from halocline.formats.delta.actions.action import Action, DomainMetadata

if TYPE_CHECKING:
    from halocline.compat.protocol import Protocol

SYSTEM_PREFIX: Final = "delta."
FEATURE: Final = "domainMetadata"


def user_domain(domain: str, configuration: str) -> DomainMetadata:
    """The action that sets a user's domain.

    Raises:
        DeniedError: The name belongs to the format.

    Example:
        >>> user_domain("billing", '{"owner": "finance"}')
        DomainMetadata(domain='billing', configuration='{"owner": "finance"}', removed=False)
    """
    _check_not_system(domain)
    return DomainMetadata(domain, configuration)


def user_domain_removal(domain: str, present: Mapping[str, DomainMetadata]) -> DomainMetadata:
    """The tombstone for a user's domain, with the configuration it had.

    Raises:
        DeniedError: The name belongs to the format.
        NotFoundError: The table has no such domain.
    """
    _check_not_system(domain)
    if domain not in present:
        raise NotFoundError(
            f"the table has no domain {domain!r}",
            sides={"asked for": domain, "present": ", ".join(sorted(present)) or "none"},
        )
    return DomainMetadata(domain, present[domain].configuration, removed=True)


def after(present: Mapping[str, DomainMetadata], actions: Iterable[Action]) -> dict[str, DomainMetadata]:
    """The live domains once the actions have been committed.

    Example:
        >>> gone = DomainMetadata("billing", "{}", removed=True)
        >>> after({"billing": DomainMetadata("billing", "{}")}, [gone])
        {}
    """
    live = dict(present)
    for action in actions:
        if isinstance(action, DomainMetadata):
            live.pop(action.domain, None)
            if not action.removed:
                live[action.domain] = action
    return live


def check(actions: Iterable[Action], protocol: Protocol) -> None:
    """Makes sure that the table may hold domains if the commit sets any.

    Raises:
        InputError: The protocol does not support the feature.
    """
    named = [action.domain for action in actions if isinstance(action, DomainMetadata)]
    if named and not protocol.supports(FEATURE):
        raise InputError(
            f"domain {named[0]!r} needs the feature {FEATURE}, which the table does not support",
            condition="FEATURE_DEPENDENCY",
            sides={"table": str(protocol), "needed": FEATURE},
            next_step=f"Set {'delta.feature.' + FEATURE}=supported on the table first.",
        )


def _check_not_system(domain: str) -> None:
    if domain.startswith(SYSTEM_PREFIX):
        raise DeniedError(
            f"domain {domain!r} belongs to the format; only its feature changes it",
            sides={"asked for": domain, "free to use": f"any name that does not begin with {SYSTEM_PREFIX}"},
        )
