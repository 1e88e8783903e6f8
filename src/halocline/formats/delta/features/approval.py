"""Approval: before a table asks more of others, somebody is asked on their behalf.

Every change of what a table is passes `approve_change`, whatever it comes from: a table that is created, a write that
brings new columns, a property that is set, a feature that is dropped. Two rules hold for all of them. Nothing grows as
a side effect: a feature comes in because the user asked for it. And where a table would require more, or use more of
what it supports, `approve` is asked first; it knows who else uses the table, and raises if somebody would break.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from halocline.compat.agreement import added_by
from halocline.compat.evolution import FeatureGain
from halocline.compat.metadata import TableMetadata
from halocline.compat.normal_form import required_closure
from halocline.compat.protocol import Protocol
from halocline.compat.request import Request
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.delta.configuration.table_configuration import TableConfiguration

Approve = Callable[[Terms | None, Terms], str]
"""Asked with the terms before, None for a new table, and the terms after; says who was checked, or raises."""


@dataclass(frozen=True)
class Approval:
    """Permission for a table to become what it is going to be.

    Attributes:
        before: The protocol so far; None for a table that is being created.
        after: The protocol that follows.
        reasons: Why features come in.
        checked: Who was asked, for people; empty if nobody had to be.
    """

    before: Protocol | None
    after: Protocol
    reasons: tuple[FeatureGain, ...] = ()
    checked: str = ""

    @property
    def grows(self) -> bool:
        """Whether the protocol changes."""
        return self.before != self.after

    def __str__(self) -> str:
        if not self.grows:
            return f"the protocol stays {self.after}" + (f". Checked: {self.checked}" if self.checked else "")
        why = "; ".join(map(str, self.reasons))
        return f"{self.before} becomes {self.after}" + (f" ({why})" if why else "") + f". Checked: {self.checked}"


def approve_change(
    before: TableConfiguration | None,
    after: TableConfiguration,
    approve: Approve,
    *,
    asked: frozenset[str] | None = frozenset(),
) -> Approval:
    """Asks whether a table may become what it is going to be; nobody is asked if it asks nothing more of others.

    Args:
        before: The table so far; None for a table that is being created.
        after: The table as it is going to be.
        approve: Asked on behalf of others who use the table.
        asked: The features that the user asked for; None if the change is about the protocol itself.

    Raises:
        InputError: The table would gain a feature that was not asked for, because it lacks what it uses already.
        IncompatibleError: Somebody known would break.
        UnavailableError: Nobody can be asked right now.
    """
    if before is None:
        return Approval(None, after.protocol, after.reasons, approve(None, after.terms))
    gained = after.protocol.features - before.protocol.features
    if asked is not None and (unasked := gained - required_closure("delta", asked)):
        raise _unasked(before, after, unasked)
    checked = ""
    if before.protocol != after.protocol or after.terms.asks_beyond(before.terms, "write"):
        checked = approve(before.terms, after.terms)
    return Approval(before.protocol, after.protocol, after.reasons, checked)


def asked_by(values: Mapping[str, str], protocol: Protocol) -> frozenset[str] | None:
    """The features that properties ask for, by name or by switching them on; None if they ask for version numbers."""
    request = Request.read(values)
    if request.reader is not None or request.writer is not None:
        return None
    return added_by(TableMetadata(values), protocol) | frozenset(request.named)


def _unasked(before: TableConfiguration, after: TableConfiguration, features: frozenset[str]) -> InputError:
    """Return the error for features that nobody asked for: the table uses them already, or the change needs them."""
    names, first = ", ".join(sorted(features)), min(features)
    if features <= required_closure("delta", added_by(before.facts, before.protocol)):
        message = f"the table uses {names} without supporting it, and nothing is upgraded as a side effect"
        next_step = "Repair the protocol first: halocline lint TABLE --fix"
    else:
        message = f"the table would gain {names}, which it does not support, and nothing is upgraded as a side effect"
        next_step = f"add_feature_support({first!r}) first, or set halocline.protocol.autoUpgrade=true."
    return InputError(
        message,
        condition="FEATURE_NEEDS_MANUAL_ENABLEMENT",
        sides={"table": str(before.protocol), "needed": str(after.protocol)},
        next_step=next_step,
    )
