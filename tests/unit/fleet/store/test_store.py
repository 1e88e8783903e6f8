"""What every store of a fleet promises, on SQLite; PostgreSQL is tried in tests/fleet with real processes."""

import json
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect, text

from halocline import __version__
from halocline.addresses import hide_secrets
from halocline.errors import ConflictError, InputError, MalformedError, UnavailableError, UnsupportedError
from halocline.fleet.answers import AuditQuery, plain
from halocline.fleet.audit_chain import Beginning, beginning_problem, broken
from halocline.fleet.core.clock import steady_ms
from halocline.fleet.core.effects import Audit
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladder_state import Downgrade, Hold, LadderState, Phase, Policy, View
from halocline.fleet.core.state import (
    Fleet,
    FleetTerms,
    LevelRange,
    Member,
    MemberKey,
    Provenance,
    RecordChange,
    Report,
    TableLevel,
    TableUse,
)
from halocline.fleet.store import (
    AuditArchive,
    Holder,
    RefusedCalls,
    Sighting,
    StaleEpochError,
    Write,
    audit_log,
    migrations,
    open_fleet_store,
    schema,
)
from halocline.fleet.store.codec import KINDS, assembled, decode, encode, taken_apart
from halocline.fleet.store.signing_keys import KEY_LIFE_MS
from halocline.fleet.store.sqlite import SqliteStore

REPORT = Report(
    "etl",
    7,
    "deltalake@1.6.6",
    "writer",
    {"delta": LevelRange(1, 4)},
    frozenset({"deletionVectors"}),
    frozenset({"handshake"}),
    False,
    frozenset({TableUse("lake/orders", "delta", "write")}),
)
RUNG = Rung(8, (LadderLevel("delta", 3),), True, frozenset({"f"}), ("hudi@1.0.0",), "new layout")
DOWNGRADE = Downgrade(6, Phase.CLOSED, 4, False, 99, "ann", "bad release")
RECORDS = [
    RecordChange("terms", (), FleetTerms(lease=10, margin=2, provides=frozenset({"a", "b"}))),
    RecordChange(
        "ladders",
        "hudi",
        Ladder("hudi", (Rung(6), Rung(8, (LadderLevel("delta", 3),), True, frozenset({"f"}), ("h@1",), "s"))),
    ),
    RecordChange("ladder_states", "hudi", LadderState(8, 6, 5, Policy.AUTO, downgrade=DOWNGRADE)),
    RecordChange(
        "members", MemberKey("etl", 7), Member(REPORT, Provenance.REPORTED, 5, admitted={"delta": View(3, 4)})
    ),
    RecordChange(
        "members", MemberKey("bi", 0), Member(Report("bi", 0, "?"), Provenance.DECLARED, 6, excused={"delta": 4})
    ),
    RecordChange("incarnations", "etl", 7),
    RecordChange("floor", (), 3),
    RecordChange("generation", (), 2),
    RecordChange("holds", ("hudi", "close"), Hold("hudi", "close", 8, None, "year end", "ann")),
    RecordChange("tables", ("lake/orders", "delta"), TableLevel("lake/orders", "delta", 3, 8)),
    RecordChange("tables", ('"' * 1000, "delta"), TableLevel('"' * 1000, "delta", 3, 8)),
]


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    opened = open_fleet_store(":memory:" if request.param == "memory" else str(tmp_path / "fleet.db"))
    yield opened
    opened.close()


def take_over(store, name="one", *changes, audits=()):
    """Takes over as `name` and writes; returns the fleet that was found, or who holds the lease."""
    return store.take_over(name, "host:1", lambda fleet, belief: (fleet, fleet.epoch + 1, Write(changes, audits)))


def test_whoever_takes_over_learns_how_long_the_former_one_may_still_believe_that_it_leads(store):
    beliefs = []

    def begun(fleet, belief):
        beliefs.append(belief)
        return fleet, fleet.epoch + 1, Write()

    store.take_over("one", "host:1", begun)
    store.take_over("one", "host:1", begun)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE coordinator SET until_ms = 1"))
    store.take_over("two", "host:1", begun)
    store.resign(3)
    store.take_over("three", "host:1", begun)
    assert beliefs == [0, 0, store.lease_ms, 0], "none if it gave its lease back, or was ourselves"


