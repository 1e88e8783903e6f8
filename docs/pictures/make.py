"""Makes the pictures of the documentation out of what the commands really print.

.venv/bin/python docs/pictures/make.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
PICTURES = {
    "check.svg": [
        "halocline inspect lake/orders",
        "halocline check lake/orders --enable deletionVectors"
        " --client delta-spark@3.2.0 --client deltalake@1.0.2 --client trino@426 --client trino@413",
    ],
    "history.svg": ["halocline history check databend-meta --client 1.2.300 --server 1.2.800"],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = pa.table({"id": range(1000), "country": ["de", "at"] * 500})
        for mode in ("error", "append", "append"):
            write_deltalake(f"{folder}/lake/orders", rows, mode=mode)
        for name, commands in PICTURES.items():
            console = Console(record=True, width=112, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
            for command in commands:
                console.print(Text(f"$ {command}", style="bold"))
                console.print(Text.from_ansi(printed(command, folder)))
            console.save_svg(str(HERE / name), title="halocline", clear=True)
            print(HERE / name)


def printed(command: str, folder: str) -> str:
    executable = str(Path(sys.executable).parent / "halocline")
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "112"}
    result = subprocess.run(
        [executable, *command.split()[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return result.stdout + result.stderr


if __name__ == "__main__":
    main()
