"""Stores to run the same tests against; S3 is a server in a process of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest

from halocline.storage import LocalStore, MemoryStore, open_store


@pytest.fixture(scope="session")
def free_port():
    """A port of this machine where nobody listens."""
    return find_port()


def find_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def s3_endpoint():
    port = find_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": "5"},  # small pages, so that every listing has several
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT"), timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "the S3 server ended before it answered"
                assert time.monotonic() < deadline, "the S3 server does not answer"
                time.sleep(0.05)
        yield endpoint
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def s3_options(s3_endpoint):
    return {
        "endpoint": s3_endpoint,
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "region": "us-east-1",
        "allow_http": "true",
        "max_retries": "1",
    }


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, tmp_path):
    match request.param:
        case "local":
            return LocalStore(tmp_path / "lake root%20", sync=False)  # nothing here depends on the disk
        case "memory":
            return MemoryStore(f"{uuid.uuid4().hex} %20", "a folder")
        case _:
            options = request.getfixturevalue("s3_options")
            return open_store(f"s3://lake/{uuid.uuid4().hex}/root%2520", options)
