"""`halocline demo`: the main job on this machine, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halocline.cli.output import ERROR, FINE
from halocline.errors import needs_extra


def show(
    report: Annotated[Path, typer.Option("--report", help="Where the report goes.")] = Path("halocline-demo.html"),
    real_clients: Annotated[
        bool,
        typer.Option("--real-clients/--no-real-clients", help="Let real old releases of others read as well."),
    ] = True,
) -> int:
    """Run the main job on this machine: a lake is moved to newer versions, and back, while everybody uses it.

    Needs nothing but Java and this package. The exit code is 1 if anything failed or was wrong.
    """
    with needs_extra("the demo", "all"):
        from halocline.demo.run import demo
    return FINE if demo(report, real_clients=real_clients) else ERROR
