"""Three coordinators on one PostgreSQL under random faults, and whether anything happened that must not.

    python -m tests.fleet.soak 5                     for five minutes; the seed is printed, and can be given with --seed
    python -m tests.fleet.soak 1 --broken grace      coordinators that give no grace after taking over: it must be found

Coordinators and members are killed, stopped and continued; the connections to the database are cut, the database
crashes, its clock seems to be set (the lease is over before its time), and the date of coordinators jumps. Meanwhile
operators raise, hold, release and let fall, and binaries are rolled up and back. Everything listens on loopback.

Afterwards `tests.fleet.soak_checker`, which shares no code with the fleet, looks through the samples that members wrote
of themselves, the rows that the database was seen to have, and the audit log. The exit code is 1 if it complains; with
coordinators that are broken on purpose, if it does not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from tests.fleet import soak_checker
from tests.support.postgresql import NotHereError, Server, private_server
from tests.support.processes import Process, free_port, until

from halocline.errors import HaloclineError, UnavailableError
from halocline.fleet.member.admin import AdminClient

HERE = Path(__file__).parent
BINARIES = {(6, 6): "hudi@0.15.0", (6, 8): "hudi@1.0.2", (6, 9): "hudi@1.1.0"}
LEASE, MARGIN = 4_000, 800


class Soak:
    """The processes, what is done to them, and what was seen."""

    def __init__(self, server: Server, folder: Path, dice: random.Random, broken: str = "") -> None:
        self.server, self.folder, self.dice, self.broken = server, folder, dice, broken
        self.over = threading.Event()
        self.faults: Counter[str] = Counter()
        self.done: list[str] = []
        self.unknown: list[str] = []
        self.refused = 0
        self.rows: list[tuple[int, int]] = []
        self.ports = [free_port() for _ in range(3)]
        self.address = "grpc://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.coordinators: dict[int, Process] = {}
        self.members: dict[int, Process] = {}
        self._stopped: dict[Process, float] = {}

    def run(self, seconds: float) -> None:
        """Lets it all happen."""
        for port in self.ports:
            self._start_coordinator(port)
        for port in self.ports:
            self.coordinators[port].hears(port=port)
        for number in range(3):
            self._start_members(number)
        until(lambda: len({each.process for each in self.samples() if each.level}) == 6, "all members have joined")
        threads = [threading.Thread(target=each) for each in (self._operate, self._operate, self._look)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                time.sleep(self.dice.uniform(0.2, 3.0))
                self._continue()
                self._revive()
                fault = self.dice.choices(list(self._faults), [weight for _, weight in self._faults.values()])[0]
                self._faults[fault][0]()
                self.faults[fault] += 1
                if self.broken and next(soak_checker.early_use(self.samples()), None):
                    break
        finally:
            self._continue(at_once=True)
            self.over.set()
            for thread in threads:
                thread.join()
            for each in (*self.members.values(), *self.coordinators.values()):
                each.stop()

    @property
    def _faults(self) -> dict[str, tuple[Callable[[], None], int]]:
        if self.broken:
            return {"an old member stalls while the database's clock is set": (self._overtake, 1)}
        return {
            "a coordinator is killed": (lambda: self._any(self.coordinators).kill(), 3),
            "a coordinator stalls": (lambda: self._stall(self._any(self.coordinators)), 4),
            "members are killed": (lambda: self._any(self.members).kill(), 3),
            "members stall": (lambda: self._stall(self._any(self.members)), 4),
            "connections are cut": (self._cut, 3),
            "the database's clock is set": (self._end_lease, 3),
            "a date jumps": (lambda: self._any(self.coordinators).signal(signal.SIGUSR1), 2),
            "the database crashes": (self._crash, 1),
        }

    def _any(self, of: dict[int, Process]) -> Process:
        return self.dice.choice(list(of.values()))

    def _start_coordinator(self, port: int) -> None:
        asked = {"store": self.server.url, "port": port, "lease": LEASE, "margin": MARGIN, "coordinator_lease": 3_000}
        asked |= {"broken": self.broken, "lease": 5 * LEASE} if self.broken else {}
        self.coordinators[port] = Process(HERE / "coordinator_process.py", **asked)

    def _start_members(self, number: int) -> None:
        levels = self.dice.choices(list(BINARIES), (1, 2, 3))[0]
        if self.broken:
            levels = (6, 6) if number == 0 else (6, 9)
        names, file = [f"m{number}a", f"m{number}b"], str(self.folder / f"samples-{number}")
        facts = {"names": names, "levels": levels, "release": BINARIES[levels], "address": self.address, "file": file}
        self.members[number] = Process(HERE / "soak_member.py", **facts)

    def _revive(self) -> None:
        """Starts again what is dead, members with any binary."""
        for port, each in list(self.coordinators.items()):
            each.read()
            if each.process.poll() is not None:
                each.stop()
                self._start_coordinator(port)
        for number, each in list(self.members.items()):
            each.read()
            if each.process.poll() is not None:
                each.stop()
                self._start_members(number)

    def _stall(self, process: Process) -> None:
        if process.process.poll() is None:
            process.signal(signal.SIGSTOP)
            self._stopped[process] = time.monotonic() + self.dice.uniform(0.5, 8.0)

    def _continue(self, *, at_once: bool = False) -> None:
        for process, end in list(self._stopped.items()):
            if at_once or time.monotonic() > end:
                del self._stopped[process]
                if process.process.poll() is None:
                    process.signal(signal.SIGCONT)

    def _cut(self) -> None:
        self._sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'halocline'")

    def _end_lease(self) -> None:
        self._sql("UPDATE coordinator SET until_ms = 1 WHERE until_ms > 0")

    def _overtake(self) -> None:
        """Another takes over while members that run only the lowest level stall, and goes on before they do."""
        self.members[0].signal(signal.SIGSTOP)
        self._end_lease()
        time.sleep(2 * LEASE / 1000)
        self.members[0].signal(signal.SIGCONT)
        time.sleep(1.0)

    def _crash(self) -> None:
        self.server.crash()
        time.sleep(self.dice.uniform(0.1, 2.0))
        self.server.start()

    def _sql(self, statement: str) -> None:
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(statement)

    # Meanwhile.

    def _operate(self) -> None:
        """Gives commands; one whose answer was lost is given again under its key, sooner or later."""
        dice = random.Random(self.dice.random())
        while not self.over.wait(dice.uniform(0.05, 0.5)):
            tag = f"tag-{secrets.token_hex(6)}"
            command, key = dice.choice(self._commands(dice, tag)), secrets.token_hex(8)
            for _ in range(dice.randint(1, 3)):
                try:
                    with AdminClient(self.address, "operator", deadline=2, key=key) as admin:
                        command(admin)
                    self.done.append(tag)
                    break
                except UnavailableError:
                    time.sleep(dice.uniform(0.1, 1.0))
                except HaloclineError:
                    self.refused += 1
                    break
            else:
                self.unknown.append(tag)

    def _commands(self, dice: random.Random, tag: str) -> list[Callable[[AdminClient], Any]]:
        level = dice.choice((8, 9))
        raises: list[Callable[[AdminClient], Any]] = [lambda admin: admin.raise_level("hudi", level, reason=tag)]
        if self.broken:
            # A hold would hide what is broken for as long as it is in force.
            return raises
        return [
            *raises,
            *raises,
            lambda admin: admin.hold("hudi", tag, name=dice.choice("abc")),
            lambda admin: admin.release("hudi", dice.choice("abc"), reason=tag),
            lambda admin: admin.start_downgrade("hudi", 6, tag),
            lambda admin: admin.clean_downgrade("hudi", reason=tag),
            lambda admin: admin.finish_downgrade("hudi", reason=tag),
            lambda admin: admin.cancel_downgrade("hudi", reason=tag),
        ]

    def _look(self) -> None:
        """Reads what the database has, by a connection of its own."""
        question = (
            "SELECT epoch, (SELECT (body::json->'value'->>'revision')::int FROM records WHERE kind = 'ladder_states') "
            "FROM coordinator"
        )
        while not self.over.is_set():
            with contextlib.suppress(psycopg.Error), psycopg.connect(self.server.url, autocommit=True) as connection:
                while not self.over.wait(0.02):
                    epoch, revision = connection.execute(question).fetchone() or (0, 0)
                    self.rows.append((epoch, revision or 0))
            self.over.wait(0.1)

    # Afterwards.

    def entries(self) -> list[soak_checker.Entry]:
        """The audit log, oldest first."""
        with psycopg.connect(self.server.url) as connection:
            columns = ", ".join(soak_checker.Entry._fields)
            return [
                soak_checker.Entry(*row) for row in connection.execute(f"SELECT {columns} FROM audit ORDER BY number")
            ]

    def samples(self) -> list[soak_checker.Sample]:
        """What members wrote of themselves."""
        found: list[soak_checker.Sample] = []
        for path in self.folder.glob("samples-*"):
            with path.open(encoding="utf-8") as lines:
                found += soak_checker.read_samples(lines)
        return found


def complaints(soak: Soak) -> Iterator[str]:
    """Everything that should not be."""
    entries = soak.entries()
    yield from soak_checker.early_use(soak.samples())
    yield from soak_checker.broken_log(entries)
    yield from soak_checker.wrong_commands(entries, soak.done, soak.unknown)
    yield from soak_checker.falling(soak.rows)


def main(minutes: float, seed: int, broken: str = "") -> int:
    """Soaks for so long, or until what is broken was found, and prints what was done and seen."""
    print(f"soak for {minutes:g} min, seed {seed}{f', without {broken}' if broken else ''}", flush=True)
    with tempfile.TemporaryDirectory() as folder, private_server() as server:
        soak = Soak(server, Path(folder), random.Random(seed), broken)
        soak.run(60 * minutes)
        samples, entries = soak.samples(), soak.entries()
        found = list(complaints(soak))
        levels = Counter(each.level for each in samples)
    for fault, number in sorted(soak.faults.items()):
        print(f"{number:6} {fault}")
    epochs = max((each.epoch for each in entries), default=0)
    print(f"{len(samples):,} samples of members, gates open up to {dict(sorted(levels.items()))}")
    print(f"{len(soak.rows):,} looks at the database, {epochs} epochs, {len(entries):,} entries in the log")
    print(f"{len(soak.done)} commands done, {soak.refused} refused, {len(soak.unknown)} of which no answer was heard")
    for each in found[:20]:
        print(f"VIOLATION: {each}")
    print(f"{len(found)} violations")
    return 0 if bool(found) == bool(broken) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("minutes", type=float, nargs="?", default=5.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--broken", default="", help="the rule that coordinators go without")
    chosen = parser.parse_args()
    try:
        sys.exit(main(chosen.minutes, chosen.seed, chosen.broken))
    except NotHereError as error:
        sys.exit(str(error))
