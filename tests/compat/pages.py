"""A page for each product, made from what is known about it and what was measured, and the index of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.matrix import Stretch, feature_stretches, tokens_for
from halocline.compat.product import Evidence, Fact, Product, When

from . import outcomes as records
from .environments import ROOT
from .outcomes import Outcome
from .report import filled, item, measured

DOCS = ROOT / "docs"
_NOTE = "<!-- Written by `python -m tests.compat --pages`. Do not edit. -->"
_INDEX = """Everything that Halocline says about other programs is written down as facts, each with its source
    ([Knowledge](knowledge.md)). A fact is *measured* if a real release was tried on real tables, *from source* if the
    program's own code was read, and *said by the vendor* if it comes from documentation, release notes or an issue.
    Every verdict tells which (`evidence` in JSON, a column in `halocline check` and `halocline matrix`). What was
    measured is kept as CSV, a row per table and operation and a column per release, and a test holds all of it against
    the facts."""
_RENEW = """`make compat` and `make compat-jvm` measure again; `python -m tests.compat --pages` writes these pages from
    the facts and the CSV."""
_READING = """From a release on; `[a, b)` ends before b; a dash is a refusal, `?` is not known; what readers need
not know has no entry for them."""
_SIGNS = {Answer.WRONG: "**wrong**", Answer.UNKNOWN: "?"}


def data_of(product: str) -> Path:
    """Where the outcomes of a product are kept."""
    return DOCS / f"compat-{product}.csv"


def recorded(product: str) -> list[Outcome]:
    """What was measured of a product; nothing if it never was."""
    path = data_of(product)
    return records.read(path.read_text()) if path.exists() else []


def pages() -> dict[Path, str]:
    """All pages, by where they belong."""
    products = Knowledge.load().products.values()
    found = {DOCS / f"compat-{each.name}.md": _page(each, recorded(each.name)) for each in products}
    return {DOCS / "compat.md": _index(list(products)), **found}


def _index(products: Sequence[Product]) -> str:
    lines = [
        "| product | tables | releases | facts: measured, from source, said | tried and foretold |",
        "|---|---|---|---|---|",
    ]
    for each in products:
        counted = Counter(Evidence.of(known.source) for known in (*each.facts, *each.pins))
        facts = ", ".join(str(counted[kind]) for kind in Evidence)
        found = recorded(each.name)
        right = f"{sum(o.agrees for o in found):,} of {len(found):,}" if found else ""
        name = f"[{each.title}](compat-{each.name}.md)"
        lines.append(f"| {name} | {', '.join(each.formats)} | {_range(each)} | {facts} | {right} |")
    return (
        "\n\n".join(["# What others do, and how we know", _NOTE, filled(_INDEX), "\n".join(lines), filled(_RENEW)])
        + "\n"
    )


def _page(product: Product, outcomes: Sequence[Outcome]) -> str:
    parts = [f"# {product.title}", _NOTE, filled(_begin(product)), *_grids(product)]
    parts += _list("## Works with wrong data", [each for each in product.facts if each.answer is Answer.WRONG])
    parts += _list("## Exceptions", [each for each in product.facts if each.answer is not Answer.WRONG and each.what])
    if product.upgrades:
        parts.append("## Moves tables up by itself")
        told = (
            f"{each.spans}: a lower table is at version {each.version} once it has written it"
            + (f"; `{each.switch}` keeps it from that" if each.switch else "")
            + f" ({_known(each.source)})"
            for each in product.upgrades
        )
        parts.append("\n".join(map(item, told)))
    if outcomes:
        parts += measured(outcomes)
    return "\n\n".join([*parts, *_facts(product)]) + "\n"


def _begin(product: Product) -> str:
    text = f"A release is `{product.name}@{product.newest}`; `{product.name}@latest` is the newest that is known. "
    text += f"Known are {_range(product)}. "
    if product.by_day:
        text += "It shows its users no releases, so it goes by the day on which it is used. "
    if product.numbered:
        text += f"It goes {product.numbered}. "
    if product.aliases:
        text += f"Also found as {', '.join(f'`{each}`' for each in product.aliases)}. "
    if product.unlisted is Answer.UNKNOWN:
        return text + "What is not named here is not known."
    return text + f"What is not named here is {product.unlisted} ({_known(product.source)})."


def _range(product: Product) -> str:
    return f"{product.first} to {product.last}" if product.last else f"{product.first} and later"


def _grids(product: Product) -> Iterator[str]:
    """For each format, from which release on what is read and written."""
    for format in product.formats:
        rows = []
        for token in tokens_for(format, "write"):
            cells = [
                _cell(feature_stretches(product, format, each, token)) if token in tokens_for(format, each) else ""
                for each in ("read", "write")
            ]
            about = [fact for fact in product.facts if fact.format == format and token in fact.tokens]
            if any(cell not in ("", "–", "?") for cell in cells):
                rows.append(f"| {token} | {' | '.join(cells)} | {_how(about, product)} |")
        title = "## What it reads and writes" + (f", {format} tables" if len(product.formats) > 1 else "")
        if rows:
            head = "| a table asks for | read | write | known |\n|---|---|---|---|\n"
            yield title
            yield _READING
            yield head + "\n".join(rows)
    if product.pins:
        told = (
            f"{', '.join(pin.operations)}: {pin.spans} does what `{pin.product}@{pin.version}` does"
            f" ({_known(pin.source)})"
            for pin in product.pins
        )
        yield "\n".join(map(item, told))


def _how(facts: Sequence[Fact], product: Product) -> str:
    kinds = {fact.evidence for fact in facts} or {Evidence.of(product.source)}
    return ", ".join(sorted(kinds, key=lambda each: each.sureness))


def _cell(stretches: tuple[Stretch, ...]) -> str:
    told = [
        f"{_SIGNS[each.answer]} {each}" if each.answer in _SIGNS else str(each)
        for each in stretches
        if each.answer is not Answer.REFUSED
    ]
    if len(stretches) == 1 and stretches[0].answer is Answer.UNKNOWN:
        return "?"
    return "; ".join(told) or "–"


def _list(title: str, facts: Sequence[Fact]) -> list[str]:
    if not facts:
        return []
    lines = [f"{_about(each)}: **{each.answer}**, {each.what} ({_known(each.source)})" for each in facts]
    return [title, "\n".join(map(item, lines))]


def _about(fact: Fact) -> str:
    conditions = [f"while {fact.when}"] if fact.when is not When.ALWAYS else []
    conditions += [f"with {', '.join(sorted(fact.along))}"] if fact.along else []
    conditions += [f"without {', '.join(sorted(fact.without))}"] if fact.without else []
    told = f" {' and '.join(conditions)}" if conditions else ""
    return f"{', '.join(f'`{each}`' for each in fact.operations)} {', '.join(fact.tokens)}{told}, {fact.spans}"


def _known(source: str) -> str:
    """`from source: …`; what was measured says so itself."""
    evidence = Evidence.of(source)
    return source if evidence is Evidence.MEASURED else f"{evidence}: {source}"


def _facts(product: Product) -> list[str]:
    if not product.facts:
        return []
    lines = [item(f"{_about(each)}: {each.answer} ({_known(each.source)})") for each in product.facts]
    return ["## All facts, with their sources", "\n".join(lines)]
