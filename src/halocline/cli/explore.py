"""`halocline fleet explore`: every interleaving of a small fleet, checked against the invariants."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.status import Status

from halocline.cli.output import ERROR, FINE, OutputFormat, OutputOption, columns, emit
from halocline.errors import NotFoundError

if TYPE_CHECKING:
    from halocline.fleet.model.explorer import Exploration
    from halocline.fleet.model.scenario import Scenario


def explore(
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", "-s", help="What to explore; may be repeated. All if not said.")
    ] = None,
    members: Annotated[int, typer.Option("--members", "-m", min=1, max=4, help="How many members.")] = 2,
    lives: Annotated[
        int | None, typer.Option("--lives", min=0, help="How many former lives may be registered at a restart.")
    ] = None,
    max_states: Annotated[int | None, typer.Option("--max-states", min=1, help="Give up after so many states.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.1, help="Give up after so long.")] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Take out one rule at a time and show what breaks, in the fewest steps.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Walk through every interleaving of a small fleet and check the invariants.

    The coordinator and the members are the real ones; the network loses and delays, processes crash, clocks fall behind
    and coordinators replace each other. With three members or more, set a limit: the result says up to how many steps
    every interleaving was seen.
    """
    if mutants:
        code = _mutants(max_states, seconds, output)
    else:
        code = _scenarios(_chosen(scenario, members, lives), max_states, seconds, output)
    raise typer.Exit(code)


def _chosen(names: list[str] | None, members: int, lives: int | None) -> list[Scenario]:
    from halocline.fleet.model.scenario import LARGE, SCENARIOS

    for name in names or ():
        if name not in SCENARIOS:
            raise NotFoundError.unknown(f"there is no scenario {name}", name, SCENARIOS)
    chosen = (
        [SCENARIOS[name] for name in names]
        if names
        else [each for name, each in SCENARIOS.items() if name not in LARGE]
    )
    return [replace(each, members=members, lives=each.lives if lives is None else lives) for each in chosen]


def _scenarios(scenarios: list[Scenario], max_states: int | None, seconds: float | None, output: OutputFormat) -> int:
    from halocline.fleet.model.explorer import explore as walk

    table = columns("scenario", "states", "transitions", "steps", "seconds", "result")
    results = []
    with _status(output) as status:
        for each in scenarios:
            progress = partial(_show_progress, status, each.name)
            results.append(walk(each, max_states=max_states, seconds=seconds, progress=progress))
    for result in results:
        numbers = (f"{result.states:,}", f"{result.transitions:,}", str(result.depth), f"{result.seconds:.1f}")
        table.add_row(result.scenario.name, *numbers, _verdict(result))
    found = [f"\n{each.scenario.name}\n{each.counterexample}" for each in results if each.counterexample]
    emit(output, [_facts(each) for each in results], table, *found)
    return ERROR if found else FINE


def _mutants(max_states: int | None, seconds: float | None, output: OutputFormat) -> int:
    from halocline.fleet.model.explorer import explore as walk
    from halocline.fleet.model.mutants import MUTANTS

    shown: list[RenderableType] = []
    facts: list[dict[str, object]] = []
    survived = 0
    for mutant in MUTANTS:
        search = partial(walk, mutant.scenario, mutant.rules, watch=mutant.watch, lively=mutant.stuck)
        with _status(output) as status:
            progress = partial(_show_progress, status, mutant.name)
            result = search(max_states=max_states, seconds=seconds, progress=progress)
        survived += result.counterexample is None
        steps = f"broken in {len(result.counterexample.steps)} steps" if result.counterexample else "NOT broken"
        found = f"{steps}, {result.states:,} states, {result.seconds:.1f} s"
        shown.append(f"{mutant.name}: {mutant.fault}\n{found}\n{result.counterexample or ''}\n")
        facts.append({"mutant": mutant.name, "fault": mutant.fault, **_facts(result)})
    emit(output, facts, *shown, f"{len(MUTANTS) - survived} of {len(MUTANTS)} broken, as they should be.")
    return ERROR if survived else FINE


def _verdict(result: Exploration) -> str:
    if result.counterexample:
        return f"violated: {', '.join(each.name for each in result.counterexample.violations)}"
    return "holds" if result.complete else f"holds in every interleaving of up to {result.depth} steps"


def _facts(result: Exploration) -> dict[str, object]:
    found = result.counterexample
    return {
        "scenario": result.scenario.name,
        "members": result.scenario.members,
        "states": result.states,
        "transitions": result.transitions,
        "depth": result.depth,
        "complete": result.complete,
        "seconds": round(result.seconds, 3),
        "violations": [str(each) for each in found.violations] if found else [],
        "trace": list(found.steps) if found else [],
    }


def _status(output: OutputFormat) -> Status:
    """A line on standard error that is overwritten, for people at a terminal only."""
    console = Console(stderr=True)
    console.quiet = output is OutputFormat.JSON or not console.is_terminal
    return console.status("")


def _show_progress(status: Status, name: str, states: int, depth: int, seconds: float) -> None:
    status.update(f"{name}: {states:,} states, {depth} steps deep, {seconds:.0f} s")
