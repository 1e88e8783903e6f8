"""Secrets that callers and operators put into URLs are in nothing that a coordinator shows, stores or logs."""

import json
import logging
import urllib.request
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text
from tests.support.fleets import declared, in_memory, users_of

from halocline.cli.main import run
from halocline.cli.serve import _WithoutSecrets
from halocline.compat.protocol import Protocol
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import HaloclineError
from halocline.fleet.answers import AuditQuery, plain
from halocline.fleet.core.events import MoveTable
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.state import TableLevel, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.server.hosting import Config, embedded
from halocline.fleet.server.lineage import PATH
from halocline.fleet.store import codec, migrations, open_fleet_store
from halocline.fleet.store.postgresql import PostgresqlStore
from halocline.fleet.wire import calls
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

SECRET = "HUNTER2"
SPELLINGS = (
    "s3://AKIA:HUNTER2@lake/orders",
    "s3://lake/orders?X-Amz-Signature=HUNTER2&X-Amz-Expires=60",
    "s3://HUNTER2@lake/orders",
    "s3://lake/orders%3Fsv=2024&sig=HUNTER2",
)
WHERE = "see https://ann:HUNTER2@wiki/decisions?token=HUNTER2"


AS_IT_IS = replace(calls.OBSERVE, request=replace(calls.OBSERVE.request, encode=pb.ObserveRequest.SerializeToString))


def lineage_event(namespace):
    facets = {"processing_engine": {"name": "spark", "version": "3.5.1"}}
    layer = {"storage": {"storageLayer": "delta"}}
    return {
        "eventTime": "2026-11-15T06:00:00Z",
        "run": {"runId": "1", "facets": facets},
        "job": {"namespace": namespace, "name": f"load of {namespace}/orders"},
        "inputs": [{"namespace": namespace, "name": "orders?sig=HUNTER2", "facets": layer}],
    }


