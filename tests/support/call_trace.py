"""Which functions of the package were called, in order; and the functions that a page of the documentation lists."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
_ITEM = re.compile(r"^\d+\. `([\w.]+)`", re.MULTILINE)
_RESUMABLE = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class CallTrace:
    """Calls within a `with` block, in this thread and in threads that begin within it.

    A coroutine or generator that goes on is no new call.
    """

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self._resumable: dict[int, FrameType] = {}

    def __enter__(self) -> CallTrace:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or "halocline" not in frame.f_code.co_filename:
            return
        if frame.f_code.co_flags & _RESUMABLE:
            if self._resumable.get(id(frame)) is frame:
                return
            self._resumable[id(frame)] = frame
        self.calls.append(frame.f_code)

    def of(self, steps: list[str]) -> list[str]:
        """The calls of these functions, by the names given."""
        names = {code_of(step): step for step in steps}
        return [names[code] for code in self.calls if code in names]


def steps_in(heading: str, page: Path = ARCHITECTURE) -> list[str]:
    """The functions that the numbered items below a heading begin with, spelt from the package's root."""
    text = page.read_text(encoding="utf-8")
    below = text.partition(f"\n### {heading}\n")[2]
    found = _ITEM.findall(re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0])
    assert found, f"{page.name} lists no steps below {heading!r}"
    return found


def code_of(step: str) -> CodeType:
    """The code of a function, spelt as `table.table.Table.for_path`."""
    parts = ["halocline", *step.split(".")]
    for cut in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        owner = functools.reduce(inspect.getattr_static, parts[cut:-1], module)
        found: Any = inspect.getattr_static(owner, parts[-1])
        found = getattr(found, "__func__", found)
        function: Callable[..., Any] = found.fget if isinstance(found, property) else found
        return inspect.unwrap(function).__code__
    raise ModuleNotFoundError(step)
