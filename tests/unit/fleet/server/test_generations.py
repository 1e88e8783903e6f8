"""A store that is put back, by an import or by copying its files, and the members that knew more than it."""

import json
import shutil
import socket

import pytest
from tests.support.fleets import LONG, in_memory, processed, running, until

from halocline.errors import ConflictError
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.effects import Admit, Audit, Refuse, Renew
from halocline.fleet.core.events import DeclareLadder, Heartbeat, Join, Raise, Tick
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import FleetTerms, LevelRange, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.commands import backup
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.hosting import embedded
from halocline.fleet.store import open_fleet_store

NEW = Report("new", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, 6)})
OLD = Report("old", 0, "deltalake@0.5.0", supported={"delta": LevelRange(1, 1)})


@pytest.fixture
def coordinator():
    store = open_fleet_store(":memory:")
    ladders = [DeclareLadder(each.ladder, "test") for each in shipped().values()]
    terms = FleetTerms(100, 20)
    made = Coordinator(store, ManualClock(1000), name="one", address="here", ladders=ladders, terms=terms)
    made.take_over()
    yield made
    store.close()


def document(coordinator):
    parts = coordinator.store.export()
    return json.dumps({name: each if isinstance(each, int | str) else list(each) for name, each in parts.items()})


def exported(coordinator):
    """A backup as it is sent."""
    found = coordinator.store.export()
    return backup(
        json.dumps({name: each if isinstance(each, int | str) else list(each) for name, each in found.items()}).encode()
    )


def heard(coordinator):
    states = coordinator.state.fleet.ladder_states
    return {name: each.announced(name).view for name, each in states.items()}


def kinds(effects):
    return {type(each) for each in effects} & {Admit, Renew, Refuse}


def joining(incarnation, views=None):
    return Join(Report("new", incarnation, NEW.release, supported=NEW.supported), 0, views=views or {})


def test_an_import_raises_the_generation_and_ends_the_lives_that_the_backup_holds(coordinator):
    processed(coordinator, joining(5))
    records, before = exported(coordinator), heard(coordinator)
    processed(coordinator, Raise("delta", 4, "ops"))
    after = heard(coordinator)
    coordinator.clock.advance(1000)
    processed(coordinator, Tick())
    coordinator.restore(records, Audit(0, "ops", "import", "everything", "why"))
    assert coordinator.state.fleet.generation == 1
    assert coordinator.state.fleet.ladder_states["delta"].level == 1
    for views in (before, after):
        assert kinds(processed(coordinator, Heartbeat("new", 5, 9, 0, views))) == {Refuse}
        assert kinds(processed(coordinator, joining(5, views))) == {Refuse}
    assert kinds(processed(coordinator, joining(6))) == {Admit}
    assert kinds(processed(coordinator, Heartbeat("new", 6, 1, 0, heard(coordinator)))) == {Renew}
    assert coordinator.state.fleet.generation == 1, "the import is no restore that nobody knew of"


def test_an_import_into_another_store_is_told_by_the_backups_generation_too(coordinator):
    for _ in range(2):
        coordinator.restore(exported(coordinator), Audit(0, "ops", "import", "everything", "why"))
    records = exported(coordinator)
    other = Coordinator(open_fleet_store(":memory:"), ManualClock(1000), name="two", address="there")
    other.take_over()
    key = other.state.fleet.seal_key
    other.restore(records, Audit(0, "ops", "import", "everything", "why"))
    assert (other.state.fleet.generation, other.state.fleet.seal_key) == (3, key)
    other.store.close()


def test_the_key_of_the_seals_is_in_no_backup(coordinator):
    key = coordinator.state.fleet.seal_key
    assert len(key) == 64
    found = coordinator.store.export()
    assert key not in json.dumps(
        {name: each if isinstance(each, int | str) else list(each) for name, each in found.items()}
    )


def test_an_import_is_still_refused_while_a_member_holds_a_lease(coordinator):
    processed(coordinator, joining(5))
    with pytest.raises(ConflictError):
        coordinator.restore(exported(coordinator), Audit(0, "ops", "import", "everything", "why"))
    assert coordinator.state.fleet.generation == 0


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_members_go_on_in_their_lives_when_a_coordinator_starts_again(tmp_path):
    config = in_memory(store=str(tmp_path / "f.db"), listen=f"127.0.0.1:{free_port()}", terms=LONG)
    with embedded(config) as hosting:
        member = MemberLoop(hosting.address, NEW)
        member.start()
        life = member.incarnation
        with AdminClient(hosting.address, "ops") as admin:
            admin.raise_level("delta", 4)
        until(lambda: member.snapshot().level("delta") == 4)
    with embedded(config) as hosting, AdminClient(hosting.address, "ops") as admin:
        until(lambda: any(each.views for each in admin.members().members), "it sends heartbeats again")
        assert admin.describe().generation == 0
        assert (member.incarnation, member.snapshot().level("delta")) == (life, 4)
        member.stop()


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after the level rose as often again"])
def test_after_the_files_were_put_back_gates_are_where_the_fleet_is(tmp_path, again):
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    config = in_memory(store=str(live / "f.db"), listen=f"127.0.0.1:{free_port()}", terms=LONG)
    changes = []
    with embedded(config) as hosting:
        member = MemberLoop(hosting.address, NEW, on_change=changes.append)
        member.start()
    shutil.copytree(live, copy)
    with embedded(config) as hosting, AdminClient(hosting.address, "ops") as admin:
        until(lambda: len(admin.members().members) == 1 and member.contact.status == "joined")
        admin.raise_level("delta", 4)
        until(lambda: member.snapshot().level("delta") == 4)
        life = member.incarnation
    shutil.rmtree(live)
    shutil.copytree(copy, live)
    with embedded(config) as hosting, AdminClient(hosting.address, "ops") as admin:
        if again:
            admin.raise_level("delta", 2)
        until(lambda: member.incarnation > life and member.snapshot().level("delta"), "it joins anew")
        fleet = admin.describe()
        assert fleet.generation == 1
        assert member.snapshot().level("delta") == fleet.ladder("delta").level == (2 if again else 1)
        (entry,) = (each for each in admin.audit() if each.action == "restore")
        assert entry.actor == "fleet"
        member.stop()


def test_no_member_says_how_it_proves_what_it_knows_to_whoever_looks():
    with running() as (hosting, admin), MemberLoop(hosting.address, NEW) as member:
        proof = member.state.heard["delta"].proof
        assert proof.count(".") == 2
        until(lambda: admin.members().members[0].views)
        assert proof not in repr(admin.members())
