"""What the demo tells while it runs, and what it checks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from halocline.demo.ledger import Ledger
from halocline.demo.report import StageTime


class Story:
    """Tells what happens, and remembers whether it was what should.

    Attributes:
        checks: What was checked, and whether it held.
        stages: What took how long.
    """

    def __init__(self, ledger: Ledger, replaced: dict[str, str]) -> None:
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        self.ledger = ledger
        self.checks: list[tuple[str, bool]] = []
        self.stages: list[StageTime] = []
        self._replaced = replaced

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return bool(self.checks) and all(holds for _, holds in self.checks)

    def chapter(self, title: str) -> None:
        """Begins a part of the story."""
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left", style="blue")

    def say(self, text: str, style: str = "") -> None:
        """One line, with the time."""
        line = Grid.grid(padding=(0, 2, 0, 0))
        line.add_row(Text(f"{self.ledger.now:6.1f} s", style="dim"), Text(self._short(text), style=style))
        self.console.print(line)

    def show(self, *pieces: RenderableType) -> None:
        """What a command would have shown."""
        for piece in pieces:
            shown = Text(self._short(piece)) if isinstance(piece, str) else piece
            self.console.print(shown, markup=False, highlight=False, soft_wrap=isinstance(piece, str))

    def check(self, text: str, holds: bool) -> None:
        """Something that must hold."""
        self.checks.append((self._short(text), holds))
        self.say(f"{'✓' if holds else '✗'} {text}", "green" if holds else "bold red")

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Something whose time is told at the end."""
        start = self.ledger.now
        try:
            with self.waiting(title):
                yield
        finally:
            self.stages.append(StageTime(self._short(title), start, self.ledger.now))

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows what is waited for, and how the pipelines are doing meanwhile."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(_Line(lambda: f"{self._short(text)} … {self.ledger.line()}")):
            yield

    def _short(self, text: str) -> str:
        """The text with the names of places instead of where they lie on this machine."""
        for place, name in self._replaced.items():
            text = text.replace(place, name)
        return text


class _Line:
    """A line that is made anew each time it is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        return Text(self._text(), overflow="ellipsis", no_wrap=True, style="dim")