def test_every_kind_of_record_comes_back_as_it_was(store):
    take_over(store, "one", *RECORDS)
    found = take_over(store, "one")
    assert sorted(map(repr, taken_apart(found))) == sorted(map(repr, RECORDS))
    assert found.epoch == 1


def test_every_field_of_a_fleet_has_a_kind():
    assert set(KINDS) | {"epoch"} == set(Fleet.__dataclass_fields__)


def test_a_record_that_is_written_again_replaces_the_former_and_none_deletes_it(store):
    take_over(store, "one", *RECORDS)
    store.write(1, Write([RecordChange("incarnations", "etl", 8), RecordChange("holds", ("hudi", "close"), None)]))
    found = take_over(store)
    assert found.incarnations == {"etl": 8}
    assert found.holds == {}


def test_a_stale_epoch_writes_nothing_at_all(store):
    take_over(store)
    take_over(store)
    write = Write([RecordChange("incarnations", "etl", 1)], [Audit(1, "a", "join", "etl")], [sighting("etl")])
    with pytest.raises(StaleEpochError) as caught:
        store.write(1, write)
    assert caught.value.condition == "STALE_EPOCH"
    assert "epoch 2" in caught.value.sides["store"]
    for attempt in (lambda: store.renew(1), lambda: store.replace(1, [], Write()), lambda: store.prune(1)):
        with pytest.raises(StaleEpochError):
            attempt()
    assert take_over(store).incarnations == {}
    assert store.audit(AuditQuery()) == []
    assert store.seen() == []


def test_a_failure_in_the_middle_of_a_transaction_writes_nothing(store):
    take_over(store)
    with pytest.raises(TypeError):
        store.write(
            1, Write([RecordChange("incarnations", "etl", 1), RecordChange("holds", ("hudi", "bad"), object())])
        )
    assert take_over(store).incarnations == {}


def test_whoever_holds_the_lease_keeps_others_out_until_it_resigns(store):
    take_over(store, "one")
    held = take_over(store, "two")
    assert isinstance(held, Holder)
    assert (held.name, held.address, held.epoch) == ("one", "host:1", 1)
    assert held.left_ms > 0
    store.resign(1)
    assert store.holder().left_ms == 0
    assert not store.holds_lease(1)
    assert take_over(store, "two").epoch == 1
    assert store.holder().name == "two"
    assert store.holds_lease(2)


def test_resigning_under_a_stale_epoch_takes_nothing_from_the_successor(store):
    take_over(store, "one")
    store.resign(1)
    take_over(store, "two")
    store.resign(1)
    assert isinstance(take_over(store, "three"), Holder)


def test_the_audit_log_answers_by_actor_action_subject_and_time(store):
    take_over(store)
    entries = [
        Audit(10, "ann", "raise", "hudi=8", "6 to 8"),
        Audit(20, "bob", "hold", "hudi=8", "close"),
        Audit(30, "ann", "raise", "delta=4", "", refused="LEVEL_BLOCKED"),
    ]
    store.write(1, Write(audits=entries))
    asked = {
        "all": AuditQuery(),
        "ann": AuditQuery(actor="ann"),
        "hold": AuditQuery(action="hold"),
        "hudi": AuditQuery(subject="hudi=8"),
        "refused": AuditQuery(refused_only=True),
        "since": AuditQuery(since_ms=20),
        "one": AuditQuery(limit=1),
        "older": AuditQuery(before=3),
    }
    found = {name: [entry.at_ms for entry in store.audit(query)] for name, query in asked.items()}
    assert found == {
        "all": [30, 20, 10],
        "ann": [30, 10],
        "hold": [20],
        "hudi": [20, 10],
        "refused": [30],
        "since": [30, 20],
        "one": [30],
        "older": [20, 10],
    }
    newest, written = store.audit(AuditQuery())[0], entries[2]
    assert (newest.actor, newest.action, newest.subject) == (written.actor, written.action, written.subject)
    assert (newest.detail, newest.refused, newest.epoch) == (written.detail, written.refused, 1)


