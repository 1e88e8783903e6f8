"""`halocline matrix`: who provides what, product by product, or who may read or write a table with a protocol."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from halocline.cli.output import FINE, INCOMPATIBLE, OutputFormat, OutputOption, columns, emit
from halocline.compat.answer import Answer, in_one_line
from halocline.compat.features import find_feature
from halocline.compat.matrix import (
    Stretch,
    feature_stretches,
    products_of,
    protocol_stretches,
    token_answer,
    tokens_for,
)
from halocline.compat.product import Product, checked_operation
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict, can
from halocline.errors import InputError

_LEGEND = "\n1.2.0: from there on   [1.2.0, 2.0.0): only those   -: refused   ?: not known   WRONG: silently wrong data"
_MOST_COLUMNS = 7
_STYLES = {Answer.OK: "green", Answer.REFUSED: "dim", Answer.UNKNOWN: "yellow", Answer.WRONG: "bold white on red"}


def show(
    format: Annotated[str, typer.Option("--format", help="The table format: delta, hudi or index.")] = "delta",
    operation: Annotated[
        str, typer.Option("--operation", help="read, write, or finer: read.arrow, read.changes, write.append …")
    ] = "read",
    product: Annotated[list[str] | None, typer.Option("--product", help="Only this product; may be repeated.")] = None,
    release: Annotated[
        list[str] | None, typer.Option("--release", help="A release such as deltalake@1.6.6; may be repeated.")
    ] = None,
    feature: Annotated[list[str] | None, typer.Option("--feature", help="Only this feature; may be repeated.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", help="Judge this protocol: '(3,7|R: deletionVectors|W: deletionVectors)'."),
    ] = None,
    enabled: Annotated[
        list[str] | None, typer.Option("--enabled", help="With --protocol: a feature in use; may be repeated.")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Who provides what: features by product, or the verdicts on a protocol.

    With --release and --protocol it exits 2 if one of the releases may not, or if it is not known.
    """
    checked_operation(operation)
    _check_used("--enabled", enabled, protocol is not None, "With --protocol, name what is in use under it.")
    _check_used("--feature", feature, protocol is None, "A protocol names its features.")
    _check_used("--product", product, not release, "A release names its product.")
    releases = [Release.parse(text) for text in release or ()]
    if protocol is not None and releases:
        _show_verdicts(output, releases, _terms(protocol, enabled), operation)
    elif protocol is not None:
        terms = _terms(protocol, enabled)
        _show_protocol(output, products_of(terms.protocol.format, product or ()), terms, operation)
    elif releases:
        _show_releases(output, releases, format, operation, _tokens(format, operation, feature))
    else:
        _show_products(
            output, products_of(format, product or ()), format, operation, _tokens(format, operation, feature)
        )


def _terms(protocol: str, enabled: list[str] | None) -> Terms:
    parsed = Protocol.parse(protocol)
    return Terms(parsed, None if enabled is None else frozenset(_in_use(parsed.format, each) for each in enabled))


def _in_use(format: str, given: str) -> str:
    """A feature as its format spells it, with the mode that it is in (`columnMapping:id`)."""
    name, colon, mode = given.partition(":")
    return find_feature(format, name).name + colon + mode


def _check_used(option: str, given: list[str] | None, counts: bool, next_step: str) -> None:
    """Refuses an option that would change nothing beside the others."""
    if given and not counts:
        raise InputError(f"{option} is of no use here", sides={"given": ", ".join(given)}, next_step=next_step)


def _tokens(format: str, operation: str, names: list[str] | None) -> tuple[str, ...]:
    return tuple(find_feature(format, name).name for name in names) if names else tokens_for(format, operation)


