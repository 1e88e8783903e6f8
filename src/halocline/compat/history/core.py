"""The history itself: minima, ranges and the exact check."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from halocline.compat.answer import Answer, Reason
from halocline.compat.history import file
from halocline.compat.history.lifetime import (
    Constant,
    Deprecation,
    Lifetime,
    Misreport,
    PastRelease,
    Yanked,
    beginning,
    ending,
)
from halocline.compat.history.result import SIDES, HistoryVerdict, Minimum, SideNames, in_words
from halocline.errors import IncompatibleError, InputError, MalformedError
from halocline.spans import Span, SpanSet
from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.history.diff import Diff
    from halocline.compat.history.lint import HistoryFinding

_ZERO = Version.of(0, 0, 0)


@dataclass(frozen=True)
class History:
    """When each feature was provided by servers, required or optionally used by clients, and removed.

    Example:
        >>> history = History.load("databend-meta")
        >>> str(history.min_server("260205.0.0")), str(history.min_client("1.2.873"))
        ('1.2.770', '1.2.676')
        >>> history.check(client="1.2.300", server="1.2.800").features
        ('transaction/reply_error',)
    """

    name: str
    released: Version
    lifetimes: tuple[Lifetime, ...]
    summary: str = ""
    begins: Version | None = None
    pre_releases_count: bool = False
    flags: tuple[tuple[str, str], ...] = ()
    yanked: tuple[Yanked, ...] = ()
    misreports: tuple[Misreport, ...] = ()
    constants: tuple[Constant, ...] = ()
    retired: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    releases: tuple[PastRelease, ...] = ()
    deprecation: Deprecation | None = None

    @staticmethod
    def load(name_or_path: str | Path) -> History:
        """A shipped history by name, or one of your own by path.

        Raises:
            NotFoundError: there is neither.
            MalformedError: the file breaks the rules; the message names the file and the key.
        """
        text, source = file.find(name_or_path)
        return _parsed(text, source)

    @staticmethod
    def parse(text: str, source: str = "<text>") -> History:
        """A history from the text of its file; `source` is named in complaints."""
        return _parsed(text, source)

    @staticmethod
    def shipped() -> tuple[str, ...]:
        """The names that `load` knows."""
        return file.shipped()

    # Minima: the two one-sided rules. They compare numbers, as a handshake does.

    def min_server(self, client: str | Version, *, flags: Collection[str] = ()) -> Version:
        """The least server that can serve `client`: it provides everything the client requires.

        Only the beginning of what a server provides counts; what it removes later is for `servers_for` and `check`.

        Raises:
            InputError: the client's version is not known to this history.
            MalformedError: no server ever provides a required feature, so the minimum would be infinite.
        """
        return self.explain_min_server(client, flags=flags).version

    def min_client(self, server: str | Version, *, flags: Collection[str] = ()) -> Version:
        """The least client that `server` can serve: it no longer requires anything the server has removed.

        Removed means that the server's version is not below the end of the feature. What the server has not added yet
        is not removed.

        Raises:
            InputError: the server's version is not known to this history.
            MalformedError: clients never stop requiring a removed feature, so the minimum would be infinite.
        """
        return self.explain_min_client(server, flags=flags).version

    def explain_min_server(self, client: str | Version, *, flags: Collection[str] = ()) -> Minimum:
        """`min_server` with the features that force it and the first usable build."""
        version = self._known("client", client)
        needed = [lifetime for lifetime in self._under(flags) if version in lifetime.required]
        since: dict[str, Version] = {}
        for lifetime in needed:
            first = beginning(lifetime.provided)
            if first is None:
                raise self._infinite(f"clients require {lifetime.id}, which no server provides")
            since[lifetime.id] = first
        least = max(since.values(), default=_ZERO)
        forcing = tuple(name for name, first in since.items() if first == least)
        servers = self._servers(needed)
        lacking = tuple(lifetime.id for lifetime in needed if least not in lifetime.provided)
        if lacking and (later := servers.first_from(least)):
            # `least` lies in a hole between two release lines.
            least, forcing = later, lacking
        return self._minimum("server", least, forcing, servers)

    def explain_min_client(self, server: str | Version, *, flags: Collection[str] = ()) -> Minimum:
        """`min_client` with the features that force it and the first usable build."""
        version = self._known("server", server)
        under = self._under(flags)
        until: dict[str, Version] = {}
        for lifetime in under:
            if not lifetime.required or not lifetime.removed_by(version):
                continue
            end = ending(lifetime.required)
            if end is None:
                raise self._without_end(lifetime, version)
            until[lifetime.id] = end
        least = max(until.values(), default=_ZERO)
        forcing = tuple(name for name, end in until.items() if end == least)
        return self._minimum("client", least, forcing, self._clients(under, version))

    # Ranges and the check: exact sets, with holes and removals.

    def servers_for(self, client: str | Version, *, flags: Collection[str] = ()) -> SpanSet:
        """Every server that `client` can use; empty if the client's version is not known."""
        version = self._version(client)
        if self._doubt("client", version):
            return SpanSet()
        return self._servers(lifetime for lifetime in self._under(flags) if version in lifetime.required)

    def clients_for(self, server: str | Version, *, flags: Collection[str] = ()) -> SpanSet:
        """Every client that `server` accepts; empty if the server's version is not known."""
        version = self._version(server)
        if self._doubt("server", version):
            return SpanSet()
        return self._clients(self._under(flags), version)

    def check(
        self, *, client: str | Version, server: str | Version, flags: Collection[str] = (), called: SideNames = SIDES
    ) -> HistoryVerdict:
        """Can they work together? Names every feature that the server lacks although the client requires it.

        Args:
            client: The client's version.
            server: The server's version.
            flags: The build flags that are on.
            called: What the sides are called in reasons and fixes, where it is a server that requires.

        Returns:
            `ok`, `refused`, or `unknown` if a version is not known to this history. Never raises for a version.
        """
        c, s = self._version(client), self._version(server)
        under = self._under(flags)
        doubts = (*self._doubt(called.client, c), *self._doubt(called.server, s))
        lacking = () if doubts else tuple(self._lacking(under, c, s, called))
        servers, clients = self.servers_for(c, flags=flags), self.clients_for(s, flags=flags)
        return HistoryVerdict(
            history=self.name,
            answer=Answer.loudest(reason.answer for reason in (*doubts, *lacking)),
            client=c,
            server=s,
            reasons=doubts or lacking,
            notes=() if doubts else tuple(self._notes(under, c, s)),
            servers=servers,
            clients=clients,
            fix=self._fix(c, s, servers, clients, called) if lacking else "",
        )

    def breakpoints(self, *, flags: Collection[str] = ()) -> tuple[Version, ...]:
        """Every version at which what is provided or required changes, in order."""
        under = self._under(flags)
        return tuple(sorted({v for each in under for v in (*each.provided.boundaries, *each.required.boundaries)}))

    def constant(self, version: str | Version) -> Constant | None:
        """The minima that the release `version` carries in its code, if the history records them."""
        at = self._version(version)
        return next((row for row in reversed(self.constants) if at.known and row.since <= at), None)

    # Care for the history as data.

    def lint(self) -> tuple[HistoryFinding, ...]:
        """What is wrong or suspicious in this history; see `halocline.compat.history.lint`."""
        from halocline.compat.history.lint import lint

        return lint(self)

    def diff(self, old: History) -> Diff:
        """What changed since `old`, and which changes rewrite what was already released."""
        from halocline.compat.history.diff import diff

        return diff(self, old)

    def changelog(self) -> str:
        """The whole history as Markdown, newest release first."""
        from halocline.compat.history.changelog import changelog

        return changelog(self)

    def _version(self, version: str | Version) -> Version:
        parsed = Version.parse(version)
        return parsed.release if self.pre_releases_count and parsed.is_pre_release else parsed

    def _known(self, side: str, version: str | Version) -> Version:
        parsed = self._version(version)
        for doubt in self._doubt(side, parsed):
            raise InputError(
                doubt.text,
                sides={side: str(version)[:60], "history": f"{self.name}, {self._reach()}"},
                next_step=f"Give a version, for example: --{side} {self.released}",
            )
        return parsed

    def _doubt(self, side: str, version: Version) -> tuple[Reason, ...]:
        if not version.known:
            text = f"{side} version {version.text[:60]!r} cannot be read"
        elif version.is_zero:
            text = f"{side} version {version} means that the {side} does not know its own"
        elif self.begins is not None and version < self.begins:
            text = f"{side} {version} is older than this history, which begins at {self.begins}"
        else:
            return ()
        return (Reason("", text, Answer.UNKNOWN, kind="unknown"),)

    def _reach(self) -> str:
        return f"{self.begins or _ZERO} to {self.released}"

    def _under(self, flags: Collection[str]) -> tuple[Lifetime, ...]:
        asked = {flags} if isinstance(flags, str) else set(flags)
        if not asked:
            return self.lifetimes
        known = [name for name, _ in self.flags]
        if unknown := sorted(asked - set(known)):
            raise InputError(
                f"history {self.name} has no build flag {unknown[0]!r}",
                sides={"flags": ", ".join(known) or "none"},
                next_step=f"halocline history show {self.name}",
            )
        return tuple(lifetime.under(asked) for lifetime in self.lifetimes)

    def _all(self) -> SpanSet:
        return SpanSet([Span(self.begins or _ZERO)])

    def _servers(self, needed: Iterable[Lifetime]) -> SpanSet:
        servers = self._all()
        for lifetime in needed:
            servers &= lifetime.provided
        return servers

    def _clients(self, under: Iterable[Lifetime], server: Version) -> SpanSet:
        lacking = (lifetime.required for lifetime in under if server not in lifetime.provided)
        return self._all() - SpanSet(span for required in lacking for span in required)

    def _lacking(
        self, under: Iterable[Lifetime], client: Version, server: Version, called: SideNames
    ) -> Iterable[Reason]:
        provider = called.server
        for lifetime in under:
            if client not in lifetime.required or server in lifetime.provided:
                continue
            requires = f"{called.client} {client} requires {lifetime.id}"
            later = next((span.since for span in lifetime.provided if span.since > server), None)
            if lifetime.removed_for_good_by(server):
                text, kind = f"{requires}, removed from {provider}s at {ending(lifetime.provided)}", "removed"
            elif lifetime.removed_by(server):
                text = f"{requires}, which {provider} {server} lacks and {provider}s from {later} have again"
                kind = "removed"
            elif later is not None:
                text, kind = f"{requires}, which {provider}s provide from {later}", "missing"
            else:
                text, kind = f"{requires}, which no {provider} provides", "missing"
            yield Reason(lifetime.id, text, Answer.REFUSED, kind=kind)

    def _notes(self, under: Iterable[Lifetime], client: Version, server: Version) -> Iterable[str]:
        for side, version in (("client", client), ("server", server)):
            for yanked in self._yanked(side):
                if version in yanked.span:
                    yield f"{side} {version} was yanked; the first usable one is {yanked.span.until}"
            for odd in self.misreports:
                if version == odd.version:
                    yield f"{side} {version} reports itself as {odd.reports}, so its peer may treat it as that"
                elif version == odd.reports:
                    yield f"a {side} that reports {version} may also be {odd.version}"
            if version > self.released:
                yield f"{side} {version} is later than this history, which ends at {self.released}"
        for lifetime in under:
            uses = client in lifetime.optional and client not in lifetime.required
            if uses and server not in lifetime.provided:
                instead = f": {lifetime.fallback}" if lifetime.fallback else ""
                yield f"server {server} lacks {lifetime.id}, so the client falls back{instead}"
            if client in lifetime.required and server in lifetime.provided and server in lifetime.inert:
                yield f"server {server} still has {lifetime.id}, but makes no use of it"

    def _fix(self, client: Version, server: Version, servers: SpanSet, clients: SpanSet, called: SideNames) -> str:
        """The nearest single upgrade of either side; failing that, what would do."""
        options = []
        for side, version, fits in (("client", client, clients), ("server", server, servers)):
            name = getattr(called, side)
            usable = fits - self._unusable(side)
            later = SpanSet(span for span in usable if span.since > version)
            if later:
                first = later.spans[0]
                limit = "" if first.until is None else f" (below {first.until})"
                options.append(f"the {name} to {first.since} or later{limit}")
        if options:
            return "Upgrade " + ", or ".join(options)
        if servers:
            needed = f"this {called.client} needs a {called.server} in {in_words(servers)}"
            return f"No upgrade of one side alone helps; {needed}"
        return f"No {called.server} fits {called.client} {client}; upgrade both"

    def _minimum(self, side: str, least: Version, forcing: tuple[str, ...], fits: SpanSet) -> Minimum:
        if least not in self._unusable(side):
            return Minimum(least, forcing, least)
        notes = [f"{y.span.since} was yanked" for y in self._yanked(side) if least in y.span]
        notes += [f"{odd.version} reports itself as {odd.reports}" for odd in self.misreports if odd.version == least]
        usable = (fits - self._unusable(side)).first_from(least)
        return Minimum(least, forcing, usable, (*notes, f"the first usable {side} is {usable or 'not known'}"))

    def _yanked(self, side: str) -> Iterable[Yanked]:
        return (yanked for yanked in self.yanked if yanked.side in ("", side))

    def _unusable(self, side: str) -> SpanSet:
        misreported = (Span(odd.version, odd.use) for odd in self.misreports if odd.use is not None)
        return SpanSet((*(yanked.span for yanked in self._yanked(side)), *misreported))

    def _infinite(self, problem: str) -> MalformedError:
        return MalformedError(
            f"history {self.name}: {problem}, so the minimum would be infinite",
            condition="MALFORMED_HISTORY",
            next_step=f"halocline history lint {self.name}",
        )

    def _without_end(self, lifetime: Lifetime, server: Version) -> MalformedError | IncompatibleError:
        if lifetime.removed_for_good_by(server):
            return self._infinite(f"servers removed {lifetime.id}, which clients never stop requiring")
        return IncompatibleError(
            f"there is no least client for server {server}: it lacks {lifetime.id}, which new clients require",
            sides={"server": f"provides it in {lifetime.provided}", "client": f"requires it in {lifetime.required}"},
            next_step=f"halocline history show {self.name} --at {server}",
        )


@lru_cache(maxsize=64)
def _parsed(text: str, source: str) -> History:
    return History(**file.parse(text, source))
