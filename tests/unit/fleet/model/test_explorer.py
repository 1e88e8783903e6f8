"""The design holds in every interleaving of a small fleet, and without any of its rules it does not."""

import re
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from halocline.cli.explore import explore as command
from halocline.fleet.core.rules import RULES
from halocline.fleet.model.coordinator import CoordinatorNodes
from halocline.fleet.model.explorer import explore
from halocline.fleet.model.mutants import MUTANTS
from halocline.fleet.model.scenario import (
    BRIEF,
    HELD,
    LADDER,
    LARGE,
    NEW,
    OLD,
    REMOVED,
    RESTORED,
    ROLL,
    SCENARIOS,
    SILENT,
    STALL,
    STRAYS,
    WRITING,
)
from halocline.fleet.model.transitions import Model


def shown(result):
    return f"{result.states} states in {result.seconds:.0f} s, complete: {result.complete}\n{result.counterexample}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in LARGE])
def test_the_design_holds_in_every_interleaving(name):
    result = explore(SCENARIOS[name])
    assert result.holds, shown(result)


SMALLER = (SILENT, HELD, STALL, BRIEF, replace(REMOVED, writes=True), replace(WRITING, belief=1), RESTORED)


@pytest.mark.parametrize("scenario", SMALLER, ids=lambda each: each.name)
def test_the_design_holds_in_every_interleaving_of_the_smaller_scenarios(scenario):
    result = explore(replace(scenario, members=1))
    assert result.holds, shown(result)


def test_what_a_former_life_sent_does_no_harm_as_far_as_we_look():
    result = explore(STRAYS, max_states=10_000)
    assert result.counterexample is None, shown(result)
    assert not result.complete


@pytest.mark.slow
def test_members_that_know_what_the_store_has_lost_do_no_harm_as_far_as_we_look():
    result = explore(RESTORED, max_states=300_000)
    assert result.counterexample is None, shown(result)
    assert not result.complete


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if not each.stuck], ids=lambda each: each.name)
def test_without_one_rule_the_harm_is_found(mutant):
    result = explore(mutant.scenario, mutant.rules, watch=mutant.watch)
    assert result.counterexample is not None, f"{mutant.fault}: {shown(result)}"
    print(f"{mutant.name}: {mutant.fault}\n{result.counterexample}")
    assert {each.number for each in result.counterexample.violations} <= set(mutant.watch)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_differs_from_the_design_in_few_rules_or_in_the_scenario(mutant):
    changed = [name for name in RULES.__slots__ if getattr(mutant.rules, name) is not getattr(RULES, name)]
    assert len(changed) in ((0,) if mutant.rules is RULES else (1, 2))
    if mutant.rules is RULES:
        assert mutant.scenario.late_allowance or mutant.scenario.suspends or not mutant.scenario.fenced


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.stuck], ids=lambda each: each.name)
def test_counting_everybody_for_ever_is_safe_and_stuck(mutant):
    safe = explore(mutant.scenario, mutant.rules)
    assert safe.holds, shown(safe)
    stuck = explore(mutant.scenario, mutant.rules, watch=mutant.watch, lively=True)
    assert stuck.counterexample is not None
    assert [each.number for each in stuck.counterexample.violations] == [17]
    assert stuck.counterexample.steps[-1] in ("a crashes", "b crashes")


def test_a_level_that_all_support_can_be_reached_from_everywhere():
    result = explore(BRIEF, lively=True)
    assert result.holds, shown(result)


def test_a_trace_is_a_story_in_the_fewest_steps():
    mutant = next(each for each in MUTANTS if each.name == "life-replaced")
    trace = explore(mutant.scenario, mutant.rules, watch=mutant.watch).counterexample
    assert str(trace).splitlines() == [
        "  1. a starts the old binary and asks to join",
        "  2. a's join arrives",
        "  3. a hears that it is admitted: level 1, gates up to 1",
        "  4. a starts the new binary and asks to join, while the former process goes on",
        "  5. a's join arrives",
        "  6. a hears that it is admitted: level 1, gates up to 1",
        "  7. the coordinator's timer goes off",
        "  8. a hears news: level 2, gates up to 2; the table is raised to level 2",
        "     violates 3 No early use: level 2 of ladder is used by a while a in its former life is active and "
        "runs 1 to 1",
        "     violates 4 Format safety: table requires level 2 of ladder while a in its former life is active and "
        "runs 1 to 1",
    ]


