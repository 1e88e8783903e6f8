"""What a fleet costs: heartbeats, memory, a raise, a reconnect of everybody, a handshake.

The coordinator runs in a process of its own on loopback, with its default store. The load comes from another process
that drives the wire directly. The peer is a bare grpc.aio server that echoes on as many streams of as many connections:
what gRPC itself costs in Python. Every figure is printed with the ratio to the peer in the same run.

    python bench/fleet.py                 the promises, about two minutes
    python bench/fleet.py --quick         a tenth of the members, for a look
    python bench/fleet.py --most 4000     also holds so many members
    python bench/fleet.py --large         only a fleet of 10,000 members and 10,000 tables, with 1,000,000 former lives
                                          and 1,000,000 entries in its log: taking over, what each call costs, and for
                                          how long it holds up the loop that answers heartbeats
    python bench/fleet.py --store postgresql://…      any of these in a database that is there for nothing else

How long the loop is held up is counted in time of the processor, so it says the same on a machine that is busy; how
long heartbeats took is not, so it does not.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from halocline.compat.terms import ProtocolChange, Terms
from halocline.fleet.core.effects import Announce, Renew
from halocline.fleet.core.events import Heartbeat, Observe
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.state import LevelRange, Provenance, Report, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.wire import calls, messages
from halocline.fleet.wire.handshake import Role, Wire
from halocline.fleet.wire.session import Greeting

HEARTBEAT_S = 5.0
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


class Server:
    """A process that listens, and what it costs."""

    def __init__(self, kind, folder, *more):
        command = [sys.executable, __file__, "--as", kind, "--folder", folder, *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.target = f"127.0.0.1:{self.port}"

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def threads(self):
        return int(Path(f"/proc/{self.process.pid}/status").read_text().split("Threads:")[1].split()[0])

    def held_up(self):
        """For how long the loop did not have its turn since this was last asked, in seconds of the processor."""
        self.process.send_signal(signal.SIGUSR1)
        return float(self.process.stdout.readline())

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def report(number):
    return Report(f"member-{number}", int(time.time() * 1000), "halocline@0.1.0", supported={"hudi": LevelRange(6, 9)})


class Member:
    """One member: a connection of its own, a handshake, a session."""

    def __init__(self, number, target, wire):
        self.report = report(number)
        self.wire = wire
        self.target = target
        self.seq = 0
        self.views = {}
        self.heard = asyncio.Event()
        self.latencies = []
        self.channel = self.call = self.reader = None

    async def join(self):
        self.channel = grpc.aio.insecure_channel(self.target, options=OPTIONS)
        greet = self.channel.unary_unary(calls.HANDSHAKE.path)
        welcome = calls.HANDSHAKE.answer.decode(await greet(self.greeting(), timeout=60))
        self._learn(welcome.admission.announcements)
        session, self.metadata = (
            self.channel.stream_stream(calls.SESSION),
            (("authorization", f"Bearer {welcome.token}"),),
        )
        self.call = session(metadata=self.metadata)
        self.reader = asyncio.ensure_future(self._listen())
        await self.beat()

    def greeting(self):
        client, wall, sent = self.wire.client(Role.MEMBER), int(time.time() * 1000), int(time.monotonic() * 1000)
        greeting = Greeting(client, self.report.identity, "reader", "", wall, sent, self.report)
        return calls.HANDSHAKE.request.encode(greeting)

    async def beat(self):
        self.seq += 1
        beat = Heartbeat(
            self.report.identity, self.report.incarnation, self.seq, int(time.monotonic() * 1000), self.views
        )
        self.answered = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        await self.call.write(messages.to_heartbeat(beat))
        await asyncio.wait_for(self.answered, 60)
        self.latencies.append(time.perf_counter() - began)

    async def _listen(self):
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            await self._read()

    async def _read(self):
        while (data := await self.call.read()) is not grpc.aio.EOF:
            message = messages.session_message(self.report.key, data)
            if isinstance(message, Renew) and not self.answered.done():
                self.answered.set_result(None)
            if isinstance(message, Renew | Announce):
                self._learn(message.announcements)

    def _learn(self, announcements):
        for each in announcements:
            if each.ladder == "hudi":
                self.views["hudi"] = View(each.revision, each.limit)
                if each.limit >= 8:
                    self.heard.set()

    async def leave(self):
        """Says goodbye, so that a level is settled without it."""
        await self.channel.unary_unary(calls.LEAVE.path)(calls.LEAVE.request.encode(None), metadata=self.metadata)
        await self.drop()

    async def drop(self):
        if self.reader:
            self.reader.cancel()
        await self.channel.close()


class Echo(Member):
    """The same against a server that does nothing but echo."""

    async def join(self):
        self.channel = grpc.aio.insecure_channel(self.target, options=OPTIONS)
        greet = self.channel.unary_unary("/echo/Once")
        await greet(b"x" * 400, timeout=60)
        self.call = self.channel.stream_stream("/echo/Stream")()
        self.reader = asyncio.ensure_future(self._listen())
        await self.beat()

    async def beat(self):
        self.answered = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        await self.call.write(b"x" * 40)
        await asyncio.wait_for(self.answered, 60)
        self.latencies.append(time.perf_counter() - began)

    async def leave(self):
        await self.drop()

    async def _read(self):
        while (await self.call.read()) is not grpc.aio.EOF:
            if not self.answered.done():
                self.answered.set_result(None)


async def together(coroutines, most=64):
    gate = asyncio.Semaphore(most)

    async def one(coroutine):
        async with gate:
            await coroutine

    await asyncio.gather(*(one(each) for each in coroutines))


async def measure(kind, server, count, seconds):
    wire = Wire.current()
    make = Member if kind == "fleet" else Echo
    warm = [make(10_000_001 + n, server.target, wire) for n in range(8)]
    await together([each.join() for each in warm])
    empty = server.memory()
    members = [make(number, server.target, wire) for number in range(count)]
    cpu, began = server.cpu(), time.perf_counter()
    await together([each.join() for each in members])
    joined, join_cpu = time.perf_counter() - began, server.cpu() - cpu
    facts = {
        "join_s": joined,
        "join_ms_cpu": 1000 * join_cpu / count,
        "kib": (server.memory() - empty) / 1024 / count,
        "threads": server.threads(),
    }

    async def beat_on(member, offset):
        await asyncio.sleep(offset)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            due = time.perf_counter() + HEARTBEAT_S
            await member.beat()
            await asyncio.sleep(max(due - time.perf_counter(), 0))

    for each in members:
        each.latencies.clear()
    cpu, began = server.cpu(), time.perf_counter()
    await asyncio.gather(*(beat_on(each, HEARTBEAT_S * n / count) for n, each in enumerate(members)))
    lasted = time.perf_counter() - began
    beats = sorted(latency for each in members for latency in each.latencies)
    facts["share"] = (server.cpu() - cpu) / lasted / (len(beats) * HEARTBEAT_S / count / lasted)
    facts["beat_ms_cpu"] = 1000 * (server.cpu() - cpu) / len(beats)
    facts["p50_ms"], facts["p99_ms"] = 1000 * beats[len(beats) // 2], 1000 * beats[int(0.99 * len(beats))]
    await asyncio.gather(*(each.leave() for each in warm))
    return members, facts


async def raise_reaches(members, server):
    loop = asyncio.get_running_loop()
    with AdminClient(f"grpc://{server.target}") as admin:
        began = time.perf_counter()
        await loop.run_in_executor(None, lambda: admin.raise_level("hudi", 8, reason="bench"))
        await asyncio.wait_for(asyncio.gather(*(each.heard.wait() for each in members)), 60)
        heard = time.perf_counter() - began
        await asyncio.gather(*(each.beat() for each in members))
        while True:
            answer = await loop.run_in_executor(None, admin.describe)
            if answer.ladder("hudi").settled == 8:
                return heard, time.perf_counter() - began
            await asyncio.sleep(0.05)


async def reconnect(members):
    await asyncio.gather(*(each.drop() for each in members))
    began = time.perf_counter()
    await together([each.join() for each in members], most=len(members))
    return time.perf_counter() - began


async def handshakes(server, seconds):
    """Server CPU of one handshake on an open connection, joining included but nothing new to write."""
    wire = Wire.current()
    member = Member(10_000_000, server.target, wire)
    await member.join()
    greet, request = member.channel.unary_unary(calls.HANDSHAKE.path), member.greeting()
    cpu, until, count = server.cpu(), time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        await asyncio.gather(*(greet(request, timeout=30) for _ in range(8)))
        count += 8
    spent = server.cpu() - cpu
    await member.drop()
    return 1000 * spent / count, count / seconds


async def echoes(server, seconds):
    channel = grpc.aio.insecure_channel(server.target, options=OPTIONS)
    greet = channel.unary_unary("/echo/Once")
    cpu, until, count = server.cpu(), time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        await asyncio.gather(*(greet(b"x" * 400, timeout=30) for _ in range(8)))
        count += 8
    spent = server.cpu() - cpu
    await channel.close()
    return 1000 * spent / count, count / seconds


async def main(count, most, seconds, store):
    kept = ["--store", store] if store else []
    with tempfile.TemporaryDirectory() as folder:
        peer = Server("echo", folder)
        try:
            members, echo = await measure("echo", peer, count, seconds)
            echo["handshake_ms_cpu"], _ = await echoes(peer, 2.0)
            began = time.perf_counter()
            await asyncio.gather(*(each.drop() for each in members))
            await together([each.join() for each in members], most=len(members))
            echo["reconnect_s"] = time.perf_counter() - began
            await asyncio.gather(*(each.drop() for each in members))
        finally:
            peer.stop()
        server = Server("fleet", folder, *kept)
        try:
            members, fleet = await measure("fleet", server, count, seconds)
            fleet["raise_s"], fleet["settled_s"] = await raise_reaches(members, server)
            fleet["reconnect_s"] = await reconnect(members)
            fleet["handshake_ms_cpu"], fleet["handshakes_per_s"] = await handshakes(server, 2.0)
            show(fleet, echo, count)
            await together([each.leave() for each in members])
        finally:
            server.stop()
        if most > count:
            server = Server("fleet", tempfile.mkdtemp(dir=folder), *kept)
            try:
                members, many = await measure("fleet", server, most, seconds)
                line = f"{most:,} members hold: {many['kib']:.0f} KiB each, {100 * many['share']:.0f} % of a core"
                print(f"{line}, p99 {many['p99_ms']:.1f} ms, {many['threads']} threads")
                await asyncio.gather(*(each.drop() for each in members))
            finally:
                server.stop()


def show(fleet, echo, count):
    rows = [
        ("share of a core at 5 s heartbeats", "share", 100, "%", 15),
        ("memory per member", "kib", 1, "KiB", 60),
        ("server CPU per heartbeat", "beat_ms_cpu", 1, "ms", None),
        ("heartbeat p50", "p50_ms", 1, "ms", None),
        ("heartbeat p99", "p99_ms", 1, "ms", None),
        ("connect, join and first heartbeat, CPU", "join_ms_cpu", 1, "ms", None),
        ("handshake, server CPU", "handshake_ms_cpu", 1, "ms", 1),
        ("a raise has reached everybody", "raise_s", 1, "s", 2),
        ("and is settled", "settled_s", 1, "s", None),
        ("everybody reconnects at once", "reconnect_s", 1, "s", 15),
    ]
    print(f"{count:,} members, one connection each{'':10}fleet      bare grpc.aio   ratio   promise")
    for label, key, scale, unit, promise in rows:
        ours, theirs = scale * fleet[key], scale * echo.get(key, 0)
        peer = f"{theirs:10.2f} {unit:<4}{ours / theirs:6.1f} x" if theirs else " " * 22
        kept = "" if promise is None else f"{'kept' if ours <= promise else 'MISSED'} ({promise} {unit})"
        print(f"{label:<40}{ours:8.2f} {unit:<5}{peer}   {kept}")
    print(json.dumps({"fleet": fleet, "echo": echo}))


# A large fleet.

LARGE, TABLES_EACH, MANY = 10_000, 100, 1_000_000
ALLOWED_S = 0.1
CHANGE = ProtocolChange("s3://lake/warehouse/table-1", None, Terms.using("delta", ["deletionVectors"]))


def questions():
    """What is asked of a large fleet, by name."""
    numbers = count()

    def trace(provenance, name):
        uses = frozenset({TableUse(f"s3://lake/new-{next(numbers)}", "delta", "write")})
        return Observe(f"{name}-{next(numbers)}", "deltalake@1.0.2", provenance, "", None, {}, uses)

    return {
        "describe": lambda admin: admin.describe(),
        "who-breaks --raise delta=4, all pages": lambda admin: admin.who_breaks(ladder="delta", level=4),
        "who-breaks by a change of a table": lambda admin: admin.who_breaks(change=CHANGE),
        "who-breaks --remove, all pages": lambda admin: admin.who_breaks(remove="session"),
        "who-blocks deletionVectors, a page": lambda admin: admin.who_blocks("deletionVectors", limit=100),
        "members, a page": lambda admin: admin.members(limit=100),
        "the users of a table": lambda admin: admin.table_users("s3://lake/warehouse/table-1"),
        "raise --dry-run": lambda admin: admin.plan_raise("delta", 4),
        "downgrade validate": lambda admin: admin.plan_downgrade("hudi", 6),
        "audit, a page": lambda admin: admin.audit(),
        "a writer without a name was seen": lambda admin: admin.observe(trace(Provenance.INFERRED, "deltalake@1.0.2")),
        "a writer was seen": lambda admin: admin.observe(trace(Provenance.OBSERVED, "job")),
        "a hold is placed and released": lambda admin: (admin.hold("delta", "bench"), admin.release("delta")),
        "export, once": lambda admin: admin.export(),
    }


async def large(store):
    """What taking over costs, what operators' questions cost, and how long heartbeats wait meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server("large", folder, *(["--store", store] if store else []))
        facts = json.loads(server.process.stdout.readline())
        try:
            members = [Member(20_000_000 + number, server.target, Wire.current()) for number in range(20)]
            await together([each.join() for each in members])
            server.held_up()
            quiet = await _delays(members, 5.0)
            where = store.partition(":")[0] or "sqlite"
            print(
                f"{LARGE:,} members with {TABLES_EACH} of {LARGE:,} tables each, {server.memory() >> 20} MiB, {where}"
            )
            lives = f"taking over, {MANY:,} former lives and entries"
            print(f"{lives:<44}{facts['cpu']:7.2f} s CPU {facts['seconds']:7.2f} s")
            held = f"loop held up for {1000 * server.held_up():4.0f} ms CPU, heartbeats at most {quiet:6.0f} ms"
            print(f"{'no questions asked':<44}{'':14}{held}")
            for name, question in questions().items():
                cpu, number, worst = await _asked(server, members, question)
                held = server.held_up()
                kept = "kept" if held <= ALLOWED_S else "MISSED"
                late = ", heartbeats LATE" if worst > 1000 * ALLOWED_S else ""
                line = f"{name:<44}{1000 * cpu / number:7.0f} ms CPU   loop held up for {1000 * held:4.0f} ms CPU"
                print(
                    f"{line}, heartbeats at most {worst:6.0f} ms   {kept} ({1000 * ALLOWED_S:.0f} ms CPU){late}",
                    flush=True,
                )
            await asyncio.gather(*(each.drop() for each in members))
        finally:
            server.stop()


