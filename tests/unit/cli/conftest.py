"""Whatever a command prints in these tests meets its schema in `docs/schemas`, in text as well as in JSON.

`HALOCLINE_WRITE_SCHEMAS=1 pytest tests/unit/cli` writes the schemas anew from what is printed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import msgspec
import pytest
from tests.support import json_schemas
from tests.support.applied import LakeOnDisk

from halocline.cli import output
from halocline.cli.main import run

WRITING = os.environ.get("HALOCLINE_WRITE_SCHEMAS") == "1"
SAMPLES: dict[str, list[Any]] = {}


@pytest.fixture(autouse=True)
def results_meet_their_schemas(monkeypatch):
    real = output.emit

    def emit(form: Any, result: Any, *text: Any) -> None:
        printed = json.loads(msgspec.json.encode(result))
        command = json_schemas.command_of()
        if WRITING:
            SAMPLES.setdefault(command, []).append(printed)
        else:
            validator = json_schemas.validator(command)
            assert validator is not None, f"docs/schemas has no {command}.json"
            validator.validate(printed)
        real(form, result, *text)

    # Commands know it by the name under which they have imported it, or import it later.
    for module in [each for name, each in sys.modules.items() if name.startswith("halocline.cli.")]:
        if getattr(module, "emit", None) is real:
            monkeypatch.setattr(module, "emit", emit)
    yield
    for name, module in list(sys.modules.items()):
        if name.startswith("halocline.cli.") and getattr(module, "emit", None) is emit:
            module.emit = real  # one that was loaded meanwhile


@pytest.fixture
def planned_lake(tmp_path):
    """Two tables, a plan `r.plan` that gives them deletion vectors, and a member that is too old for them."""
    found = LakeOnDisk(tmp_path).delta("orders", "items").run(report="trino@426")
    plan = ["plan", found.path, "--enable", "deletionVectors", "--members", found.members, "--out", tmp_path / "r.plan"]
    assert run([*map(str, plan)]) == 2
    return found


def pytest_sessionfinish() -> None:
    if WRITING:
        json_schemas.write(SAMPLES)