def test_following_a_stale_coordinator_that_can_do_nothing_finds_nothing_more(monkeypatch):
    scenario = replace(BRIEF, members=1, take_over=True)
    dropped = explore(scenario)
    monkeypatch.setattr(CoordinatorNodes, "_inert", lambda self, stale, behind, belief: False)
    followed = explore(scenario)
    assert dropped.holds, shown(dropped)
    assert followed.holds, shown(followed)
    assert followed.states > dropped.states


def test_interchangeable_members_are_seen_once():
    model = Model(SILENT)
    seen, frontier = {model.raised(model.first)}, [model.raised(model.first)]
    while frontier:
        state = frontier.pop()
        assert model.violations(state) == ()
        for _, after in model.successors(state):
            raised = model.raised(after)
            if raised not in seen:
                seen.add(raised)
                frontier.append(raised)
    assert len({model.normal(state) for state in seen}) == explore(SILENT).states < len(seen)


def test_three_members_are_explored_up_to_a_limit():
    result = explore(replace(ROLL, members=3), max_states=3_000)
    assert result.counterexample is None, shown(result)
    assert result.states > 3_000
    assert not result.complete
    assert not explore(ROLL, seconds=0.01).complete


def test_progress_is_told():
    told = []
    explore(SILENT, progress=lambda states, depth, seconds: told.append((states, depth)))
    assert told == sorted(told)
    assert told[0] == (1, 0)


def test_the_ground_truth_is_what_really_is():
    model = Model(BRIEF)
    state = model.raised(model.first)
    texts = [
        "a starts the new binary and asks to join",
        "a's join arrives",
        "a hears that it is admitted: level 1, gates up to 1",
        "the coordinator's timer goes off",
        "a hears news: level 2, gates up to 2",
    ]
    for text in texts:
        state = next(after for step, after in model.successors(state) if str(step) == text)
    evidence = model.evidence(model.raised(state))
    (process,) = evidence.processes
    assert (process.runs[LADDER], process.acting(LADDER), evidence.used[LADDER]) == (NEW, 2, 2)
    assert OLD.hi < evidence.store.ladder_states[LADDER].level == 2


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, arguments)


def test_the_command_shows_what_was_seen():
    result = run("--scenario", "silent", "--scenario", "held", "--members", "1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["scenario", "states", "transitions", "steps", "seconds", "result"]
    assert [line.split()[0] for line in lines[1:]] == ["silent", "held"]
    assert all(line.split()[-1] == "holds" for line in lines[1:])


def test_the_command_stops_at_a_limit_and_says_so():
    result = run("-s", "roll", "-m", "3", "--max-states", "500", "-o", "json")
    assert result.exit_code == 0, result.output
    assert '"complete": false' in result.stdout
    bound = re.search(
        r"holds in every interleaving of up to (\d+) steps", run("-s", "roll", "--max-states", "500").stdout
    )
    assert int(bound[1]) >= 3


def test_what_was_seen_before_a_limit_is_everything_up_to_so_many_steps():
    scenario = replace(SILENT, members=3)
    limited = explore(scenario, max_states=200)
    model = Model(scenario)
    seen = frontier = {model.normal(model.first)}
    for _ in range(limited.depth):
        frontier = {model.normal(after) for state in frontier for _, after in model.successors(state)} - seen
        seen = seen | frontier
    assert not limited.complete
    assert len(seen) <= limited.states, "none that is so few steps away was left out"


def test_the_command_knows_its_scenarios():
    result = run("-s", "nothing")
    assert result.exit_code == 1
    assert result.exception.condition == "NOT_FOUND"
    assert "roll" in result.exception.sides["known"]


def test_the_command_shows_what_breaks_without_each_rule(monkeypatch):
    quick = tuple(each for each in MUTANTS if each.name in ("unknown-passes", "hold-ignored", "no-leases"))
    monkeypatch.setattr("halocline.fleet.model.mutants.MUTANTS", quick)
    result = run("--mutants")
    assert result.exit_code == 0, result.output
    assert "3 of 3 broken, as they should be." in result.stdout
    assert "unknown-passes: a client of which nothing is known does not keep the level from rising" in result.stdout
    assert "violates 12 Hold" in result.stdout
