"""Kills a coordinator before every statement it sends to its store, and looks at what the store holds afterwards.

Run as a program with the store's URL: it plays a script of operations once to learn what the store holds after each,
and how many statements there are. Then, for every statement, a child plays the script from the beginning and kills
itself with SIGKILL right before that statement; afterwards the store must hold exactly what was acknowledged, or that
and the one operation that was under way, whole. Now and then a new coordinator finishes the script, to see that it can.

It runs in a process of its own because it forks, which nothing may do that has gRPC running.
"""

import os
import signal
import sys
import time

from sqlalchemy import event, text

from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    DeclareLadder,
    FinishDowngrade,
    Heartbeat,
    Join,
    Leave,
    MoveTable,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    StartDowngrade,
    Tick,
)
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.state import Fleet, FleetTerms, LevelRange, Report, TableUse
from halocline.fleet.server import coordinator
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.store import Write, open_fleet_store
from halocline.fleet.store.codec import encode, taken_apart

HUDI = DeclareLadder(Ladder("hudi", (Rung(6), Rung(8, changes_data=True))), "halocline")


def report(name):
    return Report(name, 1, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})


def heard(coordinator, name, seq):
    ladder_state = coordinator.state.fleet.ladder_states["hudi"]
    uses = frozenset({TableUse("lake/orders", "hudi")})
    return Heartbeat(name, 1, seq, 0, {"hudi": View(ladder_state.revision, ladder_state.limit)}, uses)


BEGAN = time.time_ns() // 1_000_000
"""The same for all forks, so that they write the same. The database's clock goes on, however long they take."""

SCRIPT = [
    ("join a", lambda c: Join(report("a"), 0)),
    ("join b", lambda c: Join(report("b"), 0)),
    ("hold", lambda c: PlaceHold("hudi", "close", "year end", "ann")),
    ("refused raise", lambda c: Raise("hudi", 8, "ann")),
    ("release", lambda c: ReleaseHold("hudi", "close", "ann")),
    ("raise", lambda c: Raise("hudi", 8, "ann")),
    ("a hears", lambda c: heard(c, "a", 1)),
    ("b hears", lambda c: heard(c, "b", 1)),
    ("settle", lambda c: Tick()),
    ("table", lambda c: MoveTable("lake/orders", "hudi", 8, "a")),
    ("table back", lambda c: MoveTable("lake/orders", "hudi", 6, "a")),
    ("downgrade", lambda c: StartDowngrade("hudi", 6, "ann", "bad release")),
    ("cancel", lambda c: CancelDowngrade("hudi", "ann")),
    ("downgrade again", lambda c: StartDowngrade("hudi", 6, "ann", "bad release")),
    ("a closes", lambda c: heard(c, "a", 9)),
    ("b closes", lambda c: heard(c, "b", 9)),
    ("closed", lambda c: Tick()),
    ("clean", lambda c: CleanDowngrade("hudi", "ann")),
    ("finish", lambda c: FinishDowngrade("hudi", "ann")),
    ("leave", lambda c: Leave("a", 1)),
    ("remove", lambda c: RemoveMember("b", "ann", "gone", force=True)),
]


class Killer:
    """Counts what is sent to the store, and ends the process right before a chosen one."""

    def __init__(self, engine, at):
        self.count = 0
        self._at = at
        event.listen(engine, "before_cursor_execute", lambda *_: self.point())
        event.listen(engine, "commit", lambda *_: self.point())

    def point(self):
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def truth(fleet):
    """The fleet without what differs from run to run: the epoch, and the order of records."""
    return sorted((change.kind, *encode(change.key, change.value)) for change in taken_apart(fleet))


def play(url, at=0, begin=0, acknowledge=lambda name: None):
    """Takes over and plays the script; returns what the store held after each operation, and the statements sent."""
    store = open_fleet_store(url)
    killer = Killer(store.engine, at)
    clock = ManualClock(BEGAN)
    terms = FleetTerms(lease=1_000, margin=100)
    coordinator = Coordinator(store, clock, name="one", address="", ladders=[HUDI], terms=terms)
    held = coordinator.take_over()
    assert held is None, held
    killer.point()
    acknowledge("take-over")
    found = [truth(coordinator.state.fleet)]
    for name, make in SCRIPT[begin:]:
        batch = coordinator.decide((make(coordinator),))
        coordinator.carry_out(batch)
        coordinator.keep(batch)
        # Written, but not told to any client yet.
        killer.point()
        acknowledge(name)
        found.append(truth(coordinator.state.fleet))
    audited = len(store.audit(AuditQuery(limit=1000)))
    store.close()
    return found, killer.count, audited


def wipe(url):
    if "://" not in url:
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(url + suffix):
                os.unlink(url + suffix)
        return
    store = open_fleet_store(url)
    with store.engine.begin() as connection:
        for table in ("records", "incarnations", "audit", "sightings"):
            connection.execute(text(f"DELETE FROM {table}"))
        connection.execute(text("UPDATE coordinator SET epoch = 0, holder = '', until_ms = 0"))
    store.close()


def killed_at(url, at):
    """Plays the script in a child that dies at that statement; what it had acknowledged, or None if it lived."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            play(url, at, acknowledge=lambda name: os.write(writer, f"{name}\n".encode()))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"the child failed: {error!r}\n".encode())
            os._exit(7)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        acknowledged = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "the child must be killed or succeed"
        return None
    assert os.WTERMSIG(status) == signal.SIGKILL
    return acknowledged


def main(url):
    wipe(url)
    expected, statements, audited = play(url)
    steps = [name for name, _ in SCRIPT]
    whole = 0
    for at in range(1, statements + 1):
        wipe(url)
        acknowledged = killed_at(url, at)
        assert acknowledged is not None, f"nothing was killed at statement {at} of {statements}"
        done = max(len(acknowledged) - 1, 0)
        store = open_fleet_store(url)
        # Under the name of the one that was killed, which need not wait for its lease to run out.
        found = truth(store.take_over("one", "", only_look))
        store.close()
        begun = [expected[done]] if acknowledged else [truth(Fleet()), expected[0]]
        under_way = expected[done + 1 : done + 2]
        assert found in (*begun, *under_way), f"killed at {at} after {acknowledged[-1:]}: the store holds {found}"
        whole += found in under_way and found not in begun
        resumed = done + (found in under_way and found not in begun)
        if at % 5 == 0 and acknowledged and not steps[resumed - 1].endswith(("hears", "closes")):
            finished, _, _ = play(url, begin=resumed)
            assert len(finished) == len(SCRIPT) - resumed + 1
    print(f"{statements} points, {len(SCRIPT)} operations, {audited} audit entries, {whole} written but not told")


def only_look(fleet, belief):
    return fleet, fleet.epoch + 1, Write()


if __name__ == "__main__":
    coordinator.CLOCK_TOLERANCE_MS = 3_600_000  # here and not above: whoever collects tests imports this module
    coordinator.token_hex = lambda size: "5" * 2 * size  # all forks write the same
    main(sys.argv[1])
