"""`halocline lint`: wrong protocols that writers left behind, and their repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from halocline.cli.inspect import TableArgument
from halocline.cli.output import FINE, INCOMPATIBLE, OutputFormat, OutputOption, emit
from halocline.errors import nearest

if TYPE_CHECKING:
    from halocline.formats.delta.maintain.lint import Fixed, LintReport
    from halocline.formats.delta.maintain.lint_rules import LintFinding
    from halocline.formats.hudi.lint import HudiLint
    from halocline.storage.base import Store


def show(
    table: TableArgument,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is safe to repair, in one commit.")] = False,
    client: Annotated[
        list[str] | None, typer.Option("--client", help="A release that uses the table and does not write to its log.")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Find what is wrong with a table's protocol. The exit code is 2 if something is, or still is after --fix."""
    # Imported here: every command loads this module, and most open no table.
    from halocline.compat.breaks import Client
    from halocline.compat.knowledge import Knowledge
    from halocline.compat.release import Release
    from halocline.formats.base import TableFormat, detect_format, formats_at
    from halocline.formats.delta.maintain.lint import fix as repair
    from halocline.formats.delta.maintain.lint import lint
    from halocline.storage import open_store
    from halocline.table.delta.opened import Opened

    store = open_store(table)
    clients = [Client(Release.parse(each)) for each in client or ()]
    formats = formats_at(store)
    if formats == (TableFormat.HUDI,):
        return _show_hudi(store, table, fix, output)
    if not formats:
        detect_format(store)  # says what was looked for, of every format
    knowledge = Knowledge.load()
    for each in clients:
        if nearest(each.release.product, knowledge.files):  # of others nothing is known, and they are judged as such
            knowledge.product(each.release.product)
    if not fix:
        report = lint(store, clients=clients)
        emit(output, report.to_dict(), *_report(table, report))
        return FINE if report.clean else INCOMPATIBLE

    opened = Opened(store)
    with opened.operation("repair"):
        fixed = repair(store, opened.approve, clients=clients)
    emit(output, {"table": store.root, **fixed.to_dict()}, *_fixed(table, fixed))
    return FINE if not fixed.left else INCOMPATIBLE


def _show_hudi(store: Store, table: str, fix: bool, output: OutputFormat) -> int:
    from halocline.formats.hudi.lint import lint_hudi, repair_hudi
    from halocline.table.hudi.opened import HudiOpened

    repaired: tuple[str, ...] = ()
    if fix:
        with HudiOpened(store).operation("repair"):
            repaired = repair_hudi(store)
    found = lint_hudi(store)
    emit(output, {"table": store.root, **found.to_dict(), "repaired": list(repaired)}, *_hudi(table, found, repaired))
    return INCOMPATIBLE if found.findings else FINE


def _hudi(table: str, found: HudiLint, repaired: tuple[str, ...]) -> Iterator[str]:
    yield f"{table} · hudi · {found.terms.protocol}"
    if repaired:
        yield f"repaired {', '.join(repaired)}"
    if not found.findings:
        yield "nothing to complain about"
    for each in found.findings:
        yield f"{each.code}: {each.what}"
        yield f"  hurts  {each.hurts}"
        yield "  fix    safe with --fix" if each.safe else f"  fix    by hand: {each.by_hand}"
    able = sum(each.safe for each in found.findings)
    if able:
        yield f"{able} of {len(found.findings)} can be repaired.  Next: halocline lint {table} --fix"


def _report(table: str, report: LintReport) -> Iterator[str]:
    yield f"{table} · delta · version {report.version} · {report.protocol}"
    if report.clean:
        yield "nothing to complain about"
        return
    for finding in report.findings:
        yield from _finding(finding)
    able = len(report.fixable)
    if able:
        yield f"{able} of {len(report.findings)} can be repaired.  Next: halocline lint {table} --fix"
    if report.repaired != report.protocol:
        yield f"The protocol would become {report.repaired}"


def _finding(finding: LintFinding) -> Iterator[str]:
    yield f"{finding.code}: {finding.what}"
    yield f"  hurts  {finding.hurts}"
    if finding.safe:
        yield "  fix    safe with --fix"
    else:
        yield f"  fix    by hand: {finding.unsafe or 'there is no repair that keeps what the table means'}"


def _fixed(table: str, fixed: Fixed) -> Iterator[str]:
    if fixed.version is None:
        yield f"{table}: nothing was changed"
    else:
        yield f"{table}: version {fixed.version} repairs {', '.join(fixed.codes)}"
    if fixed.before != fixed.after:
        yield f"  protocol  {fixed.before} became {fixed.after}"
    if fixed.unset:
        yield f"  removed   {', '.join(fixed.unset)}"
    if fixed.checked:
        yield f"  checked   {fixed.checked}"
    for finding in fixed.left:
        yield from _finding(finding)
