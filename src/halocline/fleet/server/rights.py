"""Which right every call needs: one table, from which the coordinator decides and the documentation is made.

A *rule* names a call, a right, and what the right allows by it. A call that needs another right for some requests has a
rule for those, and one for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from halocline.fleet.core.state import Provenance
from halocline.fleet.server.auth import Claims, Right, denied

LINEAGE: Final = "POST /api/v1/lineage"
METRICS: Final = "GET /metrics"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one call, or some requests of it, need.

    Args:
        call: Its name on the wire, or the method and path of HTTP.
        allows: What the right allows by this, for people: "you may …".
        when: Which requests this is about; all that no other rule is about if not given.
    """

    call: str
    right: Right
    allows: str
    when: Callable[[Any], bool] | None = None


def _of(right: Right, allows: str, *names: str, when: Callable[[Any], bool] | None = None) -> tuple[Rule, ...]:
    return tuple(Rule(name, right, allows, when) for name in names)


RULES: Final[tuple[Rule, ...]] = (
    *_of(Right.OBSERVE, "see the fleet and its members", "Handshake", "Describe", "Members", "TableUsers"),
    *_of(Right.OBSERVE, "ask who blocks and who breaks", "WhoBlocks", "WhoBreaks"),
    *_of(Right.OBSERVE, "read the audit log and the names of keys", "Audit", "Keys"),
    *_of(Right.OBSERVE, "export a backup", "Export"),
    *_of(Right.OBSERVE, "read metrics", METRICS),
    *_of(Right.JOIN, "be a member", "Handshake", when=lambda greeting: greeting.membership is not None),
    *_of(Right.JOIN, "be a member", "Session", "Leave"),
    *_of(Right.JOIN, "report the levels of tables", "MoveTable"),
    *_of(Right.JOIN, "report what was observed", "Observe", LINEAGE),
    *_of(Right.PLAN, "ask what a raise or a downgrade would take", "PlanRaise", "PlanDowngrade"),
    *_of(Right.RAISE, "raise levels", "Raise"),
    *_of(Right.RAISE, "set policies, holds and terms", "SetPolicy", "PlaceHold", "ReleaseHold", "SetTerms"),
    *_of(Right.RAISE, "downgrade", "StartDowngrade", "CleanDowngrade", "FinishDowngrade", "CancelDowngrade"),
    *_of(Right.RAISE, "declare ladders", "DeclareLadder"),
    *_of(Right.RAISE, "declare members", "Observe", when=lambda it: it.provenance is Provenance.DECLARED),
    *_of(Right.RAISE, "remove members", "RemoveMember"),
    *_of(Right.FORCE, "raise levels over the heads of members that do not speak", "Raise", when=lambda it: it.force),
    *_of(Right.FORCE, "vouch that a member is gone", "RemoveMember", when=lambda it: it.force),
    *_of(Right.FORCE, "import a backup", "Import"),
    *_of(Right.FORCE, "drop keys", "DropKey"),
)
"""The table."""

RIGHTS: Final = {rule.call: rule.right for rule in RULES if rule.when is None}
"""What each call needs, unless a rule says otherwise of the request."""


def rule_of(call: str, request: Any = None) -> Rule:
    """Return the rule that a request falls under."""
    rules = [rule for rule in RULES if rule.call == call]
    special = (rule for rule in rules if rule.when is not None and request is not None and rule.when(request))
    return next(special, next(rule for rule in rules if rule.when is None))


def check_call(claims: Claims, call: str) -> None:
    """Raise a `DeniedError` if no request of this call is allowed; before the request is looked at."""
    if not any(rule.right in claims.rights for rule in RULES if rule.call == call):
        rule = rule_of(call)
        raise denied(claims.identity, rule.allows, rule.right, claims.rights)


def check_request(claims: Claims, call: str, request: Any) -> Rule:
    """Return the rule that a request falls under; raise a `DeniedError` if it is not allowed."""
    rule = rule_of(call, request)
    claims.require(rule.right, rule.allows)
    return rule


def render_rights() -> str:
    """Return the table of the documentation."""
    lines = ["| right | allows to | calls |", "|---|---|---|"]
    for right in Right:
        rules = [rule for rule in RULES if rule.right is right]
        needs = "; each needs a reason" if right is Right.FORCE else ""
        lines.append(f"| {right} | {_listed(rule.allows for rule in rules)}{needs} | {_calls(rules)} |")
    return "\n".join(lines) + "\n"


def _listed(texts: Iterable[str]) -> str:
    *first, last = dict.fromkeys(texts)
    return f"{', '.join(first)}, and {last}" if first else last


def _calls(rules: Iterable[Rule]) -> str:
    special = {True: " (some)", False: ""}
    return ", ".join(f"`{rule.call}`{special[rule.when is not None]}" for rule in rules)
