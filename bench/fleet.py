"""What a fleet costs: heartbeats, memory, a raise, a reconnect of everybody, a handshake.

The coordinator runs in a process of its own on loopback, with its default store. The load comes from another process
that drives the wire directly. The peer is a bare grpc.aio server that echoes on as many streams of as many connections:
what gRPC itself costs in Python. Every figure is printed with the ratio to the peer in the same run.

    python bench/fleet.py                 the promises, about two minutes
    python bench/fleet.py --quick         a tenth of the members, for a look
    python bench/fleet.py --most 4000     also holds so many members
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from halocline.fleet.core.effects import Announce, Renew
from halocline.fleet.core.events import Heartbeat
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.wire import calls, messages
from halocline.fleet.wire.handshake import Role, Wire
from halocline.fleet.wire.session import Greeting

HEARTBEAT_S = 5.0
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


class Server:
    """A process that listens, and what it costs."""

    def __init__(self, kind, folder):
        command = [sys.executable, __file__, "--as", kind, "--folder", folder]
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
        session = self.channel.stream_stream(calls.SESSION)
        self.call = session(metadata=(("authorization", f"Bearer {welcome.token}"),))
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
    await asyncio.gather(*(each.drop() for each in warm))
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


async def main(count, most, seconds):
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
        server = Server("fleet", folder)
        try:
            members, fleet = await measure("fleet", server, count, seconds)
            fleet["raise_s"], fleet["settled_s"] = await raise_reaches(members, server)
            fleet["reconnect_s"] = await reconnect(members)
            fleet["handshake_ms_cpu"], fleet["handshakes_per_s"] = await handshakes(server, 2.0)
            show(fleet, echo, count)
            await asyncio.gather(*(each.drop() for each in members))
        finally:
            server.stop()
        if most > count:
            server = Server("fleet", tempfile.mkdtemp(dir=folder))
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


# The servers.


async def run_fleet(folder):
    from halocline.fleet.server.hosting import Config, Hosting

    hosting = Hosting(Config(store=str(Path(folder) / "fleet.db"), listen="127.0.0.1:0", http=""))
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
    import signal

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
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--most", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.members, chosen.most, chosen.seconds = 100, 0, 6.0
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if chosen.role == "fleet":
            runner.run(run_fleet(chosen.folder))
        elif chosen.role == "echo":
            runner.run(run_echo())
        else:
            runner.run(main(chosen.members, chosen.most, chosen.seconds))
