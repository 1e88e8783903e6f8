"""`halocline quickstart`: a small lake of real tables, and what to try on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halocline.cli.output import OutputFormat, OutputOption, emit


def show(
    folder: Annotated[Path, typer.Argument(help="Where the lake is to be.")] = Path("lake"),
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Make a small lake of real tables, and show the next five commands. Needs no Java."""
    from halocline.quickstart import make_lake, next_commands

    made = make_lake(folder)
    commands = next_commands(folder.as_posix())
    lines = [
        f"{folder} has three Delta tables: orders, items and clicks.   Try next:",
        *(f"  {each}" for each in commands),
    ]
    emit(output, {"lake": made.as_posix(), "next": commands}, *lines)
