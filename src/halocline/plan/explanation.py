"""A plan in words: what changes, who is affected, what can be taken back. Alike things stand in one line.

An *explanation* is a value with a headline, one section per stage, and a summary line. Text, Markdown and HTML are made
of the same one (`halocline.plan.rendering`), so they cannot tell different things. Marks: `+` comes, `~` changes, `-`
goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from halocline.compat.answer import Answer
from halocline.compat.breaks import next_step
from halocline.compat.terms import Terms
from halocline.errors import shortened
from halocline.plan.core.plan import Impasse, MemberUpgrade, Plan, PlannedMove, Stage, Trouble

COMES, CHANGES, GOES = "+", "~", "-"
_NAMES_TOLD: Final = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ToldLine:
    """One thing that changes, for however many it does.

    Attributes:
        mark: `+`, `~` or `-`; empty for a remark.
        change: What changes.
        subjects: What it changes, or whom; as many names as one can read.
        remarks: What to know about it.
    """

    mark: str
    change: str
    subjects: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A stage, or another part of an explanation."""

    title: str
    lines: tuple[ToldLine, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to tell.

    Attributes:
        title: What it is about.
        sections: Its parts.
        summary: The one line to remember.
    """

    title: str
    sections: tuple[Section, ...]
    summary: str


def explain(found: Plan | Impasse, *, title: str = "", users: Mapping[str, Sequence[str]] | None = None) -> Explanation:
    """A plan, or why there is none, in words.

    Args:
        found: What the planner found.
        title: What to call it.
        users: The members that use each table, to say who is affected by its moves.

    Example:
        >>> explain(Plan(())).summary
        'Plan: nothing to do.'
    """
    if isinstance(found, Plan):
        return Explanation(title or f"Plan {found.id}", tuple(_of_plan(found, users or {})), summary(found))
    sections = [Section("In the way", tuple(_troubles(found.blockers)))]
    who = [_counted(found.members, "member"), _counted(found.tables, "table")]
    smallest = " and ".join(each for each in who if each) or "nobody who could stop"
    lines = [ToldLine("", f"Smallest set in the way: {smallest}", _names([*found.members, *found.tables]))]
    if found.compromise is None:
        lines.append(ToldLine("", "Even with them out of the way no order was found."))
        sections.append(Section("Compromise", tuple(lines)))
    else:
        lines += [
            ToldLine("", f"They stop, or stay as they are, in this plan ({len(found.compromise.stages)} stages):")
        ]
        sections += [Section("Compromise", tuple(lines)), *_of_plan(found.compromise, users or {})]
    few = len(found.members) <= _NAMES_TOLD
    allow = " ".join(f"--may-stop {name}" for name in found.members) if few else "--may-stop NAME, once for each"
    hint = f" Accept it with: {allow}" if found.members and not found.tables and found.compromise else ""
    return Explanation(title or "No safe plan", tuple(sections), f"No safe plan: {smallest} in the way.{hint}")


def summary(plan: Plan) -> str:
    """The one line to remember."""
    if plan.is_empty:
        return "Plan: nothing to do."
    moves = list(plan.moves)
    parts = [
        f"{plan.restarts:,} restarts" if plan.restarts != 1 else "1 restart",
        f"{len(moves):,} table moves" if len(moves) != 1 else "1 table move",
    ]
    stops = f", {len(plan.stops):,} stops" if plan.stops else ""
    end = plan.point_of_no_return
    back = "the way back is open from everywhere" if end is None else f"no way back from stage {end} on"
    stages = f"{len(plan.stages)} stage" + ("s" if len(plan.stages) != 1 else "")
    return f"Plan: {stages}, {parts[0]}, {parts[1]}{stops}; {back}."


def _of_plan(plan: Plan, users: Mapping[str, Sequence[str]]) -> Iterator[Section]:
    again = {
        each.member: at for at, stage in enumerate(plan.stages, 1) for each in stage.upgrades if each.before is None
    }
    for number, stage in enumerate(plan.stages, 1):
        yield Section(_stage_title(number, stage), tuple(_of_stage(stage, users, again)))
    if plan.mended:
        yield Section("Works afterwards", tuple(_troubles(plan.mended, COMES)))
    if plan.already:
        yield Section("Does not work now, and will not afterwards", tuple(_troubles(plan.already)))
    if plan.accepted:
        yield Section("Accepted although nothing is known", (ToldLine("", "members", _names(plan.accepted)),))


def _stage_title(number: int, stage: Stage) -> str:
    if stage.moves:
        return f"Stage {number}: {_counted(stage.moves, 'table')} move, in any order"
    return f"Stage {number}: {_counted(stage.upgrades, 'member')}, one at a time in any order"


def _of_stage(stage: Stage, users: Mapping[str, Sequence[str]], again: Mapping[str, int]) -> Iterator[ToldLine]:
    for _, upgrades in _grouped(stage.upgrades, lambda each: f"{_upgrade_kind(each)} {again.get(each.member, 0)}"):
        yield _upgrade_line(upgrades[0], [each.member for each in upgrades], again.get(upgrades[0].member, 0))
    for _, moves in _grouped(stage.moves, _move_kind):
        yield _move_line(moves[0], [each.table for each in moves], users)
    for _, rising in _grouped(stage.rising, lambda each: str(each[1].protocol)):
        names = [name for name, _ in rising]
        change = f"may be moved to {rising[0][1].protocol} by their writers from here on"
        yield ToldLine(CHANGES, change, _names(names, "table"), ("comes back only while these writers stand still",))


def _upgrade_kind(each: MemberUpgrade) -> str:
    return f"{each.before} {each.after} {each.switch} {each.bridge}"


def _upgrade_line(each: MemberUpgrade, members: Sequence[str], again: int) -> ToldLine:
    remarks = [f"with {each.switch}"] if each.switch else []
    remarks += ["a bridge: it gets along with what others do meanwhile"] if each.bridge else []
    if each.after is None:
        remarks.append(f"starts again in stage {again}" if again else "for good: it cannot use its tables afterwards")
        return ToldLine(GOES, f"{each.before} stops", _names(members, "member"), tuple(remarks))
    if each.before is None:
        return ToldLine(COMES, f"starts again as {each.after}", _names(members, "member"), tuple(remarks))
    return ToldLine(CHANGES, f"{each.before} to {each.after}", _names(members, "member"), tuple(remarks))


def _move_kind(each: PlannedMove) -> str:
    return f"{each.action} {each.before.protocol} {each.after.protocol} {each.reversible} {each.note}"


def _move_line(each: PlannedMove, tables: Sequence[str], users: Mapping[str, Sequence[str]]) -> ToldLine:
    came = _required(each.after) - _required(each.before)
    went = _required(each.before) - _required(each.after)
    mark = COMES if came and not went else GOES if went and not came else CHANGES
    remarks = [f"{each.before.protocol} becomes {each.after.protocol}"]
    remarks += [each.note] if each.note else []
    affected = list(dict.fromkeys(name for table in tables for name in users.get(table, ())))
    remarks += [f"used by {_names(affected, 'member')}"] if affected else []
    remarks.append("can be taken back" if each.reversible else "cannot be taken back")
    return ToldLine(mark, each.action, _names(tables, "table"), tuple(remarks))


def _required(terms: Terms) -> frozenset[str]:
    return terms.protocol.features if terms.protocol.format != "hudi" else frozenset({str(terms.protocol)})


def _troubles(found: Iterable[Trouble], mark: str = "") -> Iterator[ToldLine]:
    for _, alike in _grouped(found, lambda each: f"{each.verdict.release} {each.verdict} {_kind_of_step(each)}"):
        one = alike[0]
        members = list(dict.fromkeys(each.member for each in alike))
        tables = list(dict.fromkeys(each.table for each in alike))
        verb = one.verdict.operation.partition(".")[0]
        silently = " (silently: it would not be stopped)" if one.verdict.answer is Answer.WRONG else ""
        step = next_step([one.verdict])
        could = f"{one.verdict.release} {verb}s{silently}: {one.verdict}"
        if mark == COMES:
            could = f"{one.verdict.release} {verb}s; until now {one.verdict}"
        remarks = [f"{_names(members, 'member')}; {_names(tables, 'table')}"]
        remarks += [f"keeps back: {each.step}" for each in alike[:1] if each.step and each.step != "at the end"]
        remarks += [f"what would help: {step}"] if step and mark != COMES else []
        yield ToldLine(mark, could, "", tuple(remarks))


def _kind_of_step(each: Trouble) -> str:
    return each.step.rpartition(": ")[2] if ": " in each.step else ""


def _grouped(found: Iterable[_T], kind: Callable[[_T], str]) -> Iterator[tuple[str, list[_T]]]:
    for key, each in groupby(sorted(found, key=kind), key=kind):
        yield key, list(each)


def _counted(found: Sequence[object], noun: str) -> str:
    return "" if not found else f"{len(found):,} {noun}{'s' if len(found) != 1 else ''}"


def _names(names: Sequence[str], noun: str = "") -> str:
    told = shortened(names, _NAMES_TOLD)
    return f"{_counted(names, noun)}: {told}" if noun else told
