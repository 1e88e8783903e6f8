"""A real browser without a window: Debian's chromium, for pages that stand alone."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="there is no chromium here (Debian: apt-get install chromium)"
)


def opened(page: Path, part: str = "") -> str:
    """The document as the browser has it once its scripts have run."""
    return _run(page, "--virtual-time-budget=5000", "--dump-dom", part=part)


def drawn(page: Path, picture: Path, width: int = 1300, height: int = 900) -> tuple[int, int]:
    """Takes a picture of a page; the width and height of what was drawn."""
    _run(page, f"--window-size={width},{height}", f"--screenshot={picture}")
    found = struct.unpack(">II", picture.read_bytes()[16:24])
    return found[0], found[1]


def _run(page: Path, *arguments: str, part: str = "") -> str:
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    shown = subprocess.run(
        [BROWSER, *options, *arguments, f"{page.as_uri()}{part}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return shown.stdout
