"""`halocline serve` as a process of its own."""

import os
import re
import signal
import subprocess
import sys

from halocline.cli.main import run


def test_serve_runs_until_it_is_stopped_and_keeps_its_state(tmp_path):
    store = str(tmp_path / "fleet.db")
    for expected in ("epoch 1", "epoch 2"):
        code = "from halocline.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", "--store", store, "--listen", "127.0.0.1:0", "--http", "off"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=environment, **pipes)
        greeting = process.stdout.readline()
        address = re.search(r"grpc://[\d.:]+", greeting)
        assert address, process.stderr.read()
        assert expected in greeting
        assert run(["fleet", "--at", address[0], "describe", "--output", "json"]) == 0
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=240)
        assert process.returncode == 0, complaints
