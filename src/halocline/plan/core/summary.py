"""What a plan leaves as it is, what it mends, and what it was made for."""

from __future__ import annotations

from halocline.plan.core.judge import Judge, MemberPosition
from halocline.plan.core.plan import Plan, Trouble, terms_text
from halocline.plan.core.rollout import RolloutTable
from halocline.plan.core.waves import StageLayout


def finished(judge: Judge, layout: StageLayout) -> Plan:
    """The plan that a layout makes."""
    rollout = judge.rollout
    ends = {each.name: judge.position(MemberPosition(each.release)) for each in rollout.members}
    stopped: set[str] = set()
    for stage in layout.stages:
        ends |= {each.member: judge.position(MemberPosition(each.after)) for each in stage.upgrades}
        stopped = (stopped - {each.member for each in stage.upgrades}) | set(stage.stops)
    moved = {each.table: each.after for stage in layout.stages for each in stage.moves}
    last = [judge.terms(moved.get(each.name, each.terms)) for each in rollout.tables]
    first = [judge.terms(each.terms) for each in rollout.tables]
    already, mended = list[Trouble](), list[Trouble]()
    for member, links in zip(rollout.members, judge.links.of_member, strict=True):
        start = judge.position(MemberPosition(member.release))
        for table, question in links:
            now = judge.cannot(question, start, first[table])
            if now is None or member.name in stopped:
                continue
            after = judge.cannot(question, ends[member.name], last[table])
            name = rollout.tables[table].name
            if after is None:
                mended.append(Trouble(member.name, name, now))
            else:
                already.append(Trouble(member.name, name, after))
    return Plan(
        layout.stages,
        tuple(already),
        tuple(mended),
        tuple((each.name, fingerprint(each)) for each in rollout.tables),
        tuple((each.name, str(each.release)) for each in rollout.members),
        tuple(sorted(rollout.accepted)),
    )


def fingerprint(table: RolloutTable) -> str:
    """The state of a table that a plan was made for."""
    return table.fingerprint or terms_text(table.terms)
