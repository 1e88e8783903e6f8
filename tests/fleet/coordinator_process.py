"""A coordinator as a process of its own, if asked as an emulated release; says when it becomes active or stands by."""

import asyncio
import json
import logging
import signal
import sys
from dataclasses import replace
from functools import partial

from halocline.compat.history import History
from halocline.fleet.core.clock import SystemClock
from halocline.fleet.core.events import DeclareLadder
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.rules import RULES
from halocline.fleet.core.state import FleetTerms
from halocline.fleet.core.step import step
from halocline.fleet.server import coordinator
from halocline.fleet.server.hosting import Config, Hosting
from halocline.fleet.server.service import ServiceSettings
from halocline.fleet.store import open_fleet_store
from halocline.fleet.store.postgresql import PostgresqlStore
from halocline.fleet.wire.handshake import Wire


def say(**facts):
    print(json.dumps(facts), flush=True)


class SteppedClock(SystemClock):
    """The machine's clock, whose date is set 45 s ahead by SIGUSR1, and right again by the next."""

    ahead = 0

    def wall(self):
        return super().wall() + self.ahead

    def step(self):
        self.ahead = 0 if self.ahead else 45_000


BROKEN = {"grace": lambda at, terms, belief: at}
"""Rules without which a fleet is not safe, as what takes their place."""


def wire(asked):
    if "version" not in asked:
        return None
    return Wire(asked["version"], History.load(asked["calls"]), History.load(asked["pushes"]))


async def main(asked):
    if "broken" in asked:
        coordinator.step = partial(step, rules=replace(RULES, **{asked["broken"]: BROKEN[asked["broken"]]}))
    if asked["store"].startswith("postgresql"):
        store = PostgresqlStore(asked["store"], lease_ms=asked.get("coordinator_lease", 4000))
    else:
        store = open_fleet_store(asked["store"])
    hudi = Ladder("hudi", (Rung(6), Rung(8), Rung(9)))
    ladder = DeclareLadder(hudi, "halocline", None, Policy(asked.get("policy", "manual")))
    config = Config(
        listen=f"127.0.0.1:{asked.get('port', 0)}",
        http="",
        ladders=(ladder,),
        terms=FleetTerms(asked.get("lease", 2000), asked.get("margin", 300)),
        settings=ServiceSettings(tick_s=0.05),
        wire=wire(asked),
    )
    clock = SteppedClock()
    hosting = Hosting(config, store=store, clock=clock)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.step)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await hosting.start()
    service = hosting.service
    service.on_active.append(lambda active: say(active=active, epoch=service.coordinator.epoch))
    say(port=hosting.port, active=service.active, epoch=service.coordinator.epoch)
    await over.wait()
    await hosting.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(json.loads(sys.argv[1])))