def sighting(identity, at=5, outcome="joined", release="deltalake@1.6.6"):
    return Sighting(identity, "halocline@0.1.0", release, "reader", outcome, ("handshake",), at)


def test_handshakes_are_remembered_once_per_kind_with_first_last_and_count(store):
    take_over(store)
    store.write(1, Write(sightings=[sighting("etl", 5), sighting("etl", 6), sighting("bi", 7, "DENIED")]))
    store.write(1, Write(sightings=[sighting("etl", 9)]))
    found = {each.identity: (each.first_ms, each.last_ms, each.times) for each in store.seen()}
    assert found == {"etl": (5, 9, 3), "bi": (7, 7, 1)}
    assert [each.identity for each in store.seen()] == ["etl", "bi"]
    assert store.seen()[0].requires == ("handshake",)


def test_what_grows_is_pruned_and_the_newest_is_kept(store, monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 10)
    monkeypatch.setattr("halocline.fleet.store.sightings.MOST_SIGHTINGS", 3)
    monkeypatch.setattr("halocline.fleet.store.refusals.MOST_REFUSALS", 2)
    take_over(store)
    audits = [Audit(n, "a", "join", str(n)) for n in range(25)]
    store.write(1, Write((), audits, [sighting(f"m{n}", n) for n in range(9)], [refused(f"s{n}", n) for n in range(9)]))
    store.prune(1)
    assert store.prune_audit(1, 30) == 17
    pruned, *others = store.audit(AuditQuery())
    assert (pruned.at_ms, pruned.actor, pruned.action) == (30, "fleet", "prune")
    assert [entry.at_ms for entry in others] == list(range(24, 16, -1))
    assert [each.identity for each in store.seen()] == ["m8", "m7", "m6"]
    assert [each.actor for each in store.audit(AuditQuery(refused_only=True))] == ["s8", "s7"]


def refused(actor, at, action="handshake", condition="TOKEN_INVALID"):
    return RefusedCalls.of(Audit(at, actor, action, "", f"{actor} at {at}", refused=condition))


def test_refusals_are_counted_apart_from_decisions_and_the_last_is_the_sample(store):
    take_over(store, audits=[Audit(1, "ann", "raise", "delta=2")])
    joins = [Audit(at, "etl", "join", "delta=2", f"too old at {at}", refused="INCOMPATIBLE_VERSION") for at in (3, 4)]
    store.write(1, Write((), joins, (), [refused("bob", 2), refused("bob", 5)]))
    store.write(1, Write((), joins[:1], (), [refused("bob", 9), refused("bob", 9, condition="DENIED")]))
    assert [each.action for each in store.audit(AuditQuery())] == ["raise"]
    found = {
        (each.actor, each.refused): (each.at_ms, each.detail) for each in store.audit(AuditQuery(refused_only=True))
    }
    assert found == {
        ("bob", "TOKEN_INVALID"): (9, "bob at 9 (3 times)"),
        ("bob", "DENIED"): (9, "bob at 9"),
        ("etl", "INCOMPATIBLE_VERSION"): (3, "too old at 3 (3 times)"),
    }
    assert [each.actor for each in store.audit(AuditQuery(refused_only=True, actor="etl"))] == ["etl"]
    exported = [(each["actor"], each["first_ms"], each["times"]) for each in store.export()["refusals"]]
    assert sorted(exported) == [("bob", 2, 3), ("bob", 9, 1), ("etl", 3, 3)]


