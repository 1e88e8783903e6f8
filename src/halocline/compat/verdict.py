"""Verdicts: may this release do this to a table with these terms?

`can` answers for any release, `check` stops the one that is about to act: it raises unless the answer is `ok`. Every
part of Halocline that asks "may X do Y?" asks here.

How the answers to single tokens become one:

- `refused` if anything required is refused. A gate is asked before any row moves, so one refusal stops the operation
  as a whole and nothing wrong can come of it, whatever else would have gone wrong behind that gate.
- else `wrong` if anything leads to wrong data. It outweighs `unknown`: a gate that may be there is no protection.
- else `unknown` if anything is unknown, and `ok` if everything required is provided.

Three rules keep danger from being assumed away. A coarse question covers finer operations: if `read` is ok but the
release has another way to read that returns wrong rows (`read.arrow`), the answer to `read` is `wrong`; ask for
`read.query` or `read.arrow` to tell them apart. A finer operation that refuses is harmless and does not count.
And where only the protocol is known, a feature that its numbers only imply counts as possibly in use where its use
leads to wrong data, though not where it leads to a refusal; and a refusal that depends on the use of a feature hides
nothing, for the feature may be listed and not used.

Products that make no difference between the modes of a feature answer as for the feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html import escape
from typing import Any

from halocline.compat.answer import Answer, Reason, called, in_one_line
from halocline.compat.features import feature
from halocline.compat.fix import Fix, nearest_fix
from halocline.compat.knowledge import Knowledge
from halocline.compat.product import Evidence, checked_operation, is_number
from halocline.compat.protocol import Protocol
from halocline.compat.refusal import features_first, refusal
from halocline.compat.release import Release
from halocline.compat.support import Answered, Support, support_of
from halocline.compat.terms import Terms, base
from halocline.errors import nearest
from halocline.html import html_answer
from halocline.versions import Version

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a table requires of whoever does an operation.

    Args:
        required: The tokens that must be provided.
        plain: Those of them that are no modes of features.
        possible: Features that may be in use without being required by name.
        in_use: What is known to be in use; None if that is not known.
        table: What is true of the table, as conditions of facts name it.
        format: The table format.
    """

    required: frozenset[str]
    plain: frozenset[str]
    possible: frozenset[str]
    in_use: frozenset[str] | None
    table: frozenset[str]
    format: str

    def uses(self, token: str) -> bool:
        """Whether the token counts as in use. Where nothing is known about use, what is required counts."""
        return self.in_use is None or token in self.in_use or feature(self.format, token).name in self.in_use


