"""Without the tables of other implementations, whoever cloned the project still runs all other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COLLECT = """
import sys
from pathlib import Path
import pytest
from tests.support import conformance
conformance.FOLDER = Path("nowhere")
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_every_module_of_tests_is_skipped_or_collected_where_the_tables_are_not():
    rooms = ["tests/conformance", "tests/interop", "tests/interop_jvm", "tests/unit/formats/index"]
    command = [sys.executable, "-c", COLLECT, *rooms]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the conformance tables are not here: nowhere" in done.stdout
    assert "test_hudi_services.py::" in done.stdout