def plant(hosting, admin):
    """Puts a secret into every text that a coordinator takes, and returns the errors."""
    errors = []

    def attempt(action):
        try:
            action()
        except HaloclineError as error:
            errors.append(f"{error} {error!r} {error.to_dict()}")

    for number, table in enumerate(SPELLINGS):
        # As an older client sends it, whose values keep whatever they are given.
        use = pb.TableUse(table=table, ladder="delta", operation="read")
        sent = pb.ObserveRequest(identity=f"bi-{number}", release="trino@426", provenance="declared", tables=[use])
        attempt(lambda sent=sent: admin._made(lambda: admin._link.call(AS_IT_IS, sent)))
        attempt(lambda table=table: admin.table_users(table))
        attempt(
            lambda table=table: admin._made(
                lambda: admin._link.call(calls.MOVE_TABLE, MoveTable(table, "delta", 99, "operator"))
            )
        )
        attempt(lambda table=table: admin.observe(declared("x" * 200, "trino@426", table * 40)))
        attempt(lambda table=table: admin.who_breaks(remove=table))
        attempt(lambda table=table: admin.audit(AuditQuery(subject=table)))
        attempt(lambda table=table: admin.remove_member(table, WHERE))
        attempt(lambda table=table: admin.raise_level(table, 2, reason=WHERE))
    change = ProtocolChange(SPELLINGS[0], None, Terms(Protocol("delta", 3, 7)))
    attempt(lambda: admin.who_breaks(change=change))
    attempt(
        lambda: admin._made(lambda: admin._link.call(calls.MOVE_TABLE, MoveTable(SPELLINGS[1], "delta", 1, "operator")))
    )
    attempt(lambda: admin.hold("delta", WHERE))
    attempt(lambda: admin.raise_level("delta", 2, reason=WHERE))
    attempt(lambda: admin.start_downgrade("delta", 1, WHERE))
    attempt(lambda: admin.declare_ladder(Ladder("ours", (Rung(1, summary=WHERE),))))
    attempt(lambda: admin.restore(json.dumps({"format": 1, "records": [WHERE]}).encode(), WHERE))
    body = json.dumps(lineage_event("s3://AKIA:HUNTER2@lake")).encode()
    asked = urllib.request.Request(f"{hosting.http_address}{PATH}", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(asked).read()
    return errors


def outputs(hosting, admin):
    """Everything that a coordinator shows, by name."""
    shown = {
        "audit": admin.whole_audit(),
        "members": plain(admin.members(also_past=True)),
        "export": admin.export().decode(),
        "status": plain(admin.describe()),
        "users": plain(admin.table_users(SPELLINGS[2])),
        "affected": plain(admin.who_breaks(ladder="delta", level=4)),
    }
    for path in ("/metrics", "/health"):
        shown[path] = urllib.request.urlopen(f"{hosting.http_address}{path}").read().decode()
    return {name: str(value) for name, value in shown.items()}


def test_secrets_in_addresses_are_in_nothing_that_is_shown_stored_or_logged(tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG, "halocline")
    config = in_memory(store=str(tmp_path / "fleet.db"), http="127.0.0.1:0")
    with embedded(config) as hosting, AdminClient(hosting.address, "operator") as admin:
        errors = plant(hosting, admin)
        shown = outputs(hosting, admin)
        users = users_of(admin, "s3://lake/orders")
        levels = admin.table_users("s3://lake/orders").levels
        for command in (["fleet", "describe"], ["fleet", "members"], ["fleet", "audit"], ["fleet", "audit", "export"]):
            run([command[0], "--at", hosting.address, *command[1:]])
    shown["commands"] = capsys.readouterr().out
    shown["errors"], shown["logs"] = "\n".join(errors), caplog.text
    shown["store"] = b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode(errors="replace")
    assert len(errors) > len(SPELLINGS)
    assert "orders" in shown["store"]
    assert "orders" in shown["commands"]
    assert [name for name, text in shown.items() if SECRET in text] == []
    # They all speak of one table, whatever they signed its address with.
    assert {f"bi-{number}" for number in range(len(SPELLINGS))} <= users.keys()
    assert [(each.table, each.level) for each in levels] == [("s3://lake/orders", 1)]


def test_the_level_and_the_users_of_a_table_are_found_under_every_address_of_it():
    assert {TableUse(spelling, "delta") for spelling in SPELLINGS} == {TableUse("s3://lake/orders", "delta")}
    assert TableLevel(SPELLINGS[0], "delta", 2, 0).table == "s3://lake/orders"


STORES = (
    "postgresql://fleet:HUNTER2@127.0.0.1:1/fleet",
    "postgresql://fleet@127.0.0.1:1/fleet?password=HUNTER2",
    "postgresql://127.0.0.1:HUNTER2/fleet",
    "postgresql://127.0.0.1:1/fleet?passwrod=HUNTER2",
    "postgres://fleet:HUNTER2@127.0.0.1:1/fleet?sslpassword=HUNTER2",
    "host=127.0.0.1 port=1 user=fleet password=HUNTER2 dbname=fleet",
    "user=fleet password = 'HUNTER2 x' options=a://b",
    "postgresql:/fleet:HUNTER2@127.0.0.1:1/fleet",
    "postgresql:fleet:HUNTER2@127.0.0.1",
    " postgresql://fleet:HUNTER2@127.0.0.1:1/fleet",
)


@pytest.mark.parametrize("store", STORES)
def test_the_address_of_a_store_shows_no_secret_wherever_it_is_named(store, caplog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config(store=store, listen="127.0.0.1:0", http="")
    assert SECRET not in f"{config} {config!r} {config.store}"
    with pytest.raises(HaloclineError) as caught:
        open_fleet_store(config.store)
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.to_dict()} {caplog.text}"
    assert not list(tmp_path.iterdir()), "a file was made of what is the address of a database"


def test_a_store_in_postgresql_describes_itself_without_secrets(monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.sql.FleetStore.__init__", lambda *_: None)
    store = PostgresqlStore("postgresql://fleet:HUNTER2@db:5432/fleet?password=HUNTER2&sslmode=require")
    assert store.description == "postgresql://fleet@db:5432/fleet?sslmode=require"


def test_the_log_of_a_coordinator_shows_no_secret_of_a_traceback():
    try:
        raise RuntimeError(f"cannot reach {STORES[0]}")
    except RuntimeError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "%s", (STORES[1],), (RuntimeError, error, None))
    line = _WithoutSecrets("%(message)s").format(record)
    assert "127.0.0.1:1/fleet" in line
    assert SECRET not in line


def test_records_of_an_older_release_lose_their_secrets_when_the_store_is_opened(tmp_path):
    path = tmp_path / "fleet.db"
    engine = create_engine(f"sqlite:///{path}")
    rows = [(SPELLINGS[0], 3), (SPELLINGS[1], 2), ("s3://lake/items", 1)]
    with engine.begin() as connection:
        migrations.migrate(connection, migrations.MIGRATIONS[:3])
        for table, level in rows:
            row = {"table": table, "ladder": "delta", "level": level, "since_ms": 1}
            key = json.dumps([table, "delta"], separators=(",", ":"))
            body = f'{{"key":{key},"value":{json.dumps(row, separators=(",", ":"))}}}'
            connection.execute(
                text("INSERT INTO records VALUES ('tables', :key, 1, :body)"), {"key": key, "body": body}
            )
    engine.dispose()
    store = open_fleet_store(str(path))
    exported = "".join(map(str, store.export()["records"]))
    with store.engine.connect() as connection:
        bodies = [
            codec.decode("tables", each) for each in connection.execute(text("SELECT body FROM records")).scalars()
        ]
        stored = str(connection.execute(text("SELECT * FROM records")).all())
    store.close()
    assert {each.key: each.value.level for each in bodies} == {
        ("s3://lake/orders", "delta"): 3,
        ("s3://lake/items", "delta"): 1,
    }
    assert SECRET not in stored + exported
