"""Refusals: a verdict as the error that stops who is about to act, with both sides and the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halocline.compat.answer import called, in_one_line
from halocline.compat.product import is_number
from halocline.errors import IncompatibleError

if TYPE_CHECKING:
    from halocline.compat.protocol import Protocol
    from halocline.compat.verdict import Verdict

_TOO_OLD = {"reader": "READER_TOO_OLD", "writer": "WRITER_TOO_OLD"}


def refusal(verdict: Verdict, subject: str) -> IncompatibleError:
    """The error for a verdict that is not `ok`."""
    root = verdict.operation.partition(".")[0]
    side = "reader" if root == "read" else "writer"
    names = [token for token in sorted(verdict.blockers, key=features_first) if not is_number(token)]
    numbers = [token for token in sorted(verdict.blockers) if is_number(token)]
    if verdict.unknown:
        message = f"it is not known whether {verdict.release} may {root} {subject}: {verdict.reasons[0]}."
    elif verdict.wrong:
        message = f"{verdict.release} would {root} {subject} wrongly. {in_one_line(verdict.reasons)}."
    elif names:
        message = f"{subject} requires {side} feature{'s' if len(names) > 1 else ''} {', '.join(names)}."
    else:
        message = f"{subject} requires {', '.join(map(called, numbers))}."
    condition = "RELEASE_UNKNOWN" if verdict.unknown else _TOO_OLD[side]
    sides = {"table": _table_side(verdict.protocol, root), "you are": _release_side(verdict, root)}
    if verdict.refused and (peculiar := [reason for reason in verdict.reasons if ": " in reason.text]):
        sides["because"] = in_one_line(peculiar)
    fix = (
        verdict.fix.sentence(subject)
        if verdict.fix
        else f"See who could: halocline matrix --protocol '{verdict.protocol}'"
    )
    return IncompatibleError(message, condition=condition, sides=sides, next_step=fix)


def _table_side(protocol: Protocol, root: str) -> str:
    listed = protocol.reader_features if root == "read" else protocol.writer_features
    if listed is None:
        return str(protocol)
    title = "readerFeatures" if root == "read" else "writerFeatures"
    return f"({protocol.reader},{protocol.writer})  {title}: {', '.join(sorted(listed)) or 'none'}"


def _release_side(verdict: Verdict, root: str) -> str:
    if not verdict.is_known:
        return str(verdict.release)
    provided = sorted(verdict.provided, key=features_first)
    names = [token for token in provided if not is_number(token)] or provided
    return f"{verdict.release}, which {root}s: {', '.join(names) or 'nothing'}"


def features_first(token: str) -> tuple[bool, str]:
    """Sorts features by name, and numbers of versions behind them."""
    return is_number(token), token