def test_taking_over_reads_the_newest_incarnations_and_those_of_members(store, monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.records.MOST_LIVES", 3)
    here = Member(Report("job-1", 1, "hudi@1.0.2"), Provenance.REPORTED, 1)
    lives = [RecordChange("incarnations", f"job-{n}", n) for n in range(9)]
    take_over(store, "one", RecordChange("members", MemberKey("job-1", 1), here), *lives)
    found = take_over(store, "one")
    assert found.incarnations == {"job-8": 8, "job-7": 7, "job-6": 6, "job-1": 1}
    assert found.floor == 5, "what was not read is no higher"
    store.prune(2, found.floor, {"job-1"})
    assert take_over(store, "one") == replace(found, epoch=2), "the floor stays when what lies below was pruned"
    everything = {each["key"] for each in store.export()["records"] if each["kind"] == "incarnations"}
    assert everything == {"job-8", "job-7", "job-6", "job-1"}


def test_pruning_takes_little_at_a_time_and_gets_there(store, monkeypatch):
    for name, most in (("audit_log.MOST_ENTRIES", 10), ("sightings.MOST_SIGHTINGS", 3), ("sql._MOST_PRUNED", 4)):
        monkeypatch.setattr(f"halocline.fleet.store.{name}", most)
    take_over(store)
    audits = [Audit(n, "a", "join", str(n)) for n in range(25)]
    store.write(1, Write((), audits, [sighting(f"m{n}", n) for n in range(9)]))
    left = []
    for _ in range(7):
        store.prune(1)
        store.prune_audit(1, 30)
        left.append((len(store.audit(AuditQuery())), len(store.seen())))
    # Each time one is added that says how many went.
    assert left == [(22, 5), (19, 3), (16, 3), (13, 3), (10, 3), (10, 3), (10, 3)]


def test_signing_keys_are_made_once_and_kept(store):
    first = store.signing_keys(1)
    assert store.signing_keys(2) == first
    second = store.signing_keys(1 + KEY_LIFE_MS)
    assert list(second)[1:] == list(first), "a new key signs, and the old one is still accepted"
    third = store.signing_keys(1 + 2 * KEY_LIFE_MS)
    assert list(third)[1:] == list(second)[:1], "until it is two days old"
    assert all(len(secret) == 32 for secret in first.values())


def test_an_export_holds_everything_but_keys_and_can_be_put_back(store, tmp_path):
    take_over(store, "one", *RECORDS, audits=[Audit(1, "a", "join", "etl")])
    store.write(1, Write(sightings=[sighting("etl")]))
    secret = next(iter(store.signing_keys(1).values()))
    document = {name: each if isinstance(each, int | str) else list(each) for name, each in store.export().items()}
    assert secret.hex() not in repr(document)
    assert repr(secret) not in repr(document)
    assert (document["format"], document["halocline"], document["epoch"]) == (1, __version__, 1)
    assert [each["subject"] for each in document["audit"]] == ["etl"]
    assert [each["identity"] for each in document["sightings"]] == ["etl"]
    other = open_fleet_store(str(tmp_path / "other.db"))
    take_over(other, "one", RecordChange("incarnations", "gone", 1))
    other.replace(1, RECORDS, Write())
    found = take_over(other)
    other.close()
    assert sorted(map(repr, taken_apart(found))) == sorted(map(repr, RECORDS))


def test_an_export_reads_what_grows_page_by_page_as_it_is_sent(store, monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.sql._PAGE", 2)
    take_over(store, audits=[Audit(1, "a", "join", f"job-{n}") for n in range(5)])
    store.write(1, Write(sightings=[sighting(f"m{n}", n + 1) for n in range(5)]))
    document = store.export()
    first = next(document["audit"])["subject"]
    store.write(1, Write(audits=[Audit(2, "a", "join", "later")]))
    assert [first, *(each["subject"] for each in document["audit"])] == [*(f"job-{n}" for n in range(5)), "later"]
    assert [each["identity"] for each in document["sightings"]] == [f"m{n}" for n in reversed(range(5))]


def test_a_lease_begins_when_the_fleet_has_been_read_however_long_that_took(store, monkeypatch):
    now = [10**12]
    monkeypatch.setattr(type(store), "_now", lambda *_: now[0])

    def slowly(fleet, _):
        now[0] += 10 * store.lease_ms
        return fleet, 1, Write()

    store.take_over("one", "", slowly)
    assert store.holder().left_ms == store.lease_ms
    assert isinstance(store.take_over("two", "", slowly), Holder)


def test_long_keys_are_kept_whole_although_the_index_holds_a_digest():
    column, body = encode(("x" * 5000, "delta"), TableLevel("x" * 5000, "delta", 1, 1))
    assert len(column) < 100
    assert decode("tables", body).key == ("x" * 5000, "delta")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("members", "{}"),
        ("members", '{"key":["etl",1],"value":{"report":{}}}'),
        ("ladder_states", '{"key":"x","value":7}'),
        ("holds", "not json"),
        ("nonsense", '{"key":"x","value":1}'),
        ("members", '{"key":["../x",1],"value":{"report":{"identity":"../x","incarnation":1,"release":""}}}'),
    ],
)
def test_a_damaged_record_is_malformed_and_says_which(kind, body):
    with pytest.raises(MalformedError) as caught:
        assembled(1, [(kind, body)])
    assert kind in str(caught.value)


