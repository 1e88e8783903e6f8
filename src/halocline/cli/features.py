"""`halocline features`: the formats, the features of one, or the record of one feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from halocline.cli.output import OutputFormat, OutputOption, columns, emit
from halocline.compat.features import FORMATS, Feature, Rules, features, find_feature, rules
from halocline.errors import NotFoundError

FormatArgument = Annotated[str | None, typer.Argument(metavar="[FORMAT]", help=f"One of: {', '.join(FORMATS)}.")]
NameArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A feature's name, in any case.")]


def show(format: FormatArgument = None, name: NameArgument = None, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the table formats, the features of one, or one feature in full.

    A feature may also be named alone: halocline features deletionVectors
    """
    if format is None:
        _show_formats(output)
    elif name is not None:
        _show_feature(find_feature(format.lower(), name), output)
    elif format.lower() in FORMATS:
        _show_format(format.lower(), output)
    else:
        _show_feature(_find_anywhere(format), output)


def _find_anywhere(name: str) -> Feature:
    folded = name.casefold()
    for format in FORMATS:
        for each in features(format).values():
            if folded in (each.name.casefold(), *map(str.casefold, each.aliases)):
                return each
    known = [*FORMATS, *(each for format in FORMATS for each in features(format))]
    message = f"{name!r} is neither a format nor a feature"
    raise NotFoundError.unknown(message, name, known, condition="FEATURE_UNKNOWN", next_step="See: halocline features")


def _show_formats(output: OutputFormat) -> None:
    table = columns("format", "features", "versions")
    facts = []
    for format in FORMATS:
        how = rules(format)
        table.add_row(format, str(len(features(format))), _versions(how))
        facts.append({"format": format, "features": len(features(format)), "versions": _versions(how)})
    emit(output, facts, table, "", "One format:   halocline features delta")


def _versions(how: Rules) -> str:
    if how.level_name:
        return f"{how.level_name} {how.readers[0]} to {how.readers[-1]}"
    return f"reader {how.readers[0]} to {how.readers[-1]}, writer {how.writers[0]} to {how.writers[-1]}"


def _show_format(format: str, output: OutputFormat) -> None:
    records = features(format).values()
    table = columns("feature", "kind", "from", "switched on by", "drop since", "means")
    rungs = rules(format).level_name
    for each in records:
        if rungs and each.name.startswith(rungs):
            continue
        drop = str(each.drop.since) if each.drop else "-"
        table.add_row(each.name, str(each.kind), _implied_from(each), _switches(each), drop, each.summary)
    facts = {
        "format": format,
        "levels": [
            {"number": each.number, "releases": each.releases, "adds": list(each.adds), "summary": each.summary}
            for each in rules(format).levels
        ],
        "features": [each.to_dict() for each in records],
    }
    emit(output, facts, *_ladder(rules(format)), table)


def _ladder(how: Rules) -> Iterator[Table | str]:
    if how.levels:
        table = columns("version", "releases", "adds", "means")
        for each in how.levels:
            table.add_row(str(each.number), each.releases, ", ".join(each.adds) or "-", each.summary)
        yield table
        yield ""


def _implied_from(record: Feature) -> str:
    if record.legacy is None:
        return "by name"
    reader, writer = record.legacy
    if rules(record.format).level_name:
        return str(writer)
    return f"writer {writer}" if reader == 0 else f"({reader},{writer})"


def _in_protocol(record: Feature) -> str:
    if record.legacy is None:
        return "by name"
    return f"from {_implied_from(record)} on" + ("" if rules(record.format).level_name else ", or by name")


def _switches(record: Feature) -> str:
    return " or ".join(map(str, record.enabled_by)) or "-"


def _show_feature(record: Feature, output: OutputFormat) -> None:
    emit(output, record.to_dict(), f"{record.format} feature {record.name}", *_lines(record))


def _lines(record: Feature) -> Iterator[str]:
    rows = [
        ("means", record.summary),
        ("understood by", {"reader-writer": "readers and writers", "writer": "writers"}.get(record.kind, "not known")),
        ("in a protocol", _in_protocol(record)),
        ("requires", ", ".join(sorted(record.requires))),
        ("requires switched on", ", ".join(sorted(record.requires_enabled))),
        ("excludes", ", ".join(sorted(record.excludes_supported))),
        ("excludes switched on", ", ".join(sorted(record.excludes_enabled))),
        ("switched on by", _switches(record)),
        ("comes in", _arrival(record)),
        ("dropped", _drop(record)),
        ("other names", ", ".join(record.aliases)),
        ("preview of", record.preview_of or ""),
        ("previews", ", ".join(sorted(record.previews))),
        ("note", record.note),
    ]
    width = max(len(label) for label, _ in rows) + 2
    for label, text in rows:
        if text:
            yield f"  {label:<{width}}{text}"
    for at, step in enumerate(record.drop.steps if record.drop else (), start=1):
        yield f"  {f'drop step {at}':<{width}}{step}{' (in the drop itself)' if step.at_drop else ''}"


def _arrival(record: Feature) -> str:
    if record.format != "delta":
        return "with the table's version"
    ways = "with a new table only" if record.create_only else "by name"
    if not record.by_property:
        ways = "with the statement that creates the table"
    if record.added_by_metadata:
        ways += ", or by itself when switched on" + ("" if record.upgrades_existing else " in a new table")
    return ways + (", and fails transactions in flight" if record.fails_others else "")


def _drop(record: Feature) -> str:
    if record.drop is None:
        return "never" if record.format == "delta" else ""
    if record.drop.only_with_truncation:
        how = "only by truncating history"
    elif record.drop.barrier:
        how = "history is truncated, or protected by checkpointProtection"
    else:
        how = "history stays as it is"
    return f"since {record.drop.since}; {how}"