async def _delays(members, seconds):
    """The longest that a heartbeat took, in milliseconds, of members that send them one after the other."""
    for each in members:
        each.latencies.clear()
    until = time.perf_counter() + seconds

    async def beat_on(member):
        while time.perf_counter() < until:
            await member.beat()
            await asyncio.sleep(0.1)

    await asyncio.gather(*map(beat_on, members))
    return 1000 * max(latency for each in members for latency in each.latencies)


async def _asked(server, members, question):
    """CPU of a question over and over, how often it was answered, and the longest heartbeat meanwhile."""
    loop, over, answered = asyncio.get_running_loop(), asyncio.Event(), 0

    async def ask():
        nonlocal answered
        with AdminClient(f"grpc://{server.target}", deadline=120) as admin:
            while not over.is_set() or not answered:
                await loop.run_in_executor(None, question, admin)
                answered += 1

    cpu = server.cpu()
    asking = asyncio.ensure_future(ask())
    worst = await _delays(members, 4.0)
    over.set()
    await asking
    return server.cpu() - cpu, answered, worst


async def run_large(folder, where):
    import random

    from sqlalchemy import text

    from halocline.fleet.core.state import FleetTerms, Member, RecordChange, TableLevel
    from halocline.fleet.server.hosting import Config, Hosting, devote
    from halocline.fleet.store import Write, open_fleet_store

    path, now, dice = where or str(Path(folder) / "large.db"), int(time.time() * 1000), random.Random(1)
    tables = [f"s3://lake/warehouse/table-{number}" for number in range(LARGE)]
    changes = [RecordChange("terms", (), FleetTerms(lease=3_600_000, margin=1_000))]
    changes += [RecordChange("tables", (each, "delta"), TableLevel(each, "delta", 1, now)) for each in tables]
    supported = {"delta": LevelRange(1, 3), "hudi": LevelRange(6, 8)}
    for number in range(LARGE):
        used = frozenset(TableUse(dice.choice(tables), "delta", "read") for _ in range(TABLES_EACH))
        told = Report(f"job-{number}", now, f"deltalake@1.{number % 3}.2", supported=supported, tables=used)
        changes.append(RecordChange("members", told.key, Member(told, Provenance.REPORTED, now)))
        changes.append(RecordChange("incarnations", told.identity, now))
    store = open_fleet_store(path)
    store.take_over("filler", "", lambda fleet, _: (fleet, fleet.epoch + 1, Write()))
    epoch = store.holder().epoch
    store.replace(epoch, changes, Write())
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
    with store.engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        for rows in (
            "incarnations (identity, incarnation) SELECT 'former-' || CAST(i AS TEXT), i FROM n",
            "audit (at_ms, epoch, actor, action, subject, detail, refused) "
            "SELECT i, 1, 'ann', 'join', 'job-' || CAST(i AS TEXT), 'deltalake@1.0.2 as reader', '' FROM n",
        ):
            connection.execute(text(f"{numbers} INSERT INTO {rows}"))
    store.resign(epoch)
    store.close()
    hosting = Hosting(Config(store=path, listen="127.0.0.1:0", http=""))
    cpu, began = time.process_time(), time.perf_counter()
    await hosting.start()
    devote(hosting)
    facts = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - began}
    print(hosting.port, flush=True)
    print(json.dumps(facts), flush=True)
    watching = asyncio.ensure_future(watch_the_loop())
    await until_terminated()
    watching.cancel()
    await hosting.stop()