def test_threads_may_use_a_store_at_the_same_time(store):
    take_over(store)

    def work(number):
        store.write(1, Write([RecordChange("incarnations", f"m{number}", 1)], [Audit(1, "a", "join", "x")]))
        return len(store.audit(AuditQuery(limit=1)))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(24))) == [1] * 24
    assert len(take_over(store).incarnations) == 24


# The chain of the audit log.


def audited(store, count=5):
    take_over(store, "one", audits=[Audit(n, "ann", "raise", f"hudi={n}", "why") for n in range(2)])
    for n in range(2, count):
        store.write(1, Write(audits=[Audit(n, "ann", "raise", f"hudi={n}", "why")]))
    return store.audit(AuditQuery())[::-1]


def test_every_entry_of_the_audit_log_follows_from_the_one_before(store):
    entries = audited(store)
    assert len({each.hash for each in entries}) == 5
    assert broken(entries) is None
    assert broken(entries[2:]) is None, "the oldest are forgotten after a while"


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit SET actor = 'bob' WHERE number = 3",
        "UPDATE audit SET detail = detail || '!' WHERE number = 5",
        "UPDATE audit SET hash = '' WHERE number = 3",
        "DELETE FROM audit WHERE number = 3",
        "INSERT INTO audit SELECT 99, at_ms, epoch, actor, action, subject, detail, refused, hash FROM audit "
        "WHERE number = 2",
    ],
)
def test_a_log_that_was_tampered_with_is_found_out(store, tampering):
    audited(store)
    with store.engine.begin() as connection:
        connection.execute(text(tampering))
    assert broken(store.audit(AuditQuery())[::-1]) is not None


def test_a_log_begins_with_its_first_entry_and_any_other_is_found_out(store):
    entries = audited(store)
    assert beginning_problem(entries) == ""
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM audit WHERE number < 3"))
    assert broken(store.audit(AuditQuery())[::-1]) is None
    assert "entry 3, the oldest" in beginning_problem(store.audit(AuditQuery())[::-1])


@pytest.mark.parametrize("by_age", [False, True])
def test_a_log_says_what_was_forgotten_and_what_was_taken_out_besides_is_found_out(store, monkeypatch, by_age):
    monkeypatch.setattr("halocline.fleet.store.audit_log." + ("KEPT_MS" if by_age else "MOST_ENTRIES"), 4)
    monkeypatch.setattr("halocline.fleet.store.audit_log._DAY_MS", 0)
    audited(store, 12)
    assert store.prune_audit(1, 11) == (7 if by_age else 10)
    for at in (12, 13, 14):
        store.write(1, Write(audits=[Audit(at, "ann", "raise", f"hudi={at}")]))
    assert store.prune_audit(1, 14) > 0
    entries = store.audit(AuditQuery())[::-1]
    begins = Beginning.of_log(entries)
    assert begins.forgotten == entries[0].number - 1
    assert begins.by_age == (begins.forgotten if by_age else 0)
    assert (beginning_problem(entries), broken(entries)) == ("", None)
    assert beginning_problem(entries[1:])
    with store.engine.begin() as connection:
        connection.execute(text(f"UPDATE audit SET detail = replace(detail, '{begins.hash}', '{entries[0].hash}')"))
        connection.execute(text(f"DELETE FROM audit WHERE number = {entries[0].number}"))
    forged = store.audit(AuditQuery())[::-1]
    assert beginning_problem(forged) == ""
    assert broken(forged) is not None, "the entry that says so is a link of the chain itself"


