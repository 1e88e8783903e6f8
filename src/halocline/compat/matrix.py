"""Matrices: the same question asked of many releases at once.

A *stretch* is a run of a product's releases that get the same answer. Knowledge changes only at certain releases, so a
product's whole history is a few stretches: what it does with a feature (`feature_stretches`), or with a whole protocol
(`protocol_stretches`). Nothing here decides anything; the answers are those of `halocline.compat.verdict` and the facts
behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from halocline.compat.answer import Answer, in_one_line
from halocline.compat.features import FeatureKind, feature, features, rules
from halocline.compat.knowledge import Knowledge
from halocline.compat.product import Product, is_number
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.support import Support, support_of
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict, can
from halocline.versions import Version


@dataclass(frozen=True, slots=True)
class Stretch:
    """Releases from `since` on, before `until`, that get the same answer.

    Args:
        since: The first of them.
        until: The first that gets another answer; None if that goes on to the last known release.
        answer: What they answer.
        only_unused: True if they are fine only as long as nothing uses the feature.
        what: What goes wrong, if something does.
    """

    since: Version
    until: Version | None
    answer: Answer
    only_unused: bool = False
    what: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        until = str(self.until) if self.until else None
        facts = {"since": str(self.since), "until": until, "answer": str(self.answer), "onlyUnused": self.only_unused}
        return facts | {"what": self.what} if self.what else facts

    def __str__(self) -> str:
        releases = str(self.since) if self.until is None else f"[{self.since}, {self.until})"
        return f"{releases} if unused" if self.only_unused else releases


def tokens_for(format: str, operation: str) -> tuple[str, ...]:
    """What tables of a format can require for an operation: numbers first, then features by name."""
    how, writes = rules(format), operation.startswith("write")
    if how.level_name:
        return tuple(f"{how.level_name} {level.number}" for level in how.levels)
    numbers = [f"reader {number}" for number in how.readers]
    numbers += [f"writer {number}" for number in how.writers] if writes else []
    named = [each.name for each in features(format).values() if writes or each.kind is FeatureKind.READER_WRITER]
    return tuple(numbers + sorted(named))


def token_answer(release: Release, format: str, operation: str, token: str) -> Stretch:
    """What one release answers to one token, taken by itself and in use; a stretch of that release alone.

    Example:
        >>> token_answer(Release.parse("delta-spark@2.2.0"), "delta", "write", "identityColumns").answer
        <Answer.WRONG: 'wrong'>
    """
    support = support_of(release, format, operation)
    alone = _alone(format, token)
    found = support.answer(token, True, alone)
    answer, what = found.answer, found.fact.what if found.fact else ""
    if not support.known:
        return Stretch(release.version, None, Answer.UNKNOWN)
    if answer in (Answer.OK, Answer.UNKNOWN) and (danger := _finer_danger(support, token, alone)):
        answer, what = Answer.WRONG, danger
    unused = support.answer(token, False, alone - {f"using {token}"}).answer
    only_unused = answer is Answer.REFUSED and unused is Answer.OK and not is_number(token)
    return Stretch(release.version, None, Answer.OK if only_unused else answer, only_unused, what)


def feature_stretches(product: Product, format: str, operation: str, token: str) -> tuple[Stretch, ...]:
    """A product's history with one token."""
    bounds = product.boundaries(format, operation)
    each = [token_answer(Release(product.name, bound), format, operation, token) for bound in bounds]
    return _joined(each)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A stretch of releases and the verdict on the first of them, which holds for all."""

    product: Product
    stretch: Stretch
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {"product": self.product.name, **self.stretch.to_dict(), "verdict": self.verdict.to_dict()}


def protocol_stretches(product: Product, table: str | Protocol | Terms, operation: str) -> tuple[Judgement, ...]:
    """A product's history with the terms of a table, newest releases last.

    Example:
        >>> product = Knowledge.load().product("delta-spark")
        >>> [f"{each.stretch}: {each.verdict}" for each in protocol_stretches(product, Protocol.delta(1, 3), "write")]
        ['[0.1.0, 0.8.0): refused: accepts writer version 3 from 0.8.0', '0.8.0: ok']
    """
    terms = Terms.read(table)
    bounds = product.boundaries(terms.protocol.format, operation)
    verdicts = [can(Release(product.name, bound), terms, operation) for bound in bounds]
    first_of = {verdict.release.version: verdict for verdict in verdicts}
    stretches = [Stretch(each.release.version, None, each.answer, what=in_one_line(each.reasons)) for each in verdicts]
    return tuple(Judgement(product, stretch, first_of[stretch.since]) for stretch in _joined(stretches))


def products_of(format: str, names: Sequence[str] = ()) -> tuple[Product, ...]:
    """The products that have facts about a format, or of these the ones named."""
    knowledge = Knowledge.load()
    if names:
        return tuple(knowledge.product(name) for name in names)
    return tuple(each for each in knowledge.products.values() if format in each.formats)


def _joined(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    joined: list[Stretch] = []
    for at, each in enumerate(stretches):
        until = stretches[at + 1].since if at + 1 < len(stretches) else None
        last = joined[-1] if joined else None
        if last and (last.answer, last.only_unused, last.what) == (each.answer, each.only_unused, each.what):
            joined[-1] = Stretch(last.since, until, last.answer, last.only_unused, last.what)
        else:
            joined.append(Stretch(each.since, until, each.answer, each.only_unused, each.what))
    return tuple(joined)


def _alone(format: str, token: str) -> frozenset[str]:
    """What is true of a table that has this one thing, and uses it."""
    if is_number(token):
        return frozenset({token})
    name = feature(format, token).name
    return Protocol.of(format, [name]).requires("write") | {token, f"using {token}"}


def _finer_danger(support: Support, token: str, alone: frozenset[str]) -> str:
    for operation, finer in support.finer:
        if token in finer.dangers:
            found = finer.answer(token, True, alone)
            if found.answer is Answer.WRONG and found.fact:
                return f"{found.fact.what} ({operation})"
    return ""
