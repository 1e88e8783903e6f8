"""Small random fleets: every order that a plan allows, replayed; and no plan missed where one exists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from tests.support.reached import Reached
from tests.support.rollouts import Harm, delta_table, has_a_way, hudi_table, releases, replay

from halocline.compat.knowledge import Knowledge
from halocline.compat.release import Release
from halocline.plan.apply.backwards import way_back
from halocline.plan.core.plan import Impasse, Plan
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout, RolloutMember, RolloutTable, TableAccess
from halocline.plan.core.rules import RULES, PlanRules

reached = Reached()

HUDI = ("0.13.0", "0.14.0", "0.15.0", "1.0.2", "1.2.0")
DELTA = {"trino": ("410", "426", "469", "470"), "deltalake": ("0.25.5", "1.0.2", "1.6.6"), "powerbi": ("2.0",)}
FEATURES = ("deletionVectors", "columnMapping", "timestampNtz")


@st.composite
def hudi_rollouts(draw) -> Rollout:
    """Up to three tables and three members of one product, with writers that move tables up by themselves."""
    tables = tuple(
        hudi_table(f"table-{at}", version, to if to != version else None)
        for at, (version, to) in enumerate(
            draw(
                st.lists(
                    st.tuples(st.sampled_from((5, 6, 8)), st.sampled_from((None, 6, 8, 9))), min_size=1, max_size=3
                )
            )
        )
    )
    members = draw(_members(tables, [f"hudi@{each}" for each in HUDI]))
    goals = draw(st.sampled_from((None, "hudi@1.0.2", "hudi@1.2.0")))
    available = draw(st.sets(st.sampled_from(HUDI)))
    return Rollout(
        tables,
        members,
        releases(goals) if goals else (),
        releases(*(f"hudi@{each}" for each in sorted(available))),
        accepted=frozenset(draw(st.sets(st.sampled_from([each.name for each in members])))),
    )


@st.composite
def rising_rollouts(draw) -> Rollout:
    """Writers that cannot be kept from moving tables up, next to others that go up or down."""
    tables = tuple(hudi_table(f"table-{at}", draw(st.sampled_from((5, 6, 8)))) for at in range(draw(st.integers(1, 2))))
    members = draw(_members(tables, [f"hudi@{each}" for each in HUDI]))
    unpinned = tuple(replace(each, pinnable=False) for each in members)
    goal = draw(st.sampled_from(HUDI))
    return Rollout(tables, unpinned, releases(f"hudi@{goal}"), releases(*(f"hudi@{each}" for each in HUDI)))


@st.composite
def delta_rollouts(draw) -> Rollout:
    """Up to three tables that gain or lose features, and members of three products."""
    tables = []
    for at in range(draw(st.integers(1, 3))):
        has = draw(st.sets(st.sampled_from(FEATURES), max_size=2))
        enable = draw(st.sets(st.sampled_from(FEATURES), max_size=1)) - has
        drop = draw(st.sampled_from((*sorted(has & {"deletionVectors"}), "")))
        keep = draw(st.booleans())
        made = delta_table(
            f"table-{at}", *sorted(has), enable=sorted(enable), drop="" if enable else drop, keep_history=keep
        )
        tables.append(made)
    running = [f"{product}@{version}" for product, versions in DELTA.items() for version in versions]
    members = draw(_members(tuple(tables), running))
    wanted = draw(st.sampled_from((None, "trino@470", "deltalake@1.6.6")))
    names = [each.name for each in members]
    return Rollout(
        tuple(tables),
        members,
        releases(wanted) if wanted else (),
        releases(*sorted(draw(st.sets(st.sampled_from(running))))),
        accepted=frozenset(draw(st.sets(st.sampled_from(names), max_size=1))),
    )


@st.composite
def _members(draw, tables: tuple[RolloutTable, ...], running: list[str]) -> tuple[RolloutMember, ...]:
    found = []
    for at in range(draw(st.integers(1, 3))):
        used = draw(st.sets(st.sampled_from([each.name for each in tables]), min_size=1, max_size=2))
        uses = tuple(TableAccess(each, (draw(st.sampled_from(("read", "write"))),)) for each in sorted(used))
        release = Release.parse(draw(st.sampled_from(running)))
        found.append(RolloutMember(f"member-{at}", release, uses, pinnable=draw(st.booleans())))
    return tuple(found)


ROLLOUTS = hudi_rollouts() | rising_rollouts() | delta_rollouts()
SEARCH = settings(max_examples=5000, deadline=None, derandomize=True, database=None, phases=[Phase.generate])


@settings(max_examples=150, deadline=None)
@given(ROLLOUTS)
def test_nobody_is_harmed_in_any_order_that_a_plan_allows(rollout):
    found = plan(rollout)
    if isinstance(found, Plan):
        replay(rollout, found)
    elif found.compromise is not None:
        staying = {each.name for each in rollout.tables if each.name in found.tables}
        tables = tuple(replace(each, moves=()) if each.name in staying else each for each in rollout.tables)
        replay(replace(rollout, tables=tables), found.compromise)


@reached.at_least(plans=10, impasses=10)
@settings(max_examples=150, deadline=None)
@given(ROLLOUTS)
def test_where_there_is_a_way_there_is_a_plan(rollout):
    found = plan(rollout)
    reached("impasses" if isinstance(found, Impasse) else "plans")
    if isinstance(found, Impasse):
        assert not has_a_way(rollout), f"missed a way: {found.blockers}"


# ---------------------------------------------------------------------- a planner that skips one check


MUTANTS: dict[str, PlanRules] = {
    "judges only whether members can read": replace(RULES, judged=lambda access: ("read",)),
    "takes unknown for ok": replace(RULES, acceptable=lambda verdict, accepted: verdict is None or verdict.unknown),
    "takes refused for ok": replace(RULES, acceptable=lambda verdict, accepted: verdict is None or verdict.refused),
    "takes wrong for ok": replace(RULES, acceptable=lambda verdict, accepted: verdict is None or verdict.wrong),
    "accepts anything of those accepted": replace(
        RULES, acceptable=lambda verdict, accepted: verdict is None or accepted
    ),
    "thinks a wave is over at once": replace(RULES, in_its_wave=lambda before, after: (after,)),
    "asks nobody when a table moves": replace(RULES, asked_of_table=lambda users: ()),
    "asks one user of a table": replace(RULES, asked_of_table=lambda users: users[:1]),
    "looks at no table when a member moves": replace(RULES, asked_of_member=lambda tables: ()),
    "looks at one table of a member": replace(RULES, asked_of_member=lambda tables: tables[:1]),
    "forgets that writers move tables up": replace(RULES, rising=lambda raised: ()),
    "pins members that cannot be pinned": replace(RULES, pinned=lambda member, switch: bool(switch)),
}
ABOUT_RISING = [each for each in MUTANTS if "writers" in each]


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_planner_that_skips_a_check_harms_somebody(fault):
    def harms(rollout: Rollout) -> bool:
        found = plan(rollout, rules=MUTANTS[fault])
        if isinstance(found, Impasse):
            return False
        try:
            replay(rollout, found)
        except Harm:
            return True
        return False

    try:
        find(rising_rollouts() if fault in ABOUT_RISING else ROLLOUTS, harms, settings=SEARCH)
    except NoSuchExample:
        pytest.fail(f"a planner that {fault} harms nobody: the check is not needed, or the search too narrow")


# Some checks matter only where a release skips a table version that others use, which is rare among known ones.
LAB = """
product = "{name}"
title = "A product of a laboratory"
format = "hudi"
first = "1.0"
last = "2.0"
unlisted = "refused"
source = "made up"
{facts}
"""
FACT = """
[[fact]]
operation = ["read", "write"]
tokens = {tokens}
spans = "{spans}"
source = "made up"
"""
UPGRADE = '\n[[upgrade]]\nspans = "2.0"\nversion = 6\nsource = "made up"\n'
IN_ORDER = {
    "thinks a wave has not begun": (replace(RULES, in_its_wave=lambda before, after: (before,)), ("reader", "writer")),
    "thinks that writers have not moved tables up yet": (
        replace(RULES, at_rest=lambda possible: tuple(possible[:1])),
        ("writer", "reader"),
    ),
    "thinks that writers have moved tables up already": (
        replace(RULES, at_rest=lambda possible: tuple(possible[-1:])),
        ("writer", "upstart"),
    ),
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    """Readers whose second release skips version 6, or 5; and a writer whose second release moves tables to 6."""
    folder = tmp_path_factory.mktemp("laboratory")
    every, skipping = (
        '["table version 5", "table version 6", "table version 8", "*"]',
        '["table version 5", "table version 8", "*"]',
    )
    reader = FACT.format(tokens=every, spans="[1.0, 2.0)") + FACT.format(tokens=skipping, spans="2.0")
    (folder / "reader.toml").write_text(LAB.format(name="reader", facts=reader))
    (folder / "writer.toml").write_text(
        LAB.format(name="writer", facts=FACT.format(tokens=every, spans="1.0") + UPGRADE)
    )
    upstart = FACT.format(tokens=every, spans="[1.0, 2.0)") + FACT.format(tokens=every.replace("5", "7"), spans="2.0")
    (folder / "upstart.toml").write_text(LAB.format(name="upstart", facts=upstart))
    return Knowledge.load(folder)


@pytest.mark.parametrize("fault", IN_ORDER)
def test_a_planner_that_forgets_what_may_be_at_a_moment_harms_somebody(laboratory, fault):
    rules, order = IN_ORDER[fault]
    made = {
        "reader": RolloutMember.of("reader", "reader@1.0", reads=["trips"]),
        "upstart": RolloutMember.of("upstart", "upstart@1.0", reads=["trips"]),
        "writer": RolloutMember.of("writer", "writer@1.0", writes=["trips"]),
    }
    rollout = Rollout(
        (hudi_table("trips", 5, to=8),),
        tuple(made[each] for each in order),
        releases("reader@2.0", "upstart@2.0", "writer@2.0"),
        knowledge=laboratory,
    )
    sound, faulty = plan(rollout), plan(rollout, rules=rules)
    assert isinstance(sound, Plan)
    replay(rollout, sound)
    assert isinstance(faulty, Plan)
    with pytest.raises(Harm):
        replay(rollout, faulty)


@settings(max_examples=100, deadline=None)
@given(ROLLOUTS)
def test_nobody_is_harmed_in_any_order_that_the_way_back_allows(rollout):
    found = plan(rollout)
    if not isinstance(found, Plan) or found.already or found.mended or any(each.rising for each in found.stages):
        return
    back = way_back(found.stages, lambda table, before, after: True)
    ends = {each.member: each.after for each in found.upgrades}
    tables = {each.table: each.after for each in found.moves}
    there = replace(
        rollout,
        # Whoever goes back does so with the settings it had, which may have kept it from moving tables up.
        members=tuple(
            replace(each, release=ends.get(each.name) or each.release, pinnable=True) for each in rollout.members
        ),
        tables=tuple(
            RolloutTable(each.name, tables.get(each.name, each.terms), raised=each.raised) for each in rollout.tables
        ),
    )
    # A switch that was thrown on the way forth stays so until its member goes back.
    replay(there, Plan(back.stages), pinned=[each.member for each in found.upgrades if each.switch])