def test_entries_are_in_the_archive_before_they_are_forgotten(store, monkeypatch, tmp_path):
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 4)
    archive = AuditArchive(tmp_path / "folder" / "audit.jsonl")
    entries = audited(store, 12)
    monkeypatch.setattr("halocline.fleet.store.audit_log.forget", crashing)
    with pytest.raises(RuntimeError):
        store.prune_audit(1, 12, archive)
    monkeypatch.undo()
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 4)
    with archive.path.open("ab") as file:
        file.write(b'{"number": 11, "atM')  # torn
    count = store.prune_audit(1, 12, archive)
    lines = [line for line in archive.path.read_text().splitlines() if line.endswith("}")]
    kept = store.audit(AuditQuery())[::-1]
    assert [json.loads(line) for line in lines] == [plain(entry) for entry in entries[:count]]
    assert [*entries[:count], *kept[:-1]] == entries


def crashing(*_):
    raise RuntimeError("killed")


def test_nothing_is_forgotten_that_cannot_be_archived(store, monkeypatch, tmp_path):
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 4)
    entries = audited(store, 12)
    with pytest.raises(UnavailableError, match="cannot be written"):
        store.prune_audit(1, 12, AuditArchive(tmp_path))
    assert store.audit(AuditQuery())[::-1] == entries


@pytest.mark.parametrize("hashes", [True, False])
def test_a_log_that_an_older_release_pruned_is_anchored_when_the_store_is_opened(tmp_path, hashes):
    path = tmp_path / "fleet.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrations.migrate(connection, migrations.MIGRATIONS[:4])
        audit_log.append(connection, 1, [Audit(n, "ann", "raise", f"hudi={n}") for n in range(9)])
        connection.execute(text("DELETE FROM audit WHERE number < 4"))
        if not hashes:
            connection.execute(text("UPDATE audit SET hash = '' WHERE number < 6"))
    engine.dispose()
    store = SqliteStore(str(path))
    entries = store.audit(AuditQuery())[::-1]
    assert Beginning.of_log(entries) == Beginning(3, 0, 3)
    assert (beginning_problem(entries), broken(entries)) == ("", None)
    assert beginning_problem(entries[1:])
    store.close()


def test_entries_from_before_there_were_hashes_are_left_alone(store):
    audited(store)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE audit SET hash = '' WHERE number < 3"))
    assert broken(store.audit(AuditQuery())[::-1]) is None


# Migrations.


def test_migrations_are_numbered_without_gaps_and_never_ask_for_more_than_themselves():
    assert [each.number for each in migrations.MIGRATIONS] == list(range(1, migrations.LATEST + 1))
    assert all(each.minimum <= each.number for each in migrations.MIGRATIONS)


def test_migrations_make_the_tables_that_the_schema_describes():
    store = SqliteStore(":memory:")
    found = inspect(store.engine)
    expected = create_engine("sqlite://")
    schema.metadata.create_all(expected)
    wanted = inspect(expected)
    assert set(found.get_table_names()) == set(wanted.get_table_names())
    for table in wanted.get_table_names():
        columns = [
            {column["name"]: (str(column["type"]), column["nullable"]) for column in each.get_columns(table)}
            for each in (found, wanted)
        ]
        assert columns[0] == columns[1], table
        keys = [each.get_pk_constraint(table)["constrained_columns"] for each in (found, wanted)]
        assert keys[0] == keys[1], table
    store.close()
    expected.dispose()


