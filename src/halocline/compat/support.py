"""What one release provides for one operation, worked out from knowledge once and then asked many times.

How facts become the answer to a token:

1. The facts of the finest operation that says anything count before those of its parents.
2. Among them, facts whose conditions are met count before unconditional ones.
3. If the product follows another one here (a *pin*), the other product's release answers.
4. A mode of a feature (`columnMapping:id`) that has no facts is answered like the feature.
5. For a feature, facts about all others (`*`) come next; then, as for numbers, the product's `unlisted` answer.

A release outside the known range, or one whose version cannot be read, answers `unknown` to everything. A pre-release
lies between two releases: where the release before and the release it leads to differ, it is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.product import ANY, Evidence, Fact, Pin, Product, is_number
from halocline.compat.release import Release

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one token, and the fact behind it if there is one."""

    answer: Answer
    fact: Fact | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """What a release provides for one operation on tables of one format.

    Args:
        product: What is known about the product; None if nothing is.
        known: Whether the release and the format are among what is known.
        provided: The tokens it provides whatever else is the case: the quick yes.
        conceivable: The tokens it does not refuse in every case: whatever requires more gets the quick no. None if
            there are too many to list.
        fixed: The answer to each token that does not depend on conditions.
        unlisted: The answer to a token that nothing is said about.
        conditional: The tokens whose answer depends on more than the release, with the facts to try in order.
        dangers: The tokens that can lead to wrong data.
        finer: Finer operations in which something can go wrong that this one does not show.
    """

    product: Product | None
    known: bool
    provided: frozenset[str] = _NOTHING
    conceivable: frozenset[str] | None = None
    fixed: Mapping[str, Answered] = field(default_factory=dict)
    unlisted: Answered = Answered(Answer.UNKNOWN)
    conditional: Mapping[str, tuple[Fact, ...]] = field(default_factory=dict)
    dangers: frozenset[str] = _NOTHING
    finer: tuple[tuple[str, Support], ...] = ()

    def answer(self, token: str, used: bool, table: frozenset[str]) -> Answered:
        """The answer to one token, given whether the feature is in use and what else is true of the table."""
        for name in _names(token):
            for fact in self.conditional.get(name, ()):
                if fact.holds(used, table):
                    return Answered(fact.answer, fact)
            found = self.fixed.get(name)
            if found is not None:
                return found
        return self.unlisted


@lru_cache(maxsize=4096)
def _names(token: str) -> tuple[str, ...]:
    """Under what facts about a token may stand, the nearest first."""
    if is_number(token):
        return (token,)
    return (token, token.partition(":")[0], ANY) if ":" in token else (token, ANY)


@lru_cache(maxsize=16384)
def support_of(release: Release, format: str, operation: str, knowledge: Knowledge | None = None) -> Support:
    """What a release provides for an operation on tables of a format."""
    knowledge = knowledge or Knowledge.load()
    product = knowledge.find(release.product)
    if product is None or format not in product.formats or not product.knows(release.version):
        return Support(product, False)
    found = _at(product, release, format, operation, knowledge)
    if release.version.is_pre_release:
        later = Release(product.name, release.version.release)
        if product.knows(later.version):
            found = _where_both_agree(found, _at(product, later, format, operation, knowledge))
    return found


def _at(product: Product, release: Release, format: str, operation: str, knowledge: Knowledge) -> Support:
    version = release.version
    lineage = product.lineage(operation)
    holding = [fact for fact in product.facts if fact.format == format and version in fact.spans]
    conditional: dict[str, tuple[Fact, ...]] = {}
    fixed: dict[str, Answered] = {}
    settled: set[str] = set()
    for each in lineage:
        here = [fact for fact in holding if each in fact.operations]
        for token in {token for fact in here for token in fact.tokens} - settled:
            about = [fact for fact in here if token in fact.tokens]
            conditional[token] = conditional.get(token, ()) + tuple(fact for fact in about if fact.conditional)
            plain = next((fact for fact in about if not fact.conditional), None)
            if plain is not None:
                fixed[token] = Answered(plain.answer, plain)
                settled.add(token)
    unlisted = Answered(product.unlisted)
    for pin in product.pins:
        if version in pin.spans and not set(lineage).isdisjoint(pin.operations):
            followed = support_of(Release(pin.product, pin.version), format, operation, knowledge)
            theirs = {
                token: Answered(found.answer, found.fact and _by_pin(found.fact, pin))
                for token, found in followed.fixed.items()
            }
            fixed = theirs | fixed
            told = {token: tuple(_by_pin(fact, pin) for fact in facts) for token, facts in followed.conditional.items()}
            conditional = told | conditional
            unlisted = followed.unlisted
    return _compiled(product, fixed, conditional, unlisted, _finer(product, release, format, operation, knowledge))


def _by_pin(fact: Fact, pin: Pin) -> Fact:
    """A fact about another product: no surer than that this one stands on it."""
    sources = sorted((fact.source, pin.source), key=lambda each: -Evidence.of(each).sureness)
    return replace(fact, source="; ".join(sources))


def _finer(
    product: Product, release: Release, format: str, operation: str, knowledge: Knowledge
) -> tuple[tuple[str, Support], ...]:
    """Refusing is safe, so of the finer operations only those count that can go wrong."""
    each = ((finer, support_of(release, format, finer, knowledge)) for finer in product.finer(format, operation))
    return tuple((finer, support) for finer, support in each if support.dangers)


def _compiled(
    product: Product,
    fixed: dict[str, Answered],
    conditional: dict[str, tuple[Fact, ...]],
    unlisted: Answered,
    finer: tuple[tuple[str, Support], ...] = (),
) -> Support:
    conditional = {token: facts for token, facts in conditional.items() if facts}
    dangers = {token for token, found in fixed.items() if found.answer is Answer.WRONG}
    dangers |= {token for token, facts in conditional.items() if any(fact.answer is Answer.WRONG for fact in facts)}
    provided = {
        token
        for token, found in fixed.items()
        if token != ANY
        and found.answer is Answer.OK
        and all(fact.answer is Answer.OK for fact in conditional.get(token, ()))
    }
    conceivable: frozenset[str] | None = None
    if unlisted.answer is Answer.REFUSED and ANY not in fixed and ANY not in conditional:
        not_refused = {token for token, found in fixed.items() if found.answer is not Answer.REFUSED}
        conceivable = frozenset(not_refused | conditional.keys())
    return Support(
        product, True, frozenset(provided), conceivable, fixed, unlisted, conditional, frozenset(dangers), finer
    )


def _where_both_agree(before: Support, after: Support) -> Support:
    if before.product is None:
        return before
    unknown = Answered(Answer.UNKNOWN)
    fixed: dict[str, Answered] = {}
    conditional: dict[str, tuple[Fact, ...]] = {}
    for token in (*before.fixed, *after.fixed, *before.conditional, *after.conditional):
        one, other = before.fixed.get(token, before.unlisted), after.fixed.get(token, after.unlisted)
        conditions = before.conditional.get(token, ())
        if one.answer is other.answer and conditions == after.conditional.get(token, ()):
            fixed[token], conditional[token] = one, conditions
        else:
            fixed[token] = unknown
    unlisted = before.unlisted if before.unlisted.answer is after.unlisted.answer else unknown
    return _compiled(before.product, fixed, conditional, unlisted, before.finer)
