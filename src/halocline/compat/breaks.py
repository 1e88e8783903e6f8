"""Who breaks when the terms of a table change, said before anything is changed.

A *client* is a release that uses a table, for reading or writing or both. It *breaks* if it may not do one of these
things afterwards and something else was the case before: it could, or it worked with wrong data and is now refused, or
it was refused and would now work with wrong data. A client that nothing is known about breaks if the table newly asks
for anything, unless it says of itself that it provides all of that. `breaks` is the one place that decides this, for
every part of Halocline that asks.

A *forecast* puts the verdicts on each client next to each other: now, and after each way a change could go.

The limit: it is as good as the knowledge behind it and as complete as the list of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from halocline.compat.knowledge import Knowledge
from halocline.compat.product import is_number
from halocline.compat.release import Release
from halocline.compat.terms import Terms, base
from halocline.compat.verdict import Verdict, can
from halocline.versions import Version

READING: Final = ("read",)
WRITING: Final = ("read", "write")
_MOST_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Client:
    """A release that uses the table.

    Attributes:
        release: Which one.
        operations: What it does to the table.
        known_from: How we know of it, for people: `observed`, `given`, `newest known`.
        last_ms: When it was last seen; None if it never was.
        name: Tells it from others of the same release; empty where the release says it all.
        provides: The features that it says it provides. Counts where nothing is known about the release.
    """

    release: Release
    operations: tuple[str, ...] = READING
    known_from: str = "given"
    last_ms: int | None = None
    name: str = ""
    provides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Break:
    """A client that breaks.

    Attributes:
        client: The client.
        verdict: The loudest verdict on what it could do and no longer can.
    """

    client: Client
    verdict: Verdict


def breaks(before: Terms | None, after: Terms, clients: Iterable[Client]) -> tuple[Break, ...]:
    """The clients that break when the terms of a table change, loudest first; a new table has none before."""
    judged = ((client, breaking(client, before, after)) for client in clients)
    found = [Break(client, verdict) for client, verdict in judged if verdict is not None]
    return tuple(sorted(found, key=lambda each: _loudest_first(each.verdict, each.client)))


def breaking(
    client: Client,
    before: Terms | None,
    after: Terms,
    *,
    was: Release | None = None,
    knowledge: Knowledge | None = None,
) -> Verdict | None:
    """The loudest verdict of an operation that a client loses when a table changes, or it changes itself, or both.

    Args:
        client: The client as it would be.
        before: The terms of the table so far; None for one that is being created.
        after: The terms it would have.
        was: The release of the client so far, if that is another one.
        knowledge: What is known about products; what ships with Halocline if left out.

    Returns:
        None if it loses nothing.

    Example:
        >>> plain, vectors = Terms.using("delta", []), Terms.using("delta", ["deletionVectors"])
        >>> print(breaking(Client(Release.parse("trino@426")), plain, vectors))
        refused: reads deletionVectors from 427, wrongly before 469
        >>> print(breaking(Client(Release.parse("trino@469")), plain, vectors, was=Release.parse("trino@426")))
        None
    """
    lost = [
        later
        for operation in _writes_first(client.operations)
        if not (later := can(client.release, after, operation, knowledge=knowledge)).ok
        and _loses(client, before, was or client.release, later, knowledge)
    ]
    return max(lost, key=lambda verdict: verdict.answer.loudness, default=None)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What becomes of one client.

    Attributes:
        client: The client.
        now: The verdict as things are.
        after: The verdict after each way the change could go.
        breaking: The verdict with which it breaks, for each way; None where it does not.
    """

    client: Client
    now: Verdict
    after: tuple[Verdict, ...]
    breaking: tuple[Verdict | None, ...]

    def to_dict(self, ways: Sequence[str]) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "client": str(self.client.release),
            "knownFrom": self.client.known_from,
            "lastSeen": self.client.last_ms,
            "now": self.now.to_dict(),
            **{
                way: {**verdict.to_dict(), "breaks": breaking is not None}
                for way, verdict, breaking in zip(ways, self.after, self.breaking, strict=True)
            },
        }


@dataclass(frozen=True)
class Forecast:
    """The outlook of every client, loudest first.

    Attributes:
        now: The terms as they are.
        after: The terms after each way the change could go.
        outlooks: One per client.
    """

    now: Terms
    after: tuple[Terms, ...]
    outlooks: tuple[Outlook, ...]

    def broken(self, way: int = 0) -> tuple[Outlook, ...]:
        """The clients that break if the change goes this way."""
        return tuple(each for each in self.outlooks if each.breaking[way] is not None)

    def still_unable(self, way: int = 0) -> tuple[Outlook, ...]:
        """Those who cannot as things are, and cannot afterwards."""
        return tuple(each for each in self.outlooks if each.breaking[way] is None and not each.after[way].ok)

    def left_able(self, way: int = 0) -> tuple[Release, ...]:
        """The clients that may do what they do, after the change went this way."""
        return tuple(each.client.release for each in self.outlooks if each.after[way].ok)

    def next_step(self, way: int = 0) -> str:
        """What would keep those that break, as a sentence; empty if none does."""
        broken = (verdict for each in self.outlooks if (verdict := each.breaking[way]) is not None)
        return next_step(broken, present=self.now.protocol.features)


