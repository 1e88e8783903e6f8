"""What was tried, as knowledge lists it: which releases, doing what, on tables that ask for which tokens.

An outcome counts for the operation that was tried, and for a coarser one as far as knowledge answers both by the same
fact: an append that worked tells of writes in general, and a read by a path does not tell of reads by a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from halocline.compat.knowledge import Knowledge
from halocline.compat.product import Product
from halocline.compat.verdict import can
from halocline.versions import Version

from .outcomes import Outcome
from .pages import data_of, recorded

Tried = tuple[str, str, str]
"""A version, a token and an operation."""

KNOWLEDGE = Path(__file__).parents[2] / "src" / "halocline" / "compat" / "data" / "knowledge"
_WIDTH = 120


def tried(outcomes: Iterable[Outcome]) -> set[Tried]:
    """All that these outcomes tell something of."""
    return {
        (each.version, token, operation)
        for each in outcomes
        for token in each.terms.requires(each.asked or each.operation)
        for operation in _told_of(each, token)
    }


def listed(product: Product) -> set[Tried]:
    """All that knowledge says was tried."""
    return {
        (str(version), token, operation)
        for trial in product.trials
        for version in trial.releases
        for token in trial.tokens
        for operation in trial.operations
    }


def files() -> dict[Path, str]:
    """The files of knowledge that list trials, as they should be."""
    found = {}
    for product in Knowledge.load().products.values():
        if product.trials and data_of(product.name).exists():
            path = KNOWLEDGE / f"{product.name}.toml"
            head, _, rest = path.read_text().partition("[[trial]]\n")
            facts = rest[rest.index("[[fact]]\n") :]
            found[path] = head + "".join(_sections(tried(recorded(product.name)))) + facts
    return found


def _told_of(outcome: Outcome, token: str) -> Iterator[str]:
    asked = operation = outcome.asked or outcome.operation
    while operation:
        if _answered(outcome, token, operation) == _answered(outcome, token, asked):
            yield operation
        operation = operation.rpartition(".")[0]


def _answered(outcome: Outcome, token: str, operation: str) -> object:
    verdict = can(outcome.release, outcome.terms, operation)
    need = verdict._need
    return verdict._support.answer(token, need.uses(token), need.table)


def _sections(found: set[Tried]) -> Iterator[str]:
    releases = defaultdict[tuple[str, str], set[str]](set)
    for version, token, operation in found:
        releases[operation, token].add(version)
    tokens = defaultdict[tuple[str, frozenset[str]], set[str]](set)
    for (operation, token), versions in releases.items():
        tokens[operation, frozenset(versions)].add(token)
    operations = defaultdict[tuple[frozenset[str], frozenset[str]], set[str]](set)
    for (operation, versions), names in tokens.items():
        operations[versions, frozenset(names)].add(operation)
    for (versions, names), ways in sorted(operations.items(), key=lambda each: (sorted(each[1]), sorted(each[0][1]))):
        yield "[[trial]]\n"
        yield _array("operation", sorted(ways))
        yield _array("releases", sorted(versions, key=Version.parse))
        yield _array("tokens", sorted(names))
        yield "\n"


def _array(key: str, values: list[str]) -> str:
    quoted = [f'"{each}"' for each in values]
    line = f"{key} = [{', '.join(quoted)}]"
    if len(quoted) == 1 and key == "operation":
        return f"{key} = {quoted[0]}\n"
    if len(line) <= _WIDTH:
        return f"{line}\n"
    lines = [""]
    for each in quoted:
        if len(lines[-1]) + len(each) + 6 > _WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{each},"
    return f"{key} = [\n" + "".join(f"    {each}\n" for each in lines) + "]\n"