@dataclass(unsafe_hash=True, repr=False)
class Verdict:
    """The answer to "may it?", with the reasons and the nearest fix worked out when they are asked for.

    A verdict is true in a boolean context only if the answer is `ok`.

    Example:
        >>> verdict = can("deltalake@1.0.2", "(3,7|R: deletionVectors|W: deletionVectors)")
        >>> print(verdict, "/", verdict.fix)
        refused: reads deletionVectors from 1.3.2 / upgrade to deltalake 1.3.2 or later, or drop deletionVectors
    """

    answer: Answer
    release: Release
    terms: Terms
    operation: str
    _support: Support = field(compare=False)
    _need: Need = field(compare=False)
    _knowledge: Knowledge | None = field(default=None, compare=False)

    @property
    def protocol(self) -> Protocol:
        """The protocol that was judged."""
        return self.terms.protocol

    @property
    def ok(self) -> bool:
        """True if it may."""
        return self.answer is Answer.OK

    @property
    def refused(self) -> bool:
        """True if it would be stopped."""
        return self.answer is Answer.REFUSED

    @property
    def wrong(self) -> bool:
        """True if nothing would stop it and it would work with wrong data."""
        return self.answer is Answer.WRONG

    @property
    def unknown(self) -> bool:
        """True if nobody has told us."""
        return self.answer is Answer.UNKNOWN

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """What led to the answer, feature by feature; empty for `ok`."""
        return () if self.ok else tuple(_reasons(self))

    @cached_property
    def fix(self) -> Fix | None:
        """The nearest release that may, and the features whose removal would do; None if there is neither."""
        if self.ok:
            return None
        product, in_use = self._support.product, self.terms.in_use

        def judge(release: Release, protocol: Protocol, dropped: Sequence[str]) -> Verdict:
            left = None if in_use is None else frozenset(name for name in in_use if base(name) not in dropped)
            asked = can if release.version == self.release.version else lasting
            return asked(release, Terms(protocol, left), self.operation, knowledge=self._knowledge)

        if product is None or self.meant_otherwise:  # no release is later than a number that the product does not have
            return nearest_fix(self.release, self.protocol, (), judge)
        release = Release(product.name, self.release.version)
        return nearest_fix(release, self.protocol, product.boundaries(self.protocol.format, self.operation), judge)

    @cached_property
    def evidence(self) -> Evidence | None:
        """How the answer is known; None if it is not.

        One refusal is enough, so the surest counts; to be `ok`, everything must be, so the least sure does.

        Example:
            >>> print(can("trino@426", "(3,7|R: deletionVectors|W: deletionVectors)").evidence)
            measured
        """
        product, version = self._support.product, self.release.version
        if self.unknown or product is None:
            return None
        if self.wrong:
            told = (each for each in self.reasons if each.answer is Answer.WRONG)
            of = (product.evidence(version, each.feature, self.operation, each.source) for each in told)
            return min(of, key=lambda each: each.sureness)
        need, known = self._need, []
        for token in need.required:
            found = self._support.answer(token, need.uses(token), need.table)
            if found.answer is self.answer:
                known.append(product.evidence(version, token, self.operation, found.fact.source if found.fact else ""))
        decides = min if self.refused else max
        return decides(known, key=lambda each: each.sureness, default=None)

    @property
    def blockers(self) -> frozenset[str]:
        """The tokens that stand in the way."""
        return frozenset(reason.feature for reason in self.reasons if reason.feature)

    @property
    def is_known(self) -> bool:
        """True if anything is known about the release and tables of this format."""
        return self._support.known

    @property
    def provided(self) -> frozenset[str]:
        """The tokens that the release provides for the operation."""
        return self._support.provided

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs, as printed by `--output json`."""
        return {
            "release": str(self.release),
            "protocol": str(self.protocol),
            "operation": self.operation,
            "answer": str(self.answer),
            "evidence": None if self.evidence is None else str(self.evidence),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "fix": self.fix.to_dict() if self.fix else None,
        }

    def __bool__(self) -> bool:
        return self.answer is Answer.OK

    def __str__(self) -> str:
        return str(self.answer) if self.ok else f"{self.answer}: {in_one_line(self.reasons)}"

    @property
    def nearest_product(self) -> str:
        """The product that may be meant, where nothing is known about the one that was judged; else empty."""
        return "" if self._support.product is not None else nearest(self.release.product, Knowledge.load().files)

    @property
    def meant_otherwise(self) -> str:
        """How the product numbers itself, where the version that was judged is no such number; else empty."""
        product = self._support.product
        return "" if product is None or product.can_have(self.release.version) else product.numbering

    def _repr_html_(self) -> str:
        asked = f"{escape(str(self.release))}, {escape(self.operation)}, {escape(str(self.protocol))}"
        reasons = "".join(f"<li>{escape(reason.text)}</li>" for reason in self.reasons)
        fix = f"<p>{escape(str(self.fix))}</p>" if self.fix else ""
        return f"<div>{html_answer(str(self.answer))} {asked}<ul>{reasons}</ul>{fix}</div>"

    def __repr__(self) -> str:
        return f"<Verdict.{self.answer} {self.release} {self.operation} {self.protocol}>"


def can(
    release: str | Release,
    table: str | Protocol | Terms,
    operation: str = "read",
    *,
    knowledge: Knowledge | None = None,
) -> Verdict:
    """Whether a release may do an operation to a table with these terms.

    Args:
        release: `deltalake@1.6.6` or a `Release`. One that nobody knows gets the answer `unknown`.
        table: Its terms; or a `Protocol`, or the text of one such as `(3,7|R: deletionVectors|W: deletionVectors)`,
            where it is not known what is in use.
        operation: `read`, `write` or a finer one such as `read.arrow`.
        knowledge: What is known about products; what ships with Halocline if left out.

    Example:
        >>> can("trino@426", "(1,2)").answer, can("deltalake@1.6.6", "(2,5)", "read.arrow").answer
        (<Answer.OK: 'ok'>, <Answer.WRONG: 'wrong'>)
    """
    who = release if isinstance(release, Release) else Release.parse(release)
    terms = table if isinstance(table, Terms) else _terms(table)
    support = support_of(who, terms.protocol.format, operation, knowledge)
    need = _need(terms, operation)
    if need.required <= support.provided and support.dangers.isdisjoint(need.possible) and not support.finer:
        answer = Answer.OK
    else:
        answer = _decide(support, need)
    return Verdict(answer, who, terms, operation, support, need, knowledge)


def lasting(release: Release, terms: Terms, operation: str, *, knowledge: Knowledge | None = None) -> Verdict:
    """The verdict on a release that is to be taken: `wrong` also if it is when a listed feature comes into use.

    Example:
        >>> terms = Terms(Protocol.parse("(3,7|R: deletionVectors|W: deletionVectors)"), frozenset())
        >>> can("trino@427", terms).answer, lasting(Release.parse("trino@427"), terms, "read").answer
        (<Answer.OK: 'ok'>, <Answer.WRONG: 'wrong'>)
    """
    now = can(release, terms, operation, knowledge=knowledge)
    # One by one: among several in use, a refusal of one would hide what goes wrong with another.
    later = (can(release, terms.with_use_of([name]), operation, knowledge=knowledge) for name in sorted(terms.to_come))
    return next((each for each in later if each.wrong), now) if now.ok else now


def check(
    release: str | Release, table: str | Protocol | Terms, operation: str = "read", *, subject: str = "the table"
) -> None:
    """Returns if the release may act, raises otherwise. What is unknown does not pass."""
    verdict = can(release, table, operation)
    if not verdict.ok:
        raise refusal(verdict, subject)


@lru_cache(maxsize=16384)
def _terms(text: str | Protocol) -> Terms:
    return Terms.read(text)


@lru_cache(maxsize=16384)
def _need(terms: Terms, operation: str) -> Need:
    protocol, in_use = terms.protocol, terms.in_use
    plain = protocol.requires(checked_operation(operation), in_use)
    everything = protocol.requires("write", in_use)
    table = everything | {f"using {name}" for name in (everything if in_use is None else in_use)}
    possible = protocol.implied - plain if in_use is None else _NOTHING
    return Need(terms.requires(operation), plain, possible, in_use, table, protocol.format)


def _decide(support: Support, need: Need) -> Answer:
    """The rule in the module's docstring, for one operation and the finer ones it covers."""
    required = need.required
    if support.conceivable is not None and not need.plain <= support.conceivable:
        return Answer.REFUSED
    found, perhaps_refused = Answer.OK, False
    for token in required - support.provided:
        answered = support.answer(token, need.uses(token), need.table)
        if answered.answer is Answer.REFUSED:
            if need.in_use is not None or answered.fact is None or not answered.fact.depends_on_use:
                return Answer.REFUSED
            perhaps_refused = True
        elif answered.answer.loudness > found.loudness:
            found = answered.answer
    if found is not Answer.WRONG and (any(_possible_dangers(support, need)) or any(_finer_dangers(support, need))):
        return Answer.WRONG
    return Answer.REFUSED if perhaps_refused and found is not Answer.WRONG else found


