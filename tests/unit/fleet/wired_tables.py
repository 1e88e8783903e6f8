"""Tables made of one commit, for tests that are about who uses them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from halocline.fleet.member.admin import AdminClient
from halocline.fleet.server.hosting import Config, Hosting, embedded
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.formats.delta.actions.action import CommitInfo, Metadata, ProtocolAction, encode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store

SWITCH = {"delta.enableDeletionVectors": "true"}
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


def make_table(path: Path, engine: str | None = None, seen_ms: int | None = None) -> str:
    """A Delta table (1,2) without rows, written by an engine if one is named."""
    info = {"timestamp": seen_ms or int(time.time() * 1000), "operation": "CREATE TABLE"}
    if engine is not None:
        info["engineInfo"] = engine
    commit = encode_commit([CommitInfo(info), ProtocolAction(1, 2), Metadata("1", schema_string=json.dumps(SCHEMA))])
    open_store(path).put(DELTA.commit_path(0), commit)
    return open_store(path).root


@contextmanager
def running(**options: object) -> Iterator[tuple[Hosting, AdminClient]]:
    """A coordinator that keeps nothing, and an operator."""
    config = Config(store=":memory:", listen="127.0.0.1:0", http="127.0.0.1:0", **options)  # type: ignore[arg-type]
    with embedded(config) as hosting, AdminClient(hosting.address, "operator") as admin:
        yield hosting, admin


def raise_to(admin: AdminClient, level: int) -> None:
    """Raises the level of delta, one after the other."""
    for each in range(2, level + 1):
        admin.command("Raise", pb.RaiseRequest(ladder="delta", level=each, reason="test"))


def users_of(admin: AdminClient, table: str) -> dict[str, pb.Member]:
    """Who the fleet knows to use a table, by name."""
    answer = admin.ask("TableUsers", pb.TableUsersRequest(table=table), pb.TableUsersResponse)
    return {each.identity: each for each in answer.members}


def until(holds: Callable[[], bool], seconds: float = 15.0) -> None:
    """Waits until something holds, and fails if it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"did not come true within {seconds} s"
        time.sleep(0.02)
