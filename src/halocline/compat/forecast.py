"""What a change of protocol does to the clients of a table, said before anything is changed.

*Terms* are what a table asks of whoever uses it: a protocol, and the features in use under it. A *client* is a release
that uses the table, for reading or writing or both. A *forecast* puts a verdict on each client next to each other: now,
and after each way a change could go.

A client *breaks* if it may not afterwards and something else was the case before: it could, or it worked with wrong
data and is now refused, or it was refused and would now work with wrong data. A client that nothing is known about
breaks if the change requires anything new, since nobody can vouch for it; a change that requires nothing new breaks
nobody.

The limit: a forecast is as good as the knowledge behind it and as complete as the list of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.verdict import Verdict, can

READING: Final = ("read",)
WRITING: Final = ("read", "write")
_MAPPING_MODE: Final = "delta.columnMapping.mode"


@dataclass(frozen=True)
class Terms:
    """What a table asks of whoever uses it.

    Attributes:
        protocol: The protocol.
        in_use: The features that are switched on, and their modes where clients tell them apart: `columnMapping:name`,
            `deletionVectors:partitioned`.
    """

    protocol: Protocol
    in_use: frozenset[str]

    @staticmethod
    def of(protocol: Protocol, metadata: TableMetadata) -> Terms:
        """The terms of a table with this protocol and metadata.

        Example:
            >>> Terms.of(Protocol.delta(1, 4), TableMetadata({"delta.appendOnly": "true"})).in_use
            frozenset({'appendOnly'})
        """
        in_use = protocol.enabled(metadata)
        if "columnMapping" in in_use:
            in_use |= {f"columnMapping:{metadata.configuration.get(_MAPPING_MODE, '').strip().lower()}"}
        if "deletionVectors" in in_use and metadata.partition_columns:
            in_use |= {"deletionVectors:partitioned"}
        return Terms(protocol, in_use)

    def require(self, operation: str) -> frozenset[str]:
        """The tokens that a party must provide."""
        return self.protocol.requires(operation, self.in_use)


@dataclass(frozen=True, slots=True)
class Client:
    """A release that uses the table.

    Attributes:
        release: Which one.
        operations: What it does to the table.
        known_from: How we know of it, for people: `observed`, `given`, `newest known`.
        last_ms: When it was last seen; None if it never was.
    """

    release: Release
    operations: tuple[str, ...] = READING
    known_from: str = "given"
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What becomes of one client.

    Attributes:
        client: The client.
        now: The verdict as things are.
        after: The verdict after each way the change could go.
        breaks: Whether the client breaks, for each way.
    """

    client: Client
    now: Verdict
    after: tuple[Verdict, ...]
    breaks: tuple[bool, ...]

    def to_dict(self, ways: Sequence[str]) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "client": str(self.client.release),
            "knownFrom": self.client.known_from,
            "lastSeen": self.client.last_ms,
            "now": self.now.to_dict(),
            **{
                way: {**verdict.to_dict(), "breaks": breaks}
                for way, verdict, breaks in zip(ways, self.after, self.breaks, strict=True)
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
        return tuple(each for each in self.outlooks if each.breaks[way])

    def left_able(self, way: int = 0) -> tuple[Release, ...]:
        """The clients that may do what they do, after the change went this way."""
        return tuple(each.client.release for each in self.outlooks if each.after[way].ok)

    def next_step(self, way: int = 0) -> str:
        """What would keep those that break, as a sentence; empty if none does.

        Example:
            >>> now = Terms(Protocol.delta(1, 2), frozenset())
            >>> after = Terms(now.protocol.upgraded("v2Checkpoint"), frozenset())
            >>> forecast([Client(Release.parse("delta-spark@2.4.0"))], now, after).next_step()
            'upgrade delta-spark to 3.0.0'
        """
        return next_step([each.after[way] for each in self.broken(way)])


def forecast(clients: Iterable[Client], now: Terms, *after: Terms, knowledge: Knowledge | None = None) -> Forecast:
    """Judges every client as things are and after each way a change could go.

    Args:
        clients: Who uses the table.
        now: The terms as they are.
        after: The terms after each way the change could go.
        knowledge: What is known about products; what ships with Halocline if left out.

    Example:
        >>> dropped = Terms(Protocol.parse("(1,7|W: appendOnly,checkpointProtection,invariants)"), frozenset())
        >>> spark = Client(Release.parse("delta-spark@3.2.0"), WRITING)
        >>> found = forecast([spark], Terms(Protocol.delta(1, 2), frozenset()), dropped)
        >>> [str(each.after[0].answer) for each in found.broken()]
        ['refused']
    """
    outlooks = [_outlook(client, now, after, knowledge) for client in _once(clients)]
    outlooks.sort(key=_loudest_first)
    return Forecast(now, after, tuple(outlooks))


def newest_known(format: str = "delta", knowledge: Knowledge | None = None) -> tuple[Client, ...]:
    """The newest release that is known of each product, as one that writes.

    Example:
        >>> "delta-spark" in {client.release.product for client in newest_known()}
        True
    """
    products: Mapping[str, Any] = (knowledge or Knowledge.load()).products
    return tuple(
        Client(Release(each.name, each.last or each.boundaries(format, "write")[-1]), WRITING, "newest known")
        for each in products.values()
        if format in each.formats
    )


def next_step(verdicts: Iterable[Verdict]) -> str:
    """What would turn these verdicts into `ok`, as a clause for people."""
    upgrades, rest = dict[str, str](), list[str]()
    for verdict in verdicts:
        release, fix = verdict.release, verdict.fix
        root = verdict.operation.partition(".")[0]
        if fix is not None and fix.upgrade is not None:
            upgrades[release.product] = f"{release.product} to {fix.upgrade.version}"
        elif verdict.unknown:
            rest.append(f"find out whether {release} {root}s it")
        elif fix is not None and fix.older is not None:
            rest.append(f"{release.product} {root}s it only before {fix.older[1].until}")
        else:
            rest.append(f"{release.product} has no known release that {root}s it")
    steps = [f"upgrade {_listed(list(upgrades.values()))}"] if upgrades else []
    return "; ".join([*steps, *dict.fromkeys(rest)])


def _outlook(client: Client, now: Terms, after: Sequence[Terms], knowledge: Knowledge | None) -> Outlook:
    present = _verdict(client, now, knowledge)
    later = tuple(_verdict(client, terms, knowledge) for terms in after)
    breaks = tuple(
        _breaks(present, verdict, _requires_more(client, now, terms))
        for verdict, terms in zip(later, after, strict=True)
    )
    return Outlook(client, present, later, breaks)


def _verdict(client: Client, terms: Terms, knowledge: Knowledge | None) -> Verdict:
    """The loudest of what it does, so that wrong rows are never hidden behind a refused write.

    Where both are refused, writing counts: what helps a writer helps it to read as well.
    """
    each = [
        can(client.release, terms.protocol, operation, enabled=terms.in_use, knowledge=knowledge)
        for operation in reversed(client.operations)
    ]
    return max(each, key=lambda verdict: verdict.answer.loudness)


def _requires_more(client: Client, now: Terms, after: Terms) -> bool:
    return any(not after.require(operation) <= now.require(operation) for operation in client.operations)


def _breaks(now: Verdict, after: Verdict, requires_more: bool) -> bool:
    if after.ok or not requires_more:
        return False
    return after.answer is not now.answer or after.answer is Answer.UNKNOWN


def _loudest_first(outlook: Outlook) -> tuple[int, str]:
    loudness = max((each.answer.loudness for each in outlook.after), default=outlook.now.answer.loudness)
    return -loudness, str(outlook.client.release)


def _once(clients: Iterable[Client]) -> list[Client]:
    """Each release once, the first word on it standing: what was observed comes before what is only known of."""
    found: dict[Release, Client] = {}
    for client in clients:
        found.setdefault(client.release, client)
    return list(found.values())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
