"""Members of a soak: several in one process, which write samples of themselves to a file."""

import json
import signal
import sys
import threading
from pathlib import Path

from halocline.errors import HaloclineError
from halocline.fleet.core.clock import steady_ms
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.loop import MemberLoop


def main(asked):
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    lo, hi = asked["levels"]
    members = []
    for name in asked["names"]:
        report = Report(name, 0, asked["release"], supported={"hudi": LevelRange(lo, hi)})
        members.append(MemberLoop(asked["address"], report, deadline=2.0))
    for each in members:
        try:
            each.start(wait=0.1)
        except HaloclineError as error:
            print(json.dumps({"refused": error.condition}), flush=True)
    with Path(asked["file"]).open("a", encoding="utf-8", buffering=1) as file:
        while not over.wait(0.01):
            for each in members:
                before = steady_ms()
                level = each.snapshot().level("hudi") or 0
                after = steady_ms()
                state, ahead = each.state, each._clock.now() - steady_ms()
                until = (state.until or 0) - ahead if state.until else 0
                where = f"{each.identity} {state.report.incarnation} {until}"
                file.write(f"{before} {after} {where} {level} {lo} {hi}\n")
            if all(each.contact.final for each in members):
                break
    for each in members:
        each.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
