"""`halocline serve` as a process of its own."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys

import pytest

from halocline.cli.main import run
from halocline.errors import DeniedError, HaloclineError
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.server.auth import digest
from halocline.fleet.wire.endpoint import Endpoint


def served(*options):
    """A coordinator that was started by the command, what it said, and where it is."""
    code = "from halocline.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--listen", "127.0.0.1:0", "--http", "off", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)
    greeting = process.stdout.readline()
    address = re.search(r"grpc://[\d.:]+", greeting)
    assert address, process.stderr.read()
    return process, greeting, address[0]


def stopped(process):
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=240)
    assert process.returncode == 0, complaints


def test_serve_runs_until_it_is_stopped_and_keeps_its_state(tmp_path):
    for expected in ("epoch 1", "epoch 2"):
        process, greeting, address = served("--store", str(tmp_path / "fleet.db"))
        assert expected in greeting
        assert run(["fleet", "--at", address, "describe", "--output", "json"]) == 0
        stopped(process)


def test_serve_reads_access_again_when_it_is_sent_sighup_although_the_file_looks_the_same(tmp_path, wait):
    access = tmp_path / "access.toml"

    def let_in(secret):
        access.write_text(f'[secrets.ops]\nsha256 = "{digest(secret)}"\nrights = ["observe"]\n')
        os.utime(access, (1, 1))

    def is_let_in(secret):
        with AdminClient(Endpoint.parse(address, secret=secret), "ann") as admin:
            try:
                return bool(admin.describe().epoch)
            except DeniedError:
                return False

    let_in("old")
    process, _, address = served("--store", str(tmp_path / "fleet.db"), "--access", str(access))
    try:
        assert is_let_in("old")
        let_in("new")
        assert not is_let_in("new"), "nothing tells that the file has changed"
        process.send_signal(signal.SIGHUP)
        wait(lambda: is_let_in("new"), "the new secret is good")
        assert not is_let_in("old")
    finally:
        stopped(process)


def test_callers_that_merely_connect_keep_nobody_out(tmp_path):
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    if usual[1] < 1000:
        pytest.skip("the system lets a process have few files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, usual[1]))
    try:
        process, _, address = served("--store", str(tmp_path / "fleet.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    host, port = address.removeprefix("grpc://").split(":")
    with contextlib.ExitStack() as opened:
        for _ in range(300):
            opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
        assert run(["fleet", "--at", address, "describe", "--output", "json"]) == 0
    stopped(process)


def test_serve_stops_when_its_file_is_replaced_and_says_what_lies_there(tmp_path):
    store = tmp_path / "fleet.db"
    process, _, address = served("--store", str(store))
    with AdminClient(address, "ann") as admin:
        admin.hold("hudi", "year-end close", name="close")
        other = tmp_path / "other.db"
        other.write_text("no store")
        os.replace(other, store)
        with contextlib.suppress(HaloclineError):
            for number in range(10_000):
                admin.hold("hudi", "too late", name=f"late-{number}")
                acknowledged = number
            raise AssertionError(f"{acknowledged} holds were acknowledged and are nowhere")
    _, complaints = process.communicate(timeout=240)
    assert process.returncode == 1, complaints
    assert "another file has taken the place of the store" in complaints
    assert "a file of 8 bytes that is no fleet's store" in complaints
    kept = re.search(r"is kept at (\S+)", complaints)[1]
    process, _, address = served("--store", kept)
    with AdminClient(address, "ann") as admin:
        assert [hold.name for hold in admin.describe().ladder("hudi").holds] == ["close"]
    stopped(process)
