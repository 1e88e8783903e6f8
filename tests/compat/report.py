"""What was measured, as one line, and as the section of a product's page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import fill

from halocline.compat.answer import Answer
from halocline.compat.verdict import can

from .hudi_measure import OPERATIONS as HUDI_OPERATIONS
from .measure import OPERATIONS
from .outcomes import Outcome

# The columns of the tables; everything else that was measured is between two of these and told in words.
_SHOWN = {
    "deltalake": (
        *("0.6.3", "0.16.4", "0.19.2", "0.25.5", "1.0.2", "1.2.1"),
        *("1.3.3", "1.4.2", "1.5.1", "1.6.0", "1.6.3", "1.6.6"),
    ),
    "delta-spark": (
        *("0.8.0", "1.0.1", "1.1.0", "1.2.1", "2.0.2", "2.2.0", "2.3.0", "2.4.0"),
        *("3.0.0", "3.1.0", "3.2.0", "3.2.1", "3.3.2", "4.0.1", "4.4.0"),
    ),
    "hudi": ("0.15.0", "1.0.2", "1.1.1", "1.2.0"),
    "hudi-rs": ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0"),
}
_TITLES = {
    "read.query": "Reading through the query engine (`QueryBuilder`, from 0.22)",
    "read.arrow": "Reading through Arrow (`to_pyarrow_table`, `to_pandas`)",
    "deltalake write.append": "Appending with the writer in Rust (from 0.14)",
    "write.append": "Appending a row",
    "write.arrow": "Appending with the Arrow writer (up to 0.25)",
    "write.delete": "Deleting a row",
    "write.delete.all": "Deleting all rows",
    "write.merge": "Merging into a row",
    "write.optimize": "Compacting files",
    "read": "Reading all rows",
    "read.filter": "Reading one row of a file with several pages",
    "read.incremental": "Reading what writes of a range brought",
    "read.changes": "Reading the log of changes",
    "write": "Changing a row",
}
_WIDTH = 116
_METHOD = """What Halocline says about a release is compared with what that release does. `make compat` installs real
    old releases into throw-away environments, writes one small table per number and feature by hand (no Delta client
    takes part in that), and lets every release read and append to every table. Rows are compared, appended
    files and commits are looked at from outside, and rows that break a table's rule are offered as well, so silently
    wrong outcomes show."""
_SECOND_AND_THIRD = """Refusing is by far the most common outcome, hence the second line: a score means something only
    above it. The third line is what deltalake's own gates promise, read from its source
    ([tests/compat/gates](../tests/compat/gates/deltalake.toml)): it is off where a way into a table does not ask the
    gate, or where the gate passes and the code behind it gets it wrong, and it foresees none of the wrong outcomes."""
_LAST_TWO = """The shipped knowledge was corrected by this measurement, so its own score shows only that nothing has
    slipped since. The last two lines say more: releases that knowledge was not made from (they lie between measured
    ones, and all were right at first sight), and tables that mix features while knowledge is about single ones (2,394
    of 2,400 were right at first sight; the other six had one cause and are corrected)."""
_HOW_TO_READ = """Tables with the same outcome in every release are one group; what is in a group is listed below.
    A dash is a refusal. The last column names each release, shown or not, at which the outcome becomes another."""
_HUDI_METHOD = """`make compat-jvm` lets real releases read and change Hudi tables, and compares what they do with what
    Halocline says about them: hudi-rs from PyPI in an environment per release, and Apache Hudi's own Spark bundles on
    PySpark 3.5. The tables named `ours` are written by Halocline, also with the properties that other writers leave;
    the others were written by the release that their name tells (`v6_` by 0.15.0, `v8_` by 1.0.2, `v9_` by 1.2.0,
    `v6by120_` and `v8by120_` by 1.2.0 at an older table version), and must return what their writer returned. A table
    says itself what it asks for, as it does to `halocline check`. A row that a release changed is looked at from
    outside. Every release is asked for the same range of time in its own words: 1.0.2 counts the begin of a range
    in, from table version 8 on, and no other release does. Merge rules differ only where rows came late; a table
    without such rows does not show it, and is left out where that is all that is foretold."""
_SPARK_METHOD = """`make compat-jvm` lets real releases of Delta Spark, each on its own Spark and Java, work on the
    tables of `make compat` by path, and compares what they do with what Halocline says about them. Rows are compared,
    the rows in the live files are counted from outside, and rows that break a table's rule are offered as well. An
    optimize comes after an append by the same release."""
_TRINO_METHOD = """`make compat-jvm` starts real releases of Trino, one node each on its own Java, and lets them work on
    the tables of `make compat`, which lie on an S3 server on loopback, because old releases write to object stores
    alone. Maven Central has few servers whole; for the outcomes here, the connector of the others was compiled from
    the source at the release's tag, unchanged. Every table asks for a checkpoint at every commit. Rows are compared,
    the rows in the live files and in the checkpoint are counted from outside, and rows that break a table's rule are
    offered as well. An optimize comes after an append by the same release. Reading all rows says nothing about reading
    some, and a file of one page nothing about files of several, so knowledge is asked for them apart (`read.scan`,
    `write.delete.page`)."""
_ENGINE_METHOD = """`make compat` installs real releases, each with what it stood on when it came out, and lets them
    read the tables that deltalake is tried on, which no Delta client wrote. Rows are compared, and what an append
    leaves behind is looked at from outside."""
_METHODS = {
    **dict.fromkeys(("duckdb", "polars", "daft"), _ENGINE_METHOD),
    "deltalake": _METHOD,
    "delta-spark": _SPARK_METHOD,
    "trino": _TRINO_METHOD,
    "hudi": _HUDI_METHOD,
    "hudi-rs": _HUDI_METHOD,
}
ALL_OPERATIONS = OPERATIONS | HUDI_OPERATIONS
_SCORE_HEAD = "| predicted by | right | | silently wrong ones foreseen |\n|---|---|---|---|\n"
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


def measured(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The section of a product's page: how it was measured, how well it was foretold, and what was observed."""
    product = outcomes[0].product
    releases = {each.release for each in outcomes}
    yield "## Measured"
    yield filled(_METHODS[product])
    counted = f"{len(releases)} releases, {len({each.case for each in outcomes})} tables, {len(outcomes):,} outcomes"
    yield f"{counted}: all of them are in [compat-{product}.csv](compat-{product}.csv)."
    yield _SCORE_HEAD + "\n".join(_scores(product, outcomes))
    if product == "deltalake":
        yield filled(_SECOND_AND_THIRD)
        yield filled(_LAST_TWO)
    yield from _disagreements(outcomes)
    yield from _wrong(outcomes)
    yield "### Table by table"
    yield filled(_HOW_TO_READ)
    for operation in ALL_OPERATIONS[product]:
        chosen = [each for each in outcomes if each.operation == operation]
        if chosen:
            title = _TITLES.get(f"{product} {operation}") or _TITLES[operation]
            yield from _table(chosen, title, _SHOWN.get(product, [each.version for each in chosen]))