async def watch_the_loop():
    """Says on SIGUSR1 for how long the loop did not have its turn, in seconds of the processor."""
    worst = 0.0

    def tell():
        nonlocal worst
        print(worst, flush=True)
        worst = 0.0

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
    while True:
        before = time.process_time()
        await asyncio.sleep(0.002)
        worst = max(worst, time.process_time() - before)


# The servers.


async def run_fleet(folder, where):
    from halocline.fleet.core.state import FleetTerms
    from halocline.fleet.server.hosting import Config, Hosting

    # On a busy machine the last members join when the first have been silent for long.
    terms = FleetTerms(lease=120_000, margin=24_000)
    store = where or str(Path(folder) / "fleet.db")
    hosting = Hosting(Config(store=store, listen="127.0.0.1:0", http="", terms=terms))
    await hosting.start()
    print(hosting.port, flush=True)
    await until_terminated()
    await hosting.stop()


async def run_echo():
    async def once(request, context):
        return request

    async def stream(_, context):
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handlers = {
        "Once": grpc.unary_unary_rpc_method_handler(once),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await until_terminated()
    await server.stop(0)


async def until_terminated():
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()


def loop_factory():
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="role", default="")
    parser.add_argument("--folder", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--store", default="", help="the URL of a PostgreSQL; a file if not said")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--most", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.members, chosen.most, chosen.seconds = 100, 0, 6.0
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if chosen.role == "fleet":
            runner.run(run_fleet(chosen.folder, chosen.store))
        elif chosen.role == "echo":
            runner.run(run_echo())
        elif chosen.role == "large":
            runner.run(run_large(chosen.folder, chosen.store))
        elif chosen.large:
            runner.run(large(chosen.store))
        else:
            runner.run(main(chosen.members, chosen.most, chosen.seconds, chosen.store))
            if not chosen.quick:
                runner.run(large(chosen.store))
