"""Coordinators in a thread, operators, and tables made of one commit, for tests that are about a fleet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halocline.errors import HaloclineError
from halocline.fleet.answers import MemberStatus
from halocline.fleet.core.clock import SystemClock
from halocline.fleet.core.effects import Effect
from halocline.fleet.core.events import Cause, Observe
from halocline.fleet.core.state import FleetTerms, Provenance, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.hosting import Config, Hosting, embedded
from halocline.fleet.server.service import ServiceSettings
from halocline.formats.delta.actions.action import CommitInfo, Metadata, ProtocolAction, encode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store

SWITCH = {"delta.enableDeletionVectors": "true"}
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
LONG = FleetTerms(lease=60_000, margin=12_000)
"""A lease that no delay of the machine ends."""


class ShiftedClock(SystemClock):
    """The machine's clock with `ahead` milliseconds added, so that a lease ends when a test says so."""

    ahead = 0

    def now(self) -> int:
        """The time with what was added."""
        return super().now() + self.ahead


def make_table(path: Path, engine: str | None = None, seen_ms: int | None = None) -> str:
    """A Delta table (1,2) without rows, written by an engine if one is named."""
    info = {"timestamp": seen_ms or int(time.time() * 1000), "operation": "CREATE TABLE"}
    if engine is not None:
        info["engineInfo"] = engine
    commit = encode_commit([CommitInfo(info), ProtocolAction(1, 2), Metadata("1", schema_string=json.dumps(SCHEMA))])
    open_store(path).put(DELTA.commit_path(0), commit)
    return open_store(path).root


def in_memory(**changes: Any) -> Config:
    """How a coordinator runs that keeps nothing, takes any free port and looks at the time often."""
    usual = {"store": ":memory:", "listen": "127.0.0.1:0", "http": "", "settings": ServiceSettings(tick_s=0.05)}
    return Config(**{**usual, **changes})


@contextmanager
def running(**changes: Any) -> Iterator[tuple[Hosting, AdminClient]]:
    """A coordinator that keeps nothing, and an operator."""
    config = in_memory(**{"http": "127.0.0.1:0", "settings": ServiceSettings(), **changes})
    with embedded(config) as hosting, AdminClient(hosting.address, "operator") as admin:
        yield hosting, admin


def raise_to(admin: AdminClient, level: int) -> None:
    """Raises the level of delta, one after the other."""
    for each in range(2, level + 1):
        admin.raise_level("delta", each, reason="test")


def processed(coordinator: Coordinator, cause: Cause) -> tuple[Effect, ...]:
    """Decides, writes and keeps, one after the other, as a service does."""
    batch = coordinator.decide((cause,))
    (effects,) = batch.effects
    if isinstance(effects, HaloclineError):
        raise effects
    coordinator.carry_out(batch)
    coordinator.keep(batch)
    return effects


def users_of(admin: AdminClient, table: str) -> dict[str, MemberStatus]:
    """Who the fleet knows to use a table, by name."""
    return {each.identity: each for each in admin.table_users(table).members}


def declared(identity: str, release: str, *tables: str, **facts: Any) -> Observe:
    """A member that never calls, and reads these tables."""
    uses = frozenset(TableUse(table, "delta", "read") for table in tables)
    return Observe(identity, release, Provenance.DECLARED, "", **{"tables": uses, **facts})


def until(holds: Callable[[], object], event: str = "it comes true", patience: float = 120.0) -> None:
    """Waits until something holds, and fails if it never does."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"never: {event}"
        time.sleep(0.01)
