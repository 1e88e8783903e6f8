"""How answers of a fleet look: short, both sides named, the next command given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType

from halocline.cli.inspect import age_text
from halocline.cli.output import columns
from halocline.errors import shortened
from halocline.fleet.answers import (
    AffectedMembers,
    AuditEntries,
    BlockerStatus,
    CommandResult,
    DowngradeStatus,
    FleetMembers,
    FleetStatus,
    LadderStatus,
    LevelPlan,
    MemberStatus,
    RungStatus,
    SigningKeys,
    plain,
    readable,
)
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import TableUse

_LIFE = re.compile(r"#\d+$")


def describe(answer: FleetStatus) -> list[RenderableType]:
    """The ladders, and what is in the way of each next level."""
    table = columns("ladder", "level", "settled", "next", "members", "blocking the next level")
    notes: list[str] = []
    for each in answer.ladders:
        numbers = [_named(each, number) for number in (each.level, each.settled, each.next)]
        table.add_row(each.ladder, *numbers, f"{each.live} live", _blocking(each))
        notes += [
            f"hold on {each.ladder} at {hold.level} until {moment(hold.until_ms) if hold.until_ms else 'released'}: "
            f'"{hold.reason}" ({hold.name})'
            for hold in each.holds
        ]
        notes += downgrade(each)
    since = moment(answer.active_since_ms)
    put_back = f" · generation {answer.generation}" if answer.generation else ""
    footer = f"coordinator {answer.coordinator} · epoch {answer.epoch} since {since}{put_back} · {answer.store}"
    return [table, *notes, footer]


def _named(ladder: LadderStatus, level: int) -> str:
    """A level with what it brings, in short."""
    rung = next((each for each in ladder.rungs if each.level == level), None)
    names = features_of(ladder.ladder, rung) if rung else ()
    return f"{level or '-'} {', '.join(names)}".rstrip()


def features_of(ladder: str, rung: RungStatus) -> tuple[str, ...]:
    """What a level brings, by name: features of tables where it is a format's own ladder, else those of members."""
    known = shipped().get(ladder)
    of_tables = known.features.get(rung.level, frozenset()) if known else frozenset[str]()
    return tuple(sorted(of_tables | rung.features))


def ladders(shown: Iterable[LadderStatus]) -> list[RenderableType]:
    """The levels of each ladder, what each brings, and which releases have it."""
    table = columns("ladder", "level", "brings", "", "provided by")
    for ladder in shown:
        for rung in ladder.rungs:
            here = "the fleet stands here" if rung.level == ladder.level else ""
            needs = ", ".join(f"{each.ladder}={each.level}" for each in rung.requires)
            named = ", ".join(features_of(ladder.ladder, rung))
            brings = "; ".join(filter(None, [named, rung.summary, f"requires {needs}" if needs else ""]))
            table.add_row(ladder.ladder, str(rung.level), brings, here, ", ".join(rung.provided_by))
    return [table]


def ladder_facts(shown: Iterable[LadderStatus]) -> list[dict[str, object]]:
    """The same for programs."""
    return [
        {
            "ladder": ladder.ladder,
            "level": ladder.level,
            "rungs": [{**plain(each), "brings": list(features_of(ladder.ladder, each))} for each in ladder.rungs],
        }
        for ladder in shown
    ]


def _blocking(each: LadderStatus) -> str:
    if not each.next:
        return ""
    if each.blockers:
        return shortened([f"{name(one.who)} ({_why(one)})" for one in each.blockers], 3, each.blocking)
    if each.policy == "auto":
        return "nothing: it rises by itself" if each.live else "no member is here yet"
    return f"nothing: raise with  halocline fleet raise {each.ladder}={each.next}"


def _why(blocker: BlockerStatus) -> str:
    if blocker.kind in ("too-old", "too-new", "lacks-feature", "unknown"):
        release = blocker.text.split(" ", 1)[0]
        lease = f", lease {blocker.lease_left_ms // 1000} s" if blocker.lease_left_ms else ""
        return f"{release}{lease}"
    return readable(blocker.text)


def downgrades(answer: FleetStatus) -> list[RenderableType]:
    """How far each downgrade has come."""
    return [line for each in answer.ladders for line in downgrade(each)] or ["no ladder is on its way down"]


def downgrade(each: LadderStatus) -> list[str]:
    """How far a downgrade has come, and what comes next; nothing if there is none."""
    running = each.downgrade
    if running is None:
        return []
    line = f"{each.ladder} is on its way down to {running.target}: {running.phase}"
    if running.waiting and running.phase == "closing":
        line += f", waiting for {', '.join(map(name, running.waiting[:5]))}"
    back = "past the point of no return" if running.past_return else "can still be cancelled"
    return [f'{line}, {back}: "{running.reason}"', _next_of_downgrade(each.ladder, running)]


def _next_of_downgrade(ladder: str, running: DowngradeStatus) -> str:
    if running.phase == "closing":
        return f"  or open the gates again: halocline fleet downgrade cancel {ladder}"
    if running.phase == "closed" and not running.free:
        return f"  next: halocline fleet downgrade clean {ladder}"
    return f"  next: halocline fleet downgrade finish {ladder}"


