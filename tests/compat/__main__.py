"""`python -m tests.compat`: predicted against observed, for every release, table and operation.

Without options, releases from PyPI; with `--jvm`, those that read Hudi tables: hudi-rs, and Apache Hudi's own bundles;
with `--delta-spark`, releases of Delta Spark; with `--trino`, releases of Trino.

Options: `--only deltalake@1.6.6` (may be repeated, also a product), `--table TEXT` (tables whose name has it),
`--disagreements` (prints only those), `--write-docs` (puts the outcomes into docs/compat-PRODUCT.csv, in place of
earlier ones of the same releases and tables, and renews the pages), `--save FOLDER` (puts the CSV there instead),
`--pages` (tries nothing, and writes the pages, and what knowledge lists as tried, from knowledge and CSV).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.interop_jvm.releases import RELEASES, Engine, NoEngineError, environment

from . import trials
from .delta_spark import DeltaSpark, delta_spark_releases
from .environments import Client, clients, prepare
from .hudi_kinds import HudiCase, kinds
from .hudi_measure import Bundle, Rust, measure_hudi
from .hudi_tables import plain_cases
from .measure import measure
from .outcomes import Outcome, read, renewed, written
from .pages import DOCS, data_of, pages
from .report import summary
from .trino import Trino, trino_releases


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", default=[], help="a product or product@version; may be repeated")
    options.add_argument("--jvm", action="store_true", help="try the releases that read Hudi tables, also on the JVM")
    options.add_argument("--delta-spark", action="store_true", help="try releases of Delta Spark on the JVM")
    options.add_argument("--trino", action="store_true", help="try releases of Trino on the JVM")
    options.add_argument("--table", action="append", default=[], help="tables whose name has this; may be repeated")
    options.add_argument("--disagreements", action="store_true", help="print only where they differ")
    options.add_argument("--write-docs", action="store_true", help="write the outcomes and the pages into docs/")
    options.add_argument("--save", type=Path, help="write the outcomes into this folder")
    options.add_argument("--pages", action="store_true", help="try nothing, and write the pages")
    asked = options.parse_args()
    if asked.pages:
        return _write_pages()
    outcomes: list[Outcome] = []
    missing: dict[str, str] = {}
    for release, tried in _trials(asked, tuple(asked.table)):
        if asked.only and not {release.partition("@")[0], release} & set(asked.only):
            continue
        started, found = time.monotonic(), []
        try:
            trial = tried()
        except NotHereError as problem:
            missing[release] = str(problem)
            print(f"{release}: cannot be had here: {problem}", flush=True)
            continue
        for each in trial:
            found.append(each)
            if not each.agrees or not asked.disagreements:
                mark = " " if each.agrees else "!"
                note = f"  {each.note}" if each.note and not each.agrees else ""
                told = f"predicted {each.predicted:<8} observed {each.observed:<8}"
                line = f"{mark} {each.release:<18} {each.operation:<16} {each.case:<44} {told}{note}"
                print(line[:260], flush=True)
        outcomes += found
        if asked.save is not None or asked.write_docs:
            _keep(asked.save or DOCS, found, some_tables=bool(asked.table))
        agreed = sum(each.agrees for each in found)
        print(f"= {release}: {agreed} of {len(found)} agree, {time.monotonic() - started:.0f} s", flush=True)
    print(summary(outcomes, missing))
    if asked.write_docs:
        _write_pages()
    if (asked.jvm or asked.delta_spark or asked.trino) and missing and all(each.agrees for each in outcomes):
        return 0  # bundles that cannot be fetched are told, and no failure
    return 0 if outcomes and all(each.agrees for each in outcomes) and not missing else 1


class NotHereError(Exception):
    """A release that cannot be had here, and why."""


def _keep(folder: Path, found: list[Outcome], *, some_tables: bool) -> None:
    """Puts outcomes into the CSV of their product, in place of earlier ones of the same release."""
    for product in {each.product for each in found}:
        path = folder / data_of(product).name
        old = read(path.read_text()) if path.exists() else []
        new = [each for each in found if each.product == product]
        path.write_text(written(renewed(old, new, some_tables=some_tables)))


def _write_pages() -> int:
    for path, text in (*trials.files().items(), *pages().items()):
        path.write_text(text)
    return 0


def _trials(
    asked: argparse.Namespace, wanted: tuple[str, ...]
) -> Iterator[tuple[str, Callable[[], Iterable[Outcome]]]]:
    """Every release, and what tries it."""
    if asked.delta_spark or asked.trino:
        for each in (
            *(delta_spark_releases() if asked.delta_spark else ()),
            *(trino_releases() if asked.trino else ()),
        ):
            yield each.release, lambda each=each: _on_jvm(each, wanted)
        return
    for client in clients():
        if asked.jvm and client.product != "hudi-rs":
            continue
        yield client.release, lambda client=client: _on_pypi(client, wanted)
    for release in RELEASES if asked.jvm else ():
        yield f"hudi@{release}", lambda release=release: _bundle(release, wanted)


def _on_pypi(client: Client, wanted: tuple[str, ...]) -> Iterable[Outcome]:
    if problem := prepare(client):
        raise NotHereError(problem)
    return measure_hudi(Rust(client), _cases(wanted)) if client.product == "hudi-rs" else measure(client, wanted)


def _on_jvm(release: DeltaSpark | Trino, wanted: tuple[str, ...]) -> Iterable[Outcome]:
    if problem := release.prepare():
        raise NotHereError(problem)
    return measure(release, wanted)


def _bundle(release: str, wanted: tuple[str, ...]) -> Iterable[Outcome]:
    try:
        engine = Engine(environment(), release)
    except NoEngineError as error:
        raise NotHereError(str(error)) from error
    return measure_hudi(Bundle(engine), _cases(wanted))


@cache
def _cases(wanted: tuple[str, ...]) -> list[HudiCase]:
    found = [*plain_cases(), *kinds()]
    return [each for each in found if not wanted or any(text in each.name for text in wanted)]


if __name__ == "__main__":
    sys.exit(main())
