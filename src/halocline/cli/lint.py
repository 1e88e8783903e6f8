"""`halocline lint`: wrong protocols that writers left behind, and their repair."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halocline.cli.inspect import TableArgument
from halocline.cli.output import FINE, INCOMPATIBLE, OutputFormat, OutputOption, emit
from halocline.errors import nearest

if TYPE_CHECKING:
    from halocline.compat.reports import Fixed, LintProblem, LintReport


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
    from halocline.formats.base import detect_format, linter_of
    from halocline.storage import open_store
    from halocline.table.delta.opened import Opened

    store = open_store(table)
    clients = [Client(Release.parse(each)) for each in client or ()]
    linter = linter_of(detect_format(store))
    knowledge = Knowledge.load()
    for each in clients:
        if nearest(each.release.product, knowledge.files):  # of others nothing is known, and they are judged as such
            knowledge.product(each.release.product)
    if not fix:
        report = linter.lint(store, clients=clients)
        emit(output, report.to_dict(), *_report(table, report))
        return FINE if report.clean else INCOMPATIBLE

    opened = Opened(store)
    with opened.operation("repair"):
        fixed = linter.fix(store, opened.approve, clients=clients)
    emit(output, {"table": store.root, **fixed.to_dict()}, *_fixed(table, fixed))
    return FINE if not fixed.left else INCOMPATIBLE


def _report(table: str, report: LintReport[Any]) -> Iterator[str]:
    yield f"{table} · {report.protocol.format} · version {report.version} · {report.protocol}"
    if report.clean:
        yield "nothing to complain about"
        return
    for finding in report.findings:
        yield from _finding(finding)
    able = len(report.fixable)
    if able:
        yield f"{able} of {len(report.findings)} can be repaired.  Next: halocline lint {shlex.quote(table)} --fix"
    if report.repaired != report.protocol:
        yield f"The protocol would become {report.repaired}"


def _finding(finding: LintProblem) -> Iterator[str]:
    yield f"{finding.code}: {finding.what}"
    yield f"  hurts  {finding.hurts}"
    yield "  fix    safe with --fix" if finding.safe else f"  fix    by hand: {finding.by_hand}"


def _fixed(table: str, fixed: Fixed) -> Iterator[str]:
    done = "repaired" if fixed.version is None else f"version {fixed.version} repairs"
    yield f"{table}: {done} {', '.join(fixed.codes)}" if fixed.codes else f"{table}: nothing was changed"
    if fixed.before != fixed.after:
        yield f"  protocol  {fixed.before} became {fixed.after}"
    if fixed.unset:
        yield f"  removed   {', '.join(fixed.unset)}"
    if fixed.checked:
        yield f"  checked   {fixed.checked}"
    for finding in fixed.left:
        yield from _finding(finding)