def _by_version(outcome: Outcome) -> Answer:
    """What the table version says if nothing else is known of the table."""
    return can(outcome.release, outcome.terms.protocol, outcome.operation).answer


def _scores(product: str, outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        _score_line("**shipped knowledge**", outcomes, lambda each: each.predicted),
        _score_line("always answering ok", outcomes, lambda each: Answer.OK),
        _score_line("always answering refused", outcomes, lambda each: Answer.REFUSED),
    ]
    if product in HUDI_OPERATIONS:
        rows.append(_score_line("the table version alone", outcomes, _by_version))
    if product != "deltalake":
        return rows
    return [
        *rows,
        _score_line("deltalake's own gates, from source", outcomes, lambda each: each.by_source),
        _score_line(
            "shipped, releases it was not made from", [o for o in outcomes if o.unseen], lambda each: each.predicted
        ),
        _score_line(
            "shipped, tables that mix features",
            [each for each in outcomes if each.case.startswith("mixed")],
            lambda each: each.predicted,
        ),
    ]


def _score_line(title: str, chosen: Iterable[Outcome], says: Callable[[Outcome], Answer | None]) -> str:
    told = [each for each in chosen if says(each) is not None]
    if not told:
        return f"| {title} | nothing measured | | |"
    wrong = [each for each in told if each.observed is Answer.WRONG]
    foreseen = sum(says(each) is each.observed for each in wrong)
    right = sum(says(each) is each.observed for each in told)
    return f"| {title} | {right:,} of {len(told):,} | {right / len(told):.1%} | {foreseen} of {len(wrong)} |"