def _show_products(
    output: OutputFormat, products: tuple[Product, ...], format: str, operation: str, tokens: tuple[str, ...]
) -> None:
    found = {
        token: {each.name: feature_stretches(each, format, operation, token) for each in products} for token in tokens
    }
    facts = [
        {"token": token, "products": {name: [each.to_dict() for each in told] for name, told in row.items()}}
        for token, row in found.items()
    ]
    grids: list[RenderableType] = []
    for first in range(0, len(products), _MOST_COLUMNS):
        few = products[first : first + _MOST_COLUMNS]
        grid = columns(f"{operation} ({format})", *(each.name for each in few))
        for column in grid.columns:
            column.min_width = len(str(column.header))
        grid.columns[0].no_wrap = True
        for token, row in found.items():
            grid.add_row(token, *(_cell(row[each.name]) for each in few))
        grids += ["", grid] if grids else [grid]
    emit(output, {"format": format, "operation": operation, "features": facts}, *grids, _LEGEND)


def _show_releases(
    output: OutputFormat, releases: list[Release], format: str, operation: str, tokens: tuple[str, ...]
) -> None:
    grid = columns(f"{operation} ({format})", *map(str, releases))
    facts = []
    for token in tokens:
        found = {str(each): token_answer(each, format, operation, token) for each in releases}
        grid.add_row(token, *map(_answer, found.values()))
        facts.append({"token": token, "releases": {name: each.to_dict() for name, each in found.items()}})
    emit(output, {"format": format, "operation": operation, "features": facts}, grid)


def _show_protocol(output: OutputFormat, products: tuple[Product, ...], terms: Terms, operation: str) -> None:
    judged = [each for product in products for each in protocol_stretches(product, terms, operation)]
    grid = columns("product", "releases", operation, "why", "evidence")
    for at, each in enumerate(judged):
        again = at > 0 and judged[at - 1].product is each.product
        grid.add_row("" if again else each.product.name, _releases(each.product, each.stretch), *_told(each.verdict))
    facts = {"protocol": str(terms.protocol), "operation": operation, "releases": [each.to_dict() for each in judged]}
    emit(output, facts, grid)


def _show_verdicts(output: OutputFormat, releases: list[Release], terms: Terms, operation: str) -> None:
    verdicts = [can(each, terms, operation) for each in releases]
    grid = columns("release", operation, "why", "evidence", "fix")
    for each in verdicts:
        grid.add_row(str(each.release), *_told(each), str(each.fix or ""))
    facts = {"protocol": str(terms.protocol), "operation": operation, "verdicts": [each.to_dict() for each in verdicts]}
    emit(output, facts, grid)
    raise typer.Exit(FINE if all(verdicts) else INCOMPATIBLE)


def _releases(product: Product, stretch: Stretch) -> str:
    last = product.last or "later"
    if stretch.until is None:
        return str(stretch.since) if stretch.since == product.last else f"{stretch.since} to {last}"
    return f"{stretch.since} to before {stretch.until}"


def _told(verdict: Verdict) -> tuple[Text, str, str]:
    loud = verdict.answer.upper() if verdict.wrong else str(verdict.answer)
    reasons = in_one_line(verdict.reasons)
    return Text(loud, _STYLES[verdict.answer]), reasons, str(verdict.evidence or "")


def _answer(stretch: Stretch) -> Text:
    if stretch.only_unused:
        return Text("ok if unused", _STYLES[Answer.UNKNOWN])
    loud = stretch.answer.upper() if stretch.answer is Answer.WRONG else str(stretch.answer)
    return Text(loud, _STYLES[stretch.answer])


def _cell(stretches: tuple[Stretch, ...]) -> Text:
    """The releases that provide it; wrong ones loud, unknown ones with a question mark, refusals left out."""
    pieces = []
    if stretches and stretches[0].answer is Answer.UNKNOWN:
        pieces.append(Text("?", _STYLES[Answer.UNKNOWN]))
        stretches = stretches[1:]
    for each in stretches:
        if each.answer is Answer.OK:
            pieces.append(Text(str(each), _STYLES[Answer.OK]))
        elif each.answer is Answer.WRONG:
            pieces.append(Text(f"WRONG {each}", _STYLES[Answer.WRONG]))
        elif each.answer is Answer.UNKNOWN:
            pieces.append(Text(f"? {each}", _STYLES[Answer.UNKNOWN]))
    return Text("\n").join(pieces) if pieces else Text("-", _STYLES[Answer.REFUSED])
