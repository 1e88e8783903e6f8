"""The result as one line and as the page docs/compat.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from halocline.compat.answer import Answer

from .measure import OPERATIONS, Outcome

# The columns of the tables; everything else that was measured is between two of these and told in words.
_SHOWN = {
    "deltalake": (
        *("0.6.3", "0.16.4", "0.19.2", "0.25.5", "1.0.2", "1.2.1"),
        *("1.3.3", "1.4.2", "1.5.1", "1.6.0", "1.6.3", "1.6.6"),
    ),
    "hudi-rs": ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0"),
}
_TITLES = {
    "read.query": "Reading through the query engine (`QueryBuilder`, from 0.22)",
    "read.arrow": "Reading through Arrow (`to_pyarrow_table`, `to_pandas`)",
    "write.append": "Appending with the writer in Rust (from 0.14)",
    "write.arrow": "Appending with the Arrow writer (up to 0.25)",
    "read": "hudi-rs: reading",
}
_SIGNS = {Answer.OK: "ok", Answer.REFUSED: "–", Answer.WRONG: "**WRONG**", Answer.UNKNOWN: "?"}


def summary(outcomes: Sequence[Outcome], missing: Mapping[str, str]) -> str:
    """One line: how many pairs agree."""
    if not outcomes:
        return "score: nothing was measured"
    wrong = sum(each.observed is Answer.WRONG for each in outcomes)
    text = (
        f"score: {_score(outcomes)} predictions agree with what was observed; {wrong:,} observations are silently wrong"
    )
    return text + (f"; not installed: {', '.join(missing)}" if missing else "")


def page(outcomes: Sequence[Outcome], missing: Mapping[str, str]) -> str:
    """The whole page."""
    releases = list(dict.fromkeys(each.release for each in outcomes))
    cases = len({each.case for each in outcomes})
    parts = [
        "# Predicted against observed",
        "<!-- Written by `python -m tests.compat --write-docs`. Do not edit. -->",
        "What Halocline says about a release is compared with what that release does. `make compat` installs real "
        "old releases into throw-away environments, writes one small table per number and feature by hand (no Delta "
        "or Hudi client takes part in that), and lets every release read and append to every table. Rows are "
        "compared, appended files and commits are looked at from outside, and rows that break a table's rule are "
        "offered as well, so silently wrong outcomes show.",
        f"{len(releases)} releases, {cases} tables, {len(outcomes):,} outcomes.",
        *_scores(outcomes),
        "Refusing is by far the most common outcome, hence the second line: a score means something only above it. "
        "The third line is what deltalake's own gates promise, read from its source "
        "([tests/compat/gates](../tests/compat/gates/deltalake.toml)): it is off where a way into a table does not "
        "ask the gate, or where the gate passes and the code behind it gets it wrong, and it foresees none of the "
        "wrong outcomes.",
        "The shipped knowledge was corrected by this measurement, so its own score shows only that nothing has "
        "slipped since. The last two lines say more: releases that knowledge was not made from (they lie between "
        "measured ones, and all were right at first sight), and tables that mix features while knowledge is about "
        "single ones (2,394 of 2,400 were right at first sight; the other six had one cause and are corrected).",
    ]
    if missing:
        parts.append("Not installed here: " + ", ".join(f"{name} ({why})" for name, why in missing.items()) + ".")
    parts += _disagreements(outcomes)
    parts += _wrong(outcomes)
    for product, operations in OPERATIONS.items():
        for operation in operations:
            chosen = [
                each for each in outcomes if each.operation == operation and each.release.startswith(product + "@")
            ]
            if chosen:
                parts += _table(chosen, operation, _SHOWN[product])
    return "\n\n".join(parts) + "\n"


def _scores(outcomes: Sequence[Outcome]) -> list[str]:
    def line(title: str, chosen: Iterable[Outcome], says: Callable[[Outcome], Answer | None]) -> str:
        told = [each for each in chosen if says(each) is not None]
        wrong = [each for each in told if each.observed is Answer.WRONG]
        foreseen = sum(says(each) is each.observed for each in wrong)
        right = sum(says(each) is each.observed for each in told)
        return f"| {title} | {right:,} of {len(told):,} | {right / len(told):.1%} | {foreseen} of {len(wrong)} |"

    rows = [
        line("**shipped knowledge**", outcomes, lambda each: each.predicted),
        line("always answering refused", outcomes, lambda each: Answer.REFUSED),
        line("deltalake's own gates, from source", outcomes, lambda each: each.by_source),
        line("shipped, releases it was not made from", [o for o in outcomes if o.unseen], lambda each: each.predicted),
        line(
            "shipped, tables that mix features",
            [each for each in outcomes if each.case.startswith("mixed")],
            lambda each: each.predicted,
        ),
    ]
    head = "| predicted by | right | | silently wrong ones foreseen |\n|---|---|---|---|\n"
    return [head + "\n".join(rows)]


def _disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    found = [each for each in outcomes if not each.agrees]
    if not found:
        return ["Every single prediction agrees with what was observed."]
    lines = [
        f"| {each.release} | {each.operation} | {each.case} | {each.predicted} | {each.observed} | {_cell(each.note)} |"
        for each in found
    ]
    head = "| release | operation | table | predicted | observed | |\n|---|---|---|---|---|---|\n"
    return ["## Where they differ", head + "\n".join(lines)]


def _wrong(outcomes: Sequence[Outcome]) -> list[str]:
    """Every silently wrong outcome; releases in a row are joined, and so are tables with the same fate."""
    releases = list(dict.fromkeys(each.release for each in outcomes))
    found: dict[tuple[str, str, str], list[int]] = {}
    for each in outcomes:
        if each.observed is Answer.WRONG:
            at = releases.index(each.release)
            found.setdefault((each.operation, each.case, _cell(each.note)), []).append(at)
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (operation, case, note), places in found.items():
        rows.setdefault((_runs(releases, places), operation, note), []).append(case)
    lines = [f"| {who} | {operation} | {'; '.join(cases)} | {note} |" for (who, operation, note), cases in rows.items()]
    head = "| releases | operation | tables | what happens |\n|---|---|---|---|\n"
    intro = "No error, no warning, and the wrong result. Refusing would have been safe."
    return ["## Silently wrong", intro, head + "\n".join(lines)]


def _runs(releases: Sequence[str], places: Sequence[int]) -> str:
    """`deltalake@0.5.8 … 0.6.3, 1.6.6`, from places in the list of releases."""
    runs: list[list[int]] = []
    for at in places:
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    versions = [releases[at].split("@")[1] for at in range(len(releases))]
    told = [versions[run[0]] + (f" … {versions[run[-1]]}" if len(run) > 1 else "") for run in runs]
    return f"{releases[places[0]].split('@')[0]} {', '.join(told)}"


def _table(outcomes: Sequence[Outcome], operation: str, shown: Sequence[str]) -> list[str]:
    """Tables with the same outcome everywhere share a row."""
    found = {(each.release.split("@")[1], each.case): each for each in outcomes}
    releases = list(dict.fromkeys(version for version, _ in found))
    columns = [version for version in shown if version in releases]
    groups: dict[tuple[Answer | None, ...], list[str]] = {}
    for case in dict.fromkeys(case for _, case in found):
        pattern = tuple(each.observed if (each := found.get((version, case))) else None for version in releases)
        groups.setdefault(pattern, []).append(case)
    lines = []
    for cases in groups.values():
        cells = [_sign(found.get((version, cases[0]))) for version in columns]
        lines.append(f"| {_changes(found, releases, cases[0])} | {' | '.join(cells)} | {'; '.join(cases)} |")
    head = f"| changes at | {' | '.join(columns)} | tables |\n|---|{'---|' * len(columns)}---|\n"
    return [f"## {_TITLES[operation]}", head + "\n".join(lines)]


def _changes(found: Mapping[tuple[str, str], Outcome], releases: Sequence[str], case: str) -> str:
    changes, last = [], None
    for version in releases:
        each = found.get((version, case))
        if each and last and each.observed is not last.observed:
            changes.append(version)
        last = each or last
    return ", ".join(changes) or "–"


def _sign(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return _SIGNS[outcome.observed] + ("" if outcome.agrees else " ≠ predicted")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]


def _score(outcomes: Sequence[Outcome]) -> str:
    agreed = sum(each.agrees for each in outcomes)
    return f"{agreed:,} of {len(outcomes):,} ({agreed / len(outcomes):.1%})"