def _possible_dangers(support: Support, need: Need) -> Iterator[tuple[str, Answered]]:
    """Features that may be in use and whose use would lead to wrong data."""
    for token in sorted(support.dangers & need.possible):
        found = support.answer(token, True, need.table | {token, f"using {token}"})
        if found.answer is Answer.WRONG:
            yield token, found


def _finer_dangers(support: Support, need: Need) -> Iterator[tuple[str, Support]]:
    """Finer operations that would work with wrong data."""
    for operation, finer in support.finer:
        if _decide(finer, need) is Answer.WRONG:
            yield operation, finer


def _reasons(verdict: Verdict) -> Iterator[Reason]:
    support, need = verdict._support, verdict._need
    if not support.known:
        yield Reason("", _why_unknown(verdict), Answer.UNKNOWN)
        return
    found = {token: support.answer(token, need.uses(token), need.table) for token in need.required - support.provided}
    # A refusal hides everything behind it; without one, wrong and unknown stand side by side.
    told = {Answer.REFUSED} if verdict.refused else {Answer.WRONG, Answer.UNKNOWN}
    for token in sorted(found, key=features_first):
        if found[token].answer in told:
            yield _reason(verdict, token, found[token])
    if verdict.wrong:
        for token, answered in _possible_dangers(support, need):
            yield _reason(verdict, token, answered)
        already = {token for token, answered in found.items() if answered.answer is Answer.WRONG}
        told_once: dict[tuple[str, Answered], list[str]] = {}
        for operation, finer in _finer_dangers(support, need):
            required = sorted((need.required - already) & finer.dangers)
            sure = ((token, finer.answer(token, need.uses(token), need.table)) for token in required)
            for token, answered in (*sure, *_possible_dangers(finer, need)):
                if answered.answer is Answer.WRONG:
                    told_once.setdefault((token, answered), []).append(operation)
        for (token, answered), operations in told_once.items():
            yield _reason(verdict, token, answered, ", ".join(operations))


