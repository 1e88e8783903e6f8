"""Tables that other implementations wrote, with the rows they read: they lie beside the project, never in it."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "conformance"


def tables_of(kind: str) -> Path:
    """The folder of the tables of one kind; where it is not, the test that asks is skipped, or the module of tests."""
    folder = FOLDER / kind
    if not folder.is_dir():
        pytest.skip(f"the conformance tables are not here: {folder}", allow_module_level=True)
    return folder