def test_a_store_is_migrated_once_and_says_by_whom(tmp_path):
    path = str(tmp_path / "fleet.db")
    SqliteStore(path).close()
    store = SqliteStore(path)
    with store.engine.connect() as connection:
        row = connection.execute(text("SELECT version, minimum, written_by FROM store_version")).one()
    store.close()
    least = max(each.minimum for each in migrations.MIGRATIONS)
    assert tuple(row) == (migrations.LATEST, least, __version__)


def alter(path, sql):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(sql)
    connection.close()


def test_a_store_that_needs_a_newer_release_is_refused_with_the_fix(tmp_path):
    path = str(tmp_path / "fleet.db")
    SqliteStore(path).close()
    alter(path, "UPDATE store_version SET version = 99, minimum = 98, written_by = '7.0.0'")
    with pytest.raises(UnsupportedError) as caught:
        SqliteStore(path)
    assert caught.value.condition == "STORE_TOO_NEW"
    assert "Upgrade to halocline 7.0.0" in caught.value.next_step
    assert f"knows migration {migrations.LATEST}" in caught.value.sides["this release"]
    SqliteStore(str(tmp_path / "other.db")).close()
    alter(path, f"UPDATE store_version SET version = {migrations.LATEST}, minimum = 1")
    SqliteStore(path).close()


def test_a_store_that_a_newer_release_only_added_to_can_still_be_used(tmp_path):
    path = str(tmp_path / "fleet.db")
    SqliteStore(path).close()
    alter(path, f"UPDATE store_version SET version = 99, minimum = {migrations.LATEST}")
    store = SqliteStore(path)
    assert take_over(store).epoch == 0
    store.close()


def test_a_coordinator_stops_as_soon_as_a_newer_release_has_changed_its_store(tmp_path):
    path = str(tmp_path / "fleet.db")
    store = SqliteStore(path)
    take_over(store, "one")
    alter(path, "UPDATE store_version SET version = 99, minimum = 99, written_by = '9.9.9'")
    write = Write([RecordChange("incarnations", "etl", 7)])
    for attempt in (lambda: store.write(1, write), lambda: store.renew(1), lambda: take_over(store, "one")):
        with pytest.raises(UnsupportedError) as caught:
            attempt()
        assert caught.value.condition == "STORE_TOO_NEW"
    assert store.holder().epoch == 1
    store.close()


def test_an_older_store_is_brought_up_to_date_with_its_records(tmp_path):
    path = str(tmp_path / "fleet.db")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrations.migrate(connection, migrations.MIGRATIONS[:1])
        connection.execute(
            text("INSERT INTO records VALUES ('incarnations', '\"etl\"', 1, :body)"),
            {"body": encode("etl", 7)[1]},
        )
    engine.dispose()
    store = SqliteStore(path)
    assert take_over(store).incarnations == {"etl": 7}
    assert store.audit(AuditQuery()) == []
    store.close()


# The file.


def test_a_second_coordinator_on_the_same_file_is_refused(tmp_path):
    path = str(tmp_path / "fleet.db")
    first = SqliteStore(path)
    with pytest.raises(ConflictError) as caught:
        SqliteStore(path)
    assert caught.value.condition == "STORE_IN_USE"
    first.close()
    SqliteStore(path).close()


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symlink", "hard link"])
def test_a_second_coordinator_is_refused_by_whatever_name_it_reaches_the_file(tmp_path, link):
    path, other = tmp_path / "fleet.db", tmp_path / "other.db"
    first = SqliteStore(str(path))
    link(path, other)
    for left in tmp_path.glob("*.lock"):
        left.unlink()
    for name in (path, other):
        with pytest.raises(ConflictError) as caught:
            SqliteStore(str(name))
        assert caught.value.condition == "STORE_IN_USE"
    take_over(first, "one", RecordChange("incarnations", "etl", 7))
    first.close()
    SqliteStore(str(other)).close()


