"""A rolling upgrade of real processes that run as emulated releases: servers first and clients first.

The histories below describe five releases. Release 2 adds a call that release 3 requires, release 4 drops what
release 2 still requires; from release 4 on servers push something that members know from release 3 on.
"""

import pytest

CALLS = """
format = 1
name = "calls"
released = "5.0.0"
unknown_before = "1.0.0"

[[feature]]
id = "handshake"
provided = "1.0.0"
required = "1.0.0"

[[feature]]
id = "member/session"
provided = "1.0.0"
required = "1.0.0"

[[feature]]
id = "member/old-tables"
provided = "[1.0.0, 4.0.0)"
required = "[1.0.0, 3.0.0)"

[[feature]]
id = "member/new-tables"
provided = "2.0.0"
required = "3.0.0"
"""

PUSHES = """
format = 1
name = "pushes"
released = "5.0.0"
unknown_before = "1.0.0"

[[feature]]
id = "push/standing"
provided = "1.0.0"
required = "1.0.0"

[[feature]]
id = "push/limit"
provided = "3.0.0"
required = "4.0.0"
"""


@pytest.fixture
def roll(launch, memory_folder):
    """Starts coordinators and members of emulated releases on one store and one port."""
    files = {"calls": memory_folder / "calls.toml", "pushes": memory_folder / "pushes.toml"}
    files["calls"].write_text(CALLS)
    files["pushes"].write_text(PUSHES)
    spoken = {name: str(path) for name, path in files.items()}

    class Roll:
        port = 0
        epoch = 0
        coordinator = None

        @property
        def address(self):
            return f"grpc://127.0.0.1:{self.port}"

        def server(self, version):
            if self.coordinator is not None:
                self.coordinator.stop()
            self.coordinator = launch(
                "coordinator_process.py",
                store=str(memory_folder / "fleet.db"),
                port=self.port,
                version=version,
                lease=60_000,
                policy="auto",
                **spoken,
            )
            self.epoch += 1
            self.port = self.coordinator.hears(active=True, epoch=self.epoch)["port"]

        def member(self, name, version, levels=(6, 8)):
            return launch(
                "member_process.py",
                name=name,
                address=self.address,
                version=version,
                release=f"hudi@1.0.{version[0]}",
                levels=levels,
                **spoken,
            )

    return Roll()


def test_servers_first_then_clients_and_nobody_is_ever_out(roll):
    roll.server("1.0.0")
    members = {name: roll.member(name, "1.0.0", (6, 6)) for name in ("a", "b")}
    lives = {name: each.hears(joined=True)["incarnation"] for name, each in members.items()}
    for version in ("2.0.0", "3.0.0"):
        roll.server(version)
        for name, each in members.items():
            back = each.hears(status="joined", epoch=roll.epoch, server=f"halocline@{version}")
            assert back["incarnation"] == lives[name], "the roll of a server costs nobody its lease"
            assert back["level"] == 6
    for name in ("a", "b"):
        members[name].stop()
        members[name] = roll.member(name, "3.0.0", (6, 8))
        members[name].hears(joined=True)
    for each in members.values():
        each.hears(heard=8)
    roll.server("4.0.0")
    for each in members.values():
        each.hears(status="joined", epoch=roll.epoch, level=8)
    assert not any("lost" in said or "refused" in said for each in members.values() for said in each.read())


def test_clients_first_then_servers_as_far_as_the_ranges_allow(roll):
    roll.server("2.0.0")
    members = {name: roll.member(name, "2.0.0") for name in ("a", "b")}
    for each in members.values():
        each.hears(joined=True)
    for name in ("a", "b"):
        members[name].stop()
        members[name] = roll.member(name, "3.0.0")
        members[name].hears(joined=True)
    for version in ("3.0.0", "4.0.0", "5.0.0"):
        roll.server(version)
        for each in members.values():
            each.hears(status="joined", epoch=roll.epoch, server=f"halocline@{version}")
    assert not any("lost" in said or "refused" in said for each in members.values() for said in each.read())


def test_a_client_that_is_too_new_or_too_old_is_refused_by_the_feature_and_the_release(roll):
    roll.server("1.0.0")
    new = roll.member("new", "3.0.0").hears(refused="INCOMPATIBLE_VERSION")
    assert "member/new-tables" in new["message"]
    assert "the server to 2.0.0" in new["next"]
    roll.server("4.0.0")
    old = roll.member("old", "2.0.0").hears(refused="INCOMPATIBLE_VERSION")
    assert "member/old-tables, removed from servers at 4.0.0" in old["message"]
    assert "the client to 3.0.0" in old["next"]


def test_a_member_that_a_new_server_no_longer_serves_is_told_and_stops(roll):
    roll.server("3.0.0")
    staying, going = roll.member("staying", "3.0.0"), roll.member("going", "2.0.0")
    for each in (staying, going):
        each.hears(joined=True)
    roll.server("4.0.0")
    staying.hears(status="joined", epoch=roll.epoch)
    lost = going.hears(lost="INCOMPATIBLE_VERSION")
    assert "member/old-tables" in lost["message"]
    going.hears(status="outside", level=None)