def forecast(clients: Iterable[Client], now: Terms, *after: Terms) -> Forecast:
    """Judges every client as things are and after each way a change could go."""
    outlooks = [_outlook(client, now, after) for client in _once(clients)]
    outlooks.sort(key=_outlook_order)
    return Forecast(now, after, tuple(outlooks))


def newest_known(format: str = "delta") -> tuple[Client, ...]:
    """The newest release that is known of each product, as one that writes."""
    products: Mapping[str, Any] = Knowledge.load().products
    return tuple(
        Client(Release(each.name, each.last or each.boundaries(format, "write")[-1]), WRITING, "newest known")
        for each in products.values()
        if format in each.formats
    )


def next_step(verdicts: Iterable[Verdict], *, present: Set[str] = frozenset()) -> str:
    """What would turn these verdicts into `ok`, as a clause for people; of a product, the latest release it takes.

    Args:
        verdicts: The verdicts.
        present: The features that the table has. Only these are proposed to be dropped where no release helps alone:
            to drop one that is about to come in would be to leave the change.
    """
    upgrades, rest = dict[str, Version](), list[str]()
    for verdict in verdicts:
        release, fix = verdict.release, verdict.fix
        root = verdict.operation.partition(".")[0]
        if verdict.meant_otherwise:
            rest.append(f"write another version than {release}: {verdict.meant_otherwise}")
        elif fix is not None and fix.upgrade is not None:
            needed = fix.upgrade.version
            upgrades[release.product] = max(upgrades.get(release.product, needed), needed)
        elif verdict.unknown:
            meant = f"write {near}@{release.version} if that is meant, or " if (near := verdict.nearest_product) else ""
            rest.append(f"{meant}find out whether {release} {root}s it")
        elif fix is not None and fix.together is not None and present >= set(fix.together.drop):
            both = fix.together
            rest.append(f"upgrade {release.product} to {both.upgrade.version} and drop {_listed(both.drop)}")
        elif fix is not None and fix.older is not None:
            rest.append(f"{release.product} {root}s it only before {fix.older[1].until}")
        elif fix is not None and fix.drop and present >= set(fix.drop):
            rest.append(f"drop {_listed(fix.drop)}, with which {release.product} has no known release that {root}s it")
        else:
            rest.append(f"{release.product} has no known release that {root}s it")
    steps = [f"upgrade {_listed([f'{name} to {version}' for name, version in upgrades.items()])}"] if upgrades else []
    others = list(dict.fromkeys(rest))
    more = [f"and {len(others) - _MOST_TOLD} more"] if len(others) > _MOST_TOLD else []
    return "; ".join([*steps, *others[:_MOST_TOLD], *more])


def _outlook(client: Client, now: Terms, after: Sequence[Terms]) -> Outlook:
    return Outlook(
        client,
        _loudest(client, now),
        tuple(_loudest(client, terms) for terms in after),
        tuple(breaking(client, now, terms) for terms in after),
    )


def _loses(client: Client, before: Terms | None, was: Release, later: Verdict, knowledge: Knowledge | None) -> bool:
    if later.unknown and was == client.release:
        asked = later.terms.asks_beyond(before, later.operation)
        named = {base(token) for token in asked if not is_number(token)}
        return bool(asked) and not (named and named <= client.provides)
    if later.unknown or before is None:
        return True
    return can(was, before, later.operation, knowledge=knowledge).answer is not later.answer


def _loudest(client: Client, terms: Terms) -> Verdict:
    """The loudest of what it does, so that wrong rows are never hidden behind a refused write."""
    each = [can(client.release, terms, operation) for operation in _writes_first(client.operations)]
    return max(each, key=lambda verdict: verdict.answer.loudness)


def _writes_first(operations: Iterable[str]) -> list[str]:
    """Where both are refused, writing counts: what helps a writer helps it to read as well."""
    return sorted(operations, reverse=True)


def _loudest_first(verdict: Verdict, client: Client) -> tuple[int, str, str]:
    return -verdict.answer.loudness, client.name, str(client.release)


def _outlook_order(outlook: Outlook) -> tuple[int, str, str]:
    loudest = max(outlook.after or (outlook.now,), key=lambda verdict: verdict.answer.loudness)
    return _loudest_first(loudest, outlook.client)


def _once(clients: Iterable[Client]) -> list[Client]:
    """Each client once, the first word on it standing: what was observed comes before what is only known of."""
    found: dict[tuple[str, Release], Client] = {}
    for client in clients:
        found.setdefault((client.name, client.release), client)
    return list(found.values())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