def test_a_coordinator_whose_file_was_replaced_does_not_prolong_its_lease(tmp_path):
    path = tmp_path / "fleet.db"
    first = SqliteStore(str(path))
    take_over(first, "one")
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(StaleEpochError, match="taken the place"):
        first.renew(1)
    second = SqliteStore(str(path))
    with pytest.raises(StaleEpochError, match="taken the place"):
        first.renew(1)
    first.close()
    second.close()


def test_a_coordinator_reads_the_epoch_again_and_stops_relying_on_a_lease_that_is_over(tmp_path, monkeypatch):
    store = SqliteStore(str(tmp_path / "fleet.db"))
    take_over(store, "one")
    store.renew(1)
    assert store.holds_lease(1)
    later = steady_ms() + store.lease_ms
    with monkeypatch.context() as patched:
        patched.setattr("halocline.fleet.store.sql.steady_ms", lambda: later)
        assert not store.holds_lease(1)
    alter(store._path, "UPDATE coordinator SET epoch = 2")
    with pytest.raises(StaleEpochError):
        store.renew(1)
    store.close()


def test_a_coordinator_that_was_killed_keeps_nobody_out(tmp_path):
    path = str(tmp_path / "fleet.db")
    first = SqliteStore(path)
    take_over(first, "one", RecordChange("incarnations", "etl", 7))
    first._stack.close()
    first.engine.dispose()
    second = SqliteStore(path)
    assert take_over(second, "two").incarnations == {"etl": 7}
    second.close()


def test_the_file_is_synced_at_every_commit_and_only_for_its_owner(tmp_path):
    path = tmp_path / "fleet.db"
    store = SqliteStore(str(path))
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.close()


def test_a_file_that_is_no_database_is_unavailable_and_left_alone(tmp_path):
    path = tmp_path / "fleet.db"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(UnavailableError, match="failed"):
        SqliteStore(str(path))
    assert path.read_bytes().startswith(b"not a database")


@pytest.mark.parametrize("where", ["mysql://host/db", "s3://bucket/x", "/no/such/folder/fleet.db"])
def test_what_cannot_be_a_store_is_refused(where):
    with pytest.raises(InputError):
        open_fleet_store(where)


def test_passwords_do_not_appear_in_descriptions():
    with pytest.raises(UnavailableError) as caught:
        open_fleet_store("postgresql://ann:s3cret@127.0.0.1:1/fleet")
    assert "s3cret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_file_may_have_the_signs_of_a_url_in_its_name(tmp_path):
    path = tmp_path / "fleet of 50%41?mode=ro#1.db"
    open_fleet_store(str(path)).close()
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".db"] == [path.name]


@pytest.mark.parametrize(
    "reason",
    [
        's3://a:"b',
        's3://h/t?a="x=1',
        "password='\", it's",
        "s3%3A%2F%2FK%3AS%40la%22ke",
        "s3://K%40la%22ke/x",
        's3://a:\\"b@c',
        "s3://x@\\",
        "s3://u:\\",
    ],
)
def test_no_reason_of_anybody_makes_a_store_unreadable(reason):
    hold = Hold("delta", "h", 1, None, f"see {reason}", "ops")
    change = decode("holds", encode(("delta", "h"), hold)[1])
    assert change.key == ("delta", "h")
    assert change.value == replace(hold, reason=hide_secrets(hold.reason, mark=""))
    assert decode("holds", encode(change.key, change.value)[1]) == change


PIECES = ["s3://", "://", "a", ":", '"', "@", "\\", "?", "=", "%22", "%40", "%3A", "'", "password", " ", "/", "{", "9"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_every_text_comes_back_from_a_store_without_its_secrets(reason):
    hold = Hold("delta", "h", 1, None, reason, "ops")
    assert decode("holds", encode(("delta", "h"), hold)[1]).value.reason in (reason, hide_secrets(reason, mark=""))