def members(answer: FleetMembers, now_ms: int) -> list[RenderableType]:
    """The members."""
    table = columns("member", "release", "role", "supports", "known", "lease", "uses")
    for each in answer.members:
        supports = ", ".join(f"{ladder} {r.lo}-{r.hi}" for ladder, r in sorted(each.supported.items()))
        lease = f"{each.lease_left_ms / 1000:.0f} s" if each.lease_left_ms else ""
        known = each.provenance if each.provenance in ("reported", "declared") else _seen(each, now_ms)
        if each.removed:
            known = "removed"
        mark = " (development)" if each.development else ""
        mark += f" declared, {each.seen_as} seen" if each.seen_as else ""
        table.add_row(each.identity, each.release + mark, each.role, supports, known, lease, uses(each.tables))
    count = f"{sum(each.live for each in answer.members)} live of {len(answer.members)} known"
    shown: list[RenderableType] = [table, count if not answer.next else _more(len(answer.members))]
    if answer.sightings:
        seen = columns("greeted", "client", "release", "role", "outcome", "times", "last")
        for one in answer.sightings:
            last = age_text(now_ms - one.last_ms)
            seen.add_row(one.identity, one.client, one.release, one.role, one.outcome, str(one.times), last)
        shown += ["", seen]
    return shown


def _seen(each: MemberStatus, now_ms: int) -> str:
    return f"{each.provenance} {age_text(now_ms - each.last_seen_ms)}" if each.last_seen_ms else each.provenance


def affected(answer: AffectedMembers, verb: str) -> list[RenderableType]:
    """The members that are in the way or would break, and what each must upgrade to."""
    if not answer.affected:
        return [f"none of {answer.checked} {verb}"]
    table = columns("member", "release", "uses", "why", "next")
    for each in answer.affected:
        where = uses(each.tables) + ("" if each.live else "no longer here")
        fix = f"upgrade to {each.fix}" if re.match(r"[\w.-]+@", each.fix) else each.fix
        table.add_row(each.who, each.release, where, each.text, fix)
    count = f"{len(answer.affected)} of {answer.checked}"
    return [table, count if not answer.next else _more(len(answer.affected))]


def _more(shown: int) -> str:
    return f"the first {shown:,}; all with --limit 0"


def raise_plan(answer: LevelPlan) -> list[RenderableType]:
    """What raising a level would meet."""
    if answer.blockers:
        return _blocked(answer)
    names = [name(each) for each in answer.checked]
    checked = [f"checked: {shortened(names, len(names), answer.asked)}"] if names else []
    return [_free(answer), *checked, f"Next: halocline fleet raise {answer.ladder}={answer.target}"]


def downgrade_plan(answer: LevelPlan) -> list[RenderableType]:
    """What letting a level fall would take."""
    if answer.blockers:
        return _blocked(answer)
    free = "free: no data needs cleaning" if answer.free else "data needs cleaning, after which no way leads back"
    return [
        _free(answer),
        free,
        *(f"  {each.table} is at level {each.level}" for each in answer.tables),
        f"waits for {answer.asked:,} members to close their gates",
        f"Next: halocline fleet downgrade start {answer.ladder}={answer.target} --reason '…'",
    ]


def _free(answer: LevelPlan) -> str:
    return f"{answer.ladder} {answer.level} to {answer.target}: nothing is in the way"


def _blocked(answer: LevelPlan) -> list[RenderableType]:
    table = columns("in the way", "why", "next")
    for each in answer.blockers:
        table.add_row(name(each.who), readable(each.text), each.fix)
    return [f"{answer.ladder} {answer.level} to {answer.target}: {answer.blocking:,} in the way", table]


def decisions(answer: CommandResult) -> list[RenderableType]:
    """What a command led to."""
    return [readable(each) for each in answer.decisions] or ["nothing changed"]


def audit(answer: AuditEntries) -> list[RenderableType]:
    """What was decided, newest first."""
    table = columns("number", "when", "who", "what", "about", "detail")
    for each in answer.entries:
        what = f"{each.action} refused" if each.refused else each.action
        detail = f"{each.refused}: {each.detail}" if each.refused else each.detail
        table.add_row(
            str(each.number) if each.number > 0 else "",
            moment(each.at_ms),
            each.actor,
            what,
            each.subject,
            readable(detail),
        )
    return [table]


def keys(answer: SigningKeys) -> list[RenderableType]:
    """The keys of tokens."""
    table = columns("key", "made", "")
    for number, each in enumerate(answer.keys):
        table.add_row(each.id, moment(each.made_ms), "" if number else "signs")
    return [table]


def name(key: str) -> str:
    """A member's name without the number of its life."""
    return _LIFE.sub("", key)


def uses(tables: Iterable[TableUse]) -> str:
    """Tables by operation, e.g. `reads lake/orders, lake/items`."""
    by: dict[str, list[str]] = {}
    for use in tables:
        by.setdefault(use.operation.partition(".")[0], []).append(use.table)
    parts = []
    for operation, names in sorted(by.items()):
        parts.append(f"{operation}s {shortened(sorted(set(names)), 4)}")
    return "; ".join(parts)


def moment(milliseconds: int) -> str:
    """A time for people, in UTC.

    Example:
        >>> moment(1_796_083_200_000), moment(1_796_083_201_000)
        ('2026-12-01', '2026-12-01 00:00:01')
    """
    at = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(microsecond=0, tzinfo=None)
    return at.date().isoformat() if at.time() == datetime.min.time() else at.isoformat(sep=" ")


def until(text: str, now: datetime) -> datetime:
    """A time to come: a date, a date and time, or a span from now such as `12h` or `30d`.

    Example:
        >>> until("2d", datetime(2026, 11, 30, tzinfo=UTC)).isoformat()
        '2026-12-02T00:00:00+00:00'
    """
    span = re.fullmatch(r"(\d+)([smhd])", text)
    if span:
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[span[2]]
        return now + timedelta(**{unit: int(span[1])})
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
