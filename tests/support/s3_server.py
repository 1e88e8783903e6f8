"""An S3 server on loopback, in a thread of the test's own process."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def s3_bucket(name: str) -> Iterator[dict[str, str]]:
    """Serves an empty bucket, and gives the options of a store that lead to it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"), timeout=30).close()
        yield {
            "endpoint": endpoint,
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": "true",
        }
    finally:
        server.stop()
