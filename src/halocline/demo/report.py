"""The report: one page that stands alone, with a picture of who was at which version when.

The picture has a row for each pipeline, table and gate, and a bar for each state it was in. Stages of the rollout are
marked above, and below it stands how many reads and writes were done in each second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from halocline.demo.ledger import StateChange

_LEFT: Final = 190
_WIDTH: Final = 1000
_ROW: Final = 26
_TOP: Final = 58
_ACTIVITY: Final = 90
_COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")
_GREY: Final = "#d5dae0"
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1240px; padding: 0 1rem; color: #1d2733 }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem } .lead { color: #5a6876 }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0 }
.figure { border: 1px solid #d5dae0; border-radius: 6px; padding: .5rem 1rem; min-width: 7rem }
.figure b { display: block; font-size: 1.5rem } .bad b { color: #c0392b } .good b { color: #2c7a3f }
table { border-collapse: collapse } td, th { text-align: left; padding: .25rem 1.2rem .25rem 0; vertical-align: top }
th { border-bottom: 1px solid #d5dae0 } svg text { font: 12px system-ui, sans-serif } svg { width: 100%; height: auto }
"""


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage of the rollout.

    Attributes:
        title: What it is called.
        start: When it began, in seconds.
        end: When it was done.
    """

    title: str
    start: float
    end: float


@dataclass(frozen=True)
class DemoReport:
    """What the page shows.

    Attributes:
        title: What it is about.
        seconds: How long everything took.
        figures: A few numbers by what they count; `failed` and `wrong` are good only if they are 0.
        rows: The states of each pipeline, table and gate by its name, in the order to be shown.
        stages: The stages, in order.
        checks: What was checked, and whether it held.
        activity: When reads and writes were done, in seconds.
        problems: What went wrong.
    """

    title: str
    seconds: float
    figures: Mapping[str, int]
    rows: Mapping[str, Sequence[StateChange]]
    stages: Sequence[StageTime]
    checks: Sequence[tuple[str, bool]]
    activity: Sequence[float] = ()
    problems: Sequence[str] = ()

    def page(self) -> str:
        """The page as HTML."""
        return "\n".join(self._parts()) + "\n"

    def _parts(self) -> Iterator[str]:
        yield f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(self.title)}</title>"
        yield f"<style>{_STYLE}</style></head><body><h1>{escape(self.title)}</h1>"
        held = sum(holds for _, holds in self.checks)
        yield f"<p class='lead'>{self.seconds:.0f} seconds; {held} of {len(self.checks)} checks hold.</p>"
        yield "<div class='figures'>"
        for name, number in self.figures.items():
            judged = name in ("failed", "wrong")
            kind = "figure" + (" good" if judged and number == 0 else " bad" if judged else "")
            yield f"<div class='{kind}'><b>{number:,}</b>{escape(name)}</div>"
        yield "</div><h2>Who was at which version when</h2>"
        yield from self._picture()
        yield "<h2>Stages</h2><table><tr><th>stage</th><th>from</th><th>seconds</th></tr>"
        for stage in self.stages:
            seconds = stage.end - stage.start
            yield f"<tr><td>{escape(stage.title)}</td><td>{stage.start:.0f} s</td><td>{seconds:.1f}</td></tr>"
        yield "</table><h2>Checks</h2><table>"
        for text, holds in self.checks:
            yield f"<tr><td>{'✓' if holds else '✗'}</td><td>{escape(text)}</td></tr>"
        yield "</table>"
        if self.problems:
            yield f"<h2>Problems</h2><ul>{''.join(f'<li>{escape(each)}</li>' for each in self.problems)}</ul>"
        yield "</body></html>"

    def _picture(self) -> Iterator[str]:
        height = _TOP + len(self.rows) * _ROW + _ACTIVITY + 40
        yield f"<svg viewBox='0 0 {_LEFT + _WIDTH + 20} {height}' role='img' aria-label='Timeline'>"
        for number, stage in enumerate(self.stages):
            left, right = self._x(stage.start), self._x(stage.end)
            shade = "#f4f6f8" if number % 2 else "#e9edf1"
            yield (
                f"<rect x='{left:.1f}' y='0' width='{max(right - left, 1):.1f}' height='{height - 34}' fill='{shade}'>"
                f"<title>{escape(stage.title)}</title></rect>"
            )
            yield f"<text x='{left + 3:.1f}' y='{14 + number % 3 * 15}' fill='#5a6876'>{number + 1}</text>"
        colours: dict[str, str] = {}
        for number, (name, events) in enumerate(self.rows.items()):
            y = _TOP + number * _ROW
            yield f"<text x='{_LEFT - 10}' y='{y + 16}' text-anchor='end'>{escape(name)}</text>"
            ends = [each.at for each in events[1:]] + [self.seconds]
            for each, end in zip(events, ends, strict=True):
                left, width = self._x(each.at), max(self._x(end) - self._x(each.at), 1)
                colour = _GREY if not each.state else colours.setdefault(each.state, _colour(len(colours)))
                label = escape(each.state)
                yield (
                    f"<rect x='{left:.1f}' y='{y + 2}' width='{width:.1f}' height='{_ROW - 6}' rx='3' fill='{colour}'>"
                    f"<title>{escape(name)}: {label} from {each.at:.1f} s</title></rect>"
                )
                if width > 7 * len(each.state):
                    yield f"<text x='{left + 5:.1f}' y='{y + 16}' fill='#fff'>{label}</text>"
        yield from self._activity(_TOP + len(self.rows) * _ROW + 6)
        yield "</svg>"

    def _activity(self, top: float) -> Iterator[str]:
        """Bars of how much was done in each part of the time, and the axis below."""
        parts = 100
        counts = [0] * parts
        for at in self.activity:
            counts[min(int(at / self.seconds * parts), parts - 1)] += 1
        most = max(counts) or 1
        base = top + _ACTIVITY
        yield f"<text x='{_LEFT - 10}' y='{base - 4}' text-anchor='end'>reads and writes</text>"
        for number, count in enumerate(counts):
            height = count / most * (_ACTIVITY - 10)
            x = _LEFT + number * _WIDTH / parts
            yield (
                f"<rect x='{x:.1f}' y='{base - height:.1f}' width='{_WIDTH / parts - 1:.1f}' height='{height:.1f}'"
                f" fill='#8fa3b8'><title>{count} done</title></rect>"
            )
        step = next(each for each in (5, 10, 20, 30, 60, 120, 600) if self.seconds / each <= 12 or each == 600)
        for mark in range(0, int(self.seconds) + 1, step):
            yield f"<text x='{self._x(mark):.1f}' y='{base + 18}' text-anchor='middle' fill='#5a6876'>{mark} s</text>"

    def _x(self, at: float) -> float:
        return _LEFT + min(max(at, 0), self.seconds) / self.seconds * _WIDTH


def _colour(number: int) -> str:
    """A colour for each state in the order of their coming; hues far apart once the chosen ones are used up."""
    return _COLOURS[number] if number < len(_COLOURS) else f"hsl({number * 137 % 360} 45% 45%)"
