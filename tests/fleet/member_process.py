"""A member as a process of its own, if asked as an emulated release; says how it fares."""

import json
import signal
import sys
import threading
import time

from halocline.compat.history import History
from halocline.errors import HaloclineError
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.wire.handshake import Wire


def say(**facts):
    print(json.dumps(facts), flush=True)


def main(asked):
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    wire = None
    if "version" in asked:
        wire = Wire(asked["version"], History.load(asked["calls"]), History.load(asked["pushes"]))
    lo, hi = asked.get("levels", (6, 8))
    report = Report(asked["name"], 0, asked.get("release", "hudi@1.0.2"), supported={"hudi": LevelRange(lo, hi)})
    client = MemberLoop(
        asked["address"],
        report,
        wire=wire,
        deadline=2.0,
        on_change=lambda each: say(heard=each.limit, revision=each.revision),
        on_lost=lambda error: say(lost=error.condition, message=error.message),
    )
    try:
        say(joined=client.start(wait=20), incarnation=client.incarnation)
    except HaloclineError as error:
        say(refused=error.condition, message=error.message, next=error.next_step)
        client.stop()
        return
    before = None
    while not over.wait(0.05):
        now = (client.contact.status, client.contact.epoch, client.snapshot().level("hudi"), client.incarnation)
        if now != before:
            before = now
            status, epoch, level, incarnation = now
            say(status=status, epoch=epoch, level=level, incarnation=incarnation, server=client.contact.server)
    client.stop()
    say(closed=True, at=time.time())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