def _reason(verdict: Verdict, token: str, found: Answered, operation: str = "") -> Reason:
    fact = found.fact
    source = fact.source if fact else ""
    verb = "accepts" if is_number(token) else _verb(operation or verdict.operation)
    name = called(token)
    if found.answer is Answer.WRONG:
        place = f" ({operation})" if operation else ""
        return Reason(token, f"{name}: {fact.what if fact else ''}{place}", found.answer, source)
    if found.answer is Answer.UNKNOWN:
        text = fact.what if fact and fact.what else f"whether it {verb} {name} is not known"
        return Reason(token, text, found.answer, source)
    if fact and fact.what:
        return Reason(token, f"{name}: {fact.what}", found.answer, source)
    return Reason(token, _when_instead(verdict, token, verb, name), found.answer, source)


def _when_instead(verdict: Verdict, token: str, verb: str, name: str) -> str:
    """`reads deletionVectors from 1.4.0`, or since when it no longer does, or that it never did."""
    product, need = verdict._support.product, verdict._need
    works = []
    for version in product.boundaries(need.format, verdict.operation) if product else ():
        support = support_of(
            Release(verdict.release.product, version), need.format, verdict.operation, verdict._knowledge
        )
        works.append((version, support.answer(token, need.uses(token), need.table).answer is Answer.OK))
    later = [version for version, good in works if good and version > verdict.release.version]
    if later:
        return f"{verb} {name} from {later[0]}{_if_wrongly(verdict, later)}"
    if any(good for _, good in works):
        last = max(at for at, (_, good) in enumerate(works) if good)
        return f"{verb} {name} only before {works[last + 1][0]}" if last + 1 < len(works) else f"{verb} no {name} here"
    return f"no known release {verb} {name}"


def _if_wrongly(verdict: Verdict, releases: Sequence[Version]) -> str:
    """Warns who would take the first of these releases, if it is not stopped and works with wrong data."""
    product = verdict.release.product
    judged = (
        lasting(Release(product, version), verdict.terms, verdict.operation, knowledge=verdict._knowledge)
        for version in releases
    )
    if not next(judged).wrong:
        return ""
    sound = next((each.release.version for each in judged if each.ok), None)
    return ", wrongly" + (f" before {sound}" if sound else "")


def _verb(operation: str) -> str:
    root, _, finer = operation.partition(".")
    return f"{root}s" + (f" ({finer})" if finer else "")


def _why_unknown(verdict: Verdict) -> str:
    product, release = verdict._support.product, verdict.release
    if product is None:
        near = verdict.nearest_product
        return f"nothing is known about {release.product}" + (f"; the nearest is {near}" if near else "")
    if verdict.protocol.format not in product.formats:
        return f"nothing is known about {product.name} and {verdict.protocol.format} tables"
    if not release.version.known:
        return f"{release.version} is no version of {product.name}" + (f"; {how}" if (how := product.numbering) else "")
    last = product.last or "any later one"
    known = f"nothing is known about {product.name} {release.version}: known are {product.first} to {last}"
    return f"{known}; {product.numbering}" if product.numbering else known