def _disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    found = [each for each in outcomes if not each.agrees]
    if not found:
        return ["Every single prediction agrees with what was observed."]
    lines = [
        f"| {each.release} | {each.operation} | {each.case} | {each.predicted} | {each.observed} | {_cell(each.note)} |"
        for each in found
    ]
    head = "| release | operation | table | predicted | observed | |\n|---|---|---|---|---|---|\n"
    return ["### Where they differ", head + "\n".join(lines)]


def _wrong(outcomes: Sequence[Outcome]) -> list[str]:
    """Every silently wrong outcome; releases in a row are joined, and so are tables with the same fate."""
    releases = list(dict.fromkeys(each.release for each in outcomes))
    found: dict[tuple[str, str, str], list[int]] = {}
    for each in outcomes:
        if each.observed is Answer.WRONG:
            at = releases.index(each.release)
            found.setdefault((each.operation, each.case, _cell(each.note)), []).append(at)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for (operation, case, note), places in found.items():
        groups.setdefault((_runs(releases, places), operation, note), []).append(case)
    if not groups:
        return ["No outcome was silently wrong."]
    items = [
        item(f"**{who}**, `{operation}`: {note}. Tables: {'; '.join(cases)}.")
        for (who, operation, note), cases in groups.items()
    ]
    intro = "No error, no warning, and the wrong result. Refusing would have been safe."
    return ["### Silently wrong", intro, "\n".join(items)]


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


def _table(outcomes: Sequence[Outcome], title: str, shown: Iterable[str]) -> list[str]:
    """One row for every group of tables with the same outcome everywhere, and what is in the groups below."""
    found = {(each.release.split("@")[1], each.case): each for each in outcomes}
    releases = list(dict.fromkeys(version for version, _ in found))
    columns = [version for version in dict.fromkeys(shown) if version in releases]
    groups: dict[tuple[Answer | None, ...], list[str]] = {}
    for case in dict.fromkeys(case for _, case in found):
        pattern = tuple(each.observed if (each := found.get((version, case))) else None for version in releases)
        groups.setdefault(pattern, []).append(case)
    rows = [
        ([_sign(found.get((version, cases[0]))) for version in columns], _changes(found, releases, cases[0]), cases)
        for cases in groups.values()
    ]
    return _matrix(title, columns, rows)


def _matrix(title: str, columns: Sequence[str], rows: Sequence[tuple[Sequence[str], str, Sequence[str]]]) -> list[str]:
    lines, items = [], []
    for number, (cells, changes, cases) in enumerate(rows, start=1):
        lines.append(f"| {number} | {' | '.join(cells)} | {changes} |")
        items.append(item(f"**{number}** ({len(cases)}): {'; '.join(cases)}"))
    head = f"| group | {' | '.join(columns)} | changes at |\n|---|{'---|' * len(columns)}---|\n"
    return [f"#### {title}", head + "\n".join(lines), "\n".join(items)]


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


def filled(text: str) -> str:
    """A paragraph in lines that can be read."""
    return fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> str:
    """One item of a list, in lines that can be read."""
    return fill(
        text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]


def _score(outcomes: Sequence[Outcome]) -> str:
    agreed = sum(each.agrees for each in outcomes)
    return f"{agreed:,} of {len(outcomes):,} ({agreed / len(outcomes):.1%})"
