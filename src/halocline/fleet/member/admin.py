"""An operator's client: asks a fleet questions and gives it commands.

Every answer is a value from `halocline.fleet.answers`. What got lost on the way is sent once more: a question, and a
command too, because it carries a *key* by which the fleet knows that it was done already. If that fails as well, the
error names the key; the same command with the same key can be given again, from another process and on another day.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from secrets import token_hex
from typing import TypeVar

import msgspec

from halocline.compat.terms import ProtocolChange
from halocline.errors import UnavailableError
from halocline.fleet import answers
from halocline.fleet.core import events
from halocline.fleet.core.clock import Clock
from halocline.fleet.core.ladder import Ladder, LadderLevel
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import FleetTerms, Provenance, fitted_identity
from halocline.fleet.member.link import DEADLINE, Link, LinkError
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import CHUNK, Call, Chunk
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Wire
from halocline.fleet.wire.messages import chosen
from halocline.fleet.wire.session import Welcome

_Q = TypeVar("_Q")
_A = TypeVar("_A")
_P = TypeVar("_P", bound=answers.Page)
_R = TypeVar("_R", answers.FleetMembers, answers.AffectedMembers)


class AdminClient:
    """A connection of an operator.

    Every method raises `HaloclineError` if the fleet refuses or is not reached.

    Args:
        endpoint: Where the fleet is. What an address or nothing leaves open is as the environment says: see
            `halocline.fleet.wire.endpoint.Endpoint.from_environment`.
        identity: Who asks, for the audit log; user and machine if not given.
        key: The key of the next command, if that is one whose answer was lost.

    Example:
        >>> from halocline.fleet.server.hosting import embedded
        >>> with embedded() as hosting, AdminClient(hosting.address) as fleet:
        ...     fleet.raise_level("hudi", 8, reason="all readers are new")
        ...     fleet.describe().ladder("hudi").level
        CommandResult(epoch=1, decisions=('raise hudi=8 hudi 6 to 8 all readers are new',))
        8
    """

    def __init__(
        self,
        endpoint: Endpoint | str | None = None,
        identity: str = "",
        *,
        wire: Wire | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE,
        key: str = "",
    ) -> None:
        where = Endpoint.of(endpoint)
        self._actor = identity or operator_name()
        self._key = key
        self._link = Link(where, self._actor, "operator", wire=wire, clock=clock, deadline=deadline)

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()

    def handshake(self) -> Welcome:
        """Greets the fleet and says what it answered."""
        try:
            return self._link.handshake()
        except LinkError as failed:
            raise failed.failure.error from None

    # Questions.

    def describe(self) -> answers.FleetStatus:
        """Where the fleet stands on every ladder, and what is in the way of the next level."""
        return self._ask(calls.DESCRIBE, None)

    def members(self, *, also_past: bool = False, limit: int = 0) -> answers.FleetMembers:
        """The members, all or so many of them; on request also every client that was ever greeted, or refused."""
        pages = list(self._pages(calls.MEMBERS, answers.MembersQuery(all=also_past), limit))
        known = tuple(each for page in pages for each in page.members)
        seen = tuple(each for page in pages for each in page.sightings)
        return answers.FleetMembers(known, seen, pages[-1].next)

    def table_users(self, table: str) -> answers.TableUsers:
        """The members that use a table, and the levels it requires."""
        return self._ask(calls.TABLE_USERS, table)

    def who_blocks(self, feature: str, *, limit: int = 0) -> answers.AffectedMembers:
        """The members that keep a feature from being used, all or so many of them."""
        return self._affected(calls.WHO_BLOCKS, answers.BlockQuery(feature=feature), limit)

    def who_breaks(
        self,
        *,
        remove: str = "",
        ladder: str = "",
        level: int = 0,
        change: ProtocolChange | None = None,
        limit: int = 0,
    ) -> answers.AffectedMembers:
        """The members that would break if the services lost a feature, a level rose, or a table changed."""
        query = answers.BreakQuery(remove=remove, ladder=ladder, level=level, change=change)
        return self._affected(calls.WHO_BREAKS, query, limit)

    def plan_raise(self, ladder: str, level: int) -> answers.LevelPlan:
        """What raising a level would meet."""
        return self._ask(calls.PLAN_RAISE, LadderLevel(ladder, level))

    def plan_downgrade(self, ladder: str, level: int) -> answers.LevelPlan:
        """What letting a level fall would take."""
        return self._ask(calls.PLAN_DOWNGRADE, LadderLevel(ladder, level))

    def audit(self, query: answers.AuditQuery | None = None) -> tuple[answers.AuditEntry, ...]:
        """What was decided, newest first."""
        return self._ask(calls.AUDIT, query or answers.AuditQuery()).entries

    def whole_audit(self) -> list[answers.AuditEntry]:
        """Every entry that is kept, in the order in which they were written."""
        found: list[answers.AuditEntry] = []
        while page := self.audit(answers.AuditQuery(before=found[-1].number if found else 0, limit=1000)):
            found += page
        return found[::-1]

    def signing_keys(self) -> tuple[answers.SigningKey, ...]:
        """The keys that tokens are signed with, by name."""
        return self._ask(calls.KEYS, None).keys

    # Commands.

    def raise_level(self, ladder: str, level: int, *, reason: str = "", force: bool = False) -> answers.CommandResult:
        """Raises a level; with `force` and a reason over the heads of members that do not speak."""
        return self._command(calls.RAISE, events.Raise(ladder, level, self._actor, reason, force))

    def set_policy(self, ladder: str, policy: Policy | str, *, reason: str = "") -> answers.CommandResult:
        """Decides whether a level rises by itself."""
        return self._command(
            calls.SET_POLICY, events.SetPolicy(ladder, chosen(Policy, "policy", policy), self._actor, reason)
        )

    def hold(
        self, ladder: str, reason: str, *, name: str = "hold", level: int | None = None, until_ms: int | None = None
    ) -> answers.CommandResult:
        """Keeps a level from rising: above `level` or where it stands, until that time or a release."""
        return self._command(calls.PLACE_HOLD, events.PlaceHold(ladder, name, reason, self._actor, level, until_ms))

    def release(self, ladder: str, name: str = "hold", *, reason: str = "") -> answers.CommandResult:
        """Ends a hold."""
        return self._command(calls.RELEASE_HOLD, events.ReleaseHold(ladder, name, self._actor, reason))

    def start_downgrade(self, ladder: str, level: int, reason: str) -> answers.CommandResult:
        """Closes the gates above a level."""
        return self._command(calls.START_DOWNGRADE, events.StartDowngrade(ladder, level, self._actor, reason))

    def clean_downgrade(self, ladder: str, *, reason: str = "") -> answers.CommandResult:
        """Passes the point of no return."""
        return self._command(calls.CLEAN_DOWNGRADE, events.CleanDowngrade(ladder, self._actor, reason))

    def finish_downgrade(self, ladder: str, *, reason: str = "") -> answers.CommandResult:
        """Lets the level fall."""
        return self._command(calls.FINISH_DOWNGRADE, events.FinishDowngrade(ladder, self._actor, reason))

    def cancel_downgrade(self, ladder: str, *, reason: str = "") -> answers.CommandResult:
        """Opens the gates again, unless the point of no return is past."""
        return self._command(calls.CANCEL_DOWNGRADE, events.CancelDowngrade(ladder, self._actor, reason))

    def declare_ladder(
        self, ladder: Ladder, *, level: int | None = None, policy: Policy | str = Policy.MANUAL
    ) -> answers.CommandResult:
        """Adds a ladder, which begins at `level` or its lowest rung; or rungs on top of one."""
        rises = chosen(Policy, "policy", policy)
        return self._command(calls.DECLARE_LADDER, events.DeclareLadder(ladder, self._actor, level, rises))

    def observe(self, member: events.Observe) -> answers.CommandResult:
        """Notes a member that does not speak: declared, or seen using tables."""
        if member.provenance is Provenance.DECLARED:
            return self._command(calls.OBSERVE, member)
        # To be seen twice does no harm, and so many keys would.
        return self._made(lambda: self._link.call(calls.OBSERVE, member))

    def remove_member(self, identity: str, reason: str, *, force: bool = False) -> answers.CommandResult:
        """Takes a member out; with `force` the operator vouches that it no longer acts."""
        return self._command(calls.REMOVE_MEMBER, events.RemoveMember(identity, self._actor, reason, force))

    def set_terms(self, terms: FleetTerms, *, reason: str = "") -> answers.CommandResult:
        """Changes what the fleet agrees on."""
        return self._command(calls.SET_TERMS, events.SetTerms(terms, self._actor, reason))

    def drop_key(self, key: str, reason: str) -> answers.CommandResult:
        """Has no token accepted any more that this key signed."""
        return self._command(calls.DROP_KEY, calls.DropKey(key, reason))

    # Backup.

    def export(self) -> bytes:
        """Everything durable, as a JSON document."""
        return b"".join(chunk.data for chunk in self._made(lambda: self._link.download(calls.EXPORT)))

    def restore(self, document: bytes, reason: str) -> answers.CommandResult:
        """Puts an export in the place of everything; its log and its handshakes stay behind."""
        sent = _needed(document)

        def pieces() -> Iterator[Chunk]:
            for start in range(0, len(sent), CHUNK):
                yield Chunk(sent[start : start + CHUNK], reason if start == 0 else "")

        return self._once(lambda key: self._link.upload(calls.IMPORT, pieces(), key))

    def _ask(self, call: Call[_Q, _A], request: _Q) -> _A:
        return self._made(lambda: self._link.call(call, request))

    def _pages(self, call: Call[_P, _R], query: _P, limit: int) -> Iterator[_R]:
        """The pages of a long answer; no more than so many items, if that is said."""
        left = limit
        while True:
            page = self._ask(call, replace(query, limit=left))
            yield page
            left -= len(page) if limit else 0
            if not page.next or (limit and left <= 0):
                return
            query = replace(query, after=page.next)

    def _affected(self, call: Call[_P, answers.AffectedMembers], query: _P, limit: int) -> answers.AffectedMembers:
        pages = list(self._pages(call, query, limit))
        found = tuple(each for page in pages for each in page.affected)
        return answers.AffectedMembers(found, pages[-1].checked, pages[-1].next)

    def _command(self, call: Call[_Q, answers.CommandResult], command: _Q) -> answers.CommandResult:
        return self._once(lambda key: self._link.call(call, command, key=key))

    def _once(self, send: Callable[[str], _A]) -> _A:
        """Sends a command under its key."""
        key, self._key = self._key or token_hex(8), ""
        sent = False

        def sending() -> _A:
            nonlocal sent
            sent = True
            return send(key)

        try:
            return self._made(sending)
        except UnavailableError as error:
            if sent and error.condition == "UNAVAILABLE":
                error.next_step = f"Give the same command again with --key {key}: what was done is not done twice."
            raise

    def _made(self, make: Callable[[], _A]) -> _A:
        """Makes a call after a handshake, and once more if it got lost or the token has expired; it does no harm."""
        try:
            if not self._link.greeted:
                self._link.handshake()
            try:
                return make()
            except LinkError as failed:
                if not (failed.failure.needs_handshake or failed.failure.transient):
                    raise
                self._link.handshake()
                return make()
        except LinkError as failed:
            raise failed.failure.error from None


class _Backup(msgspec.Struct):
    """What an import uses of an export."""

    format: int
    halocline: str
    records: msgspec.Raw


def _needed(document: bytes) -> bytes:
    """What an import uses; a document that is no export as it is, for the fleet to say what is wrong with it."""
    try:
        return msgspec.json.encode(msgspec.json.decode(document, type=_Backup))
    except msgspec.MsgspecError:
        return document


def operator_name() -> str:
    """Who runs this process, as an identity."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "operator"
    return fitted_identity(f"{user}@{socket.gethostname()}", "operator")
