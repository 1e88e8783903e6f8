"""Generates the messages of the wire protocol from its definition; calls are made by path, and need no stubs.

Run `python -m tests.support.wire_generator` with grpcio-tools 1.76.0 and mypy-protobuf 3.7.0 installed. The oldest
supported generator is used on purpose: its code imports on newer runtimes, and not the other way round. With `--check`
nothing is written, and the exit code says whether the committed code is what would be generated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from halocline.errors import UnavailableError, UnsupportedError

GENERATOR: Final = "1.76.0"
DEFINITION: Final = "halocline/fleet/wire/proto/v1/fleet.proto"
_SOURCE: Final = Path(__file__).resolve().parents[2] / "src"


def generate(into: Path) -> list[Path]:
    """Writes the generated modules below a folder and returns them."""
    if version("grpcio-tools") != GENERATOR:
        raise UnsupportedError(
            "generated code would not import everywhere",
            sides={"installed": f"grpcio-tools {version('grpcio-tools')}", "needed": f"grpcio-tools {GENERATOR}"},
            next_step=f"pip install grpcio-tools=={GENERATOR}",
        )
    outputs = [f"--{kind}_out={into}" for kind in ("python", "mypy")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_SOURCE}", *outputs, DEFINITION]
    # The plugins for type stubs are scripts beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"the generator failed: {done.stderr.strip()}")
    folder = (into / DEFINITION).parent
    return sorted(folder.glob("fleet_pb2*"))


def main(arguments: Sequence[str]) -> int:
    """Generates, or checks what was generated."""
    with TemporaryDirectory() as folder:
        stale = []
        for made in generate(Path(folder)):
            kept = (_SOURCE / DEFINITION).parent / made.name
            if not kept.exists() or kept.read_text() != made.read_text():
                stale.append(kept.name)
                if "--check" not in arguments:
                    kept.write_text(made.read_text())
    if stale:
        sys.stdout.write(("out of date: " if "--check" in arguments else "written: ") + ", ".join(stale) + "\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
