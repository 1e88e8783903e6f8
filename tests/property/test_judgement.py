"""Whichever way one asks who breaks, the answer is the same.

Random tables, changes and clients. The ways: `halocline check`, `Table.can`, a change that a `Table` makes in front of
a fleet's gatekeeper, and the fleet's own who-breaks and who-blocks, with the terms having gone over the wire.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.columns import field, schema

from halocline.cli import main
from halocline.compat.breaks import breaks
from halocline.compat.features import feature
from halocline.compat.knowledge import Knowledge
from halocline.compat.protocol import Protocol
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import IncompatibleError, InputError
from halocline.fleet.answers import BlockQuery, BreakQuery
from halocline.fleet.core.events import DeclareLadder, Event, Observe, TakeOver
from halocline.fleet.core.ladder_state import View
from halocline.fleet.core.ladders import shipped, supported_by
from halocline.fleet.core.member_step import LevelSnapshot, MemberState
from halocline.fleet.core.state import Fleet, Provenance, Report, TableUse
from halocline.fleet.core.step import loaded, step
from halocline.fleet.member.gatekeeper import FleetGatekeeper
from halocline.fleet.server import questions
from halocline.fleet.usage.users import client_of
from halocline.fleet.wire.calls import TABLE_USERS, WHO_BREAKS
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.storage import open_store
from halocline.storage.location import Location
from halocline.table import Table, gatekeeper

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.enableTypeWidening": "true",
    "delta.feature.deletionVectors": "supported",
    "delta.feature.domainMetadata": "supported",
    "delta.feature.vacuumProtocolCheck": "supported",
    "delta.minReaderVersion": "2",
    "delta.minWriterVersion": "5",
}
CHANGES = ("appendOnly", "changeDataFeed", "columnMapping", "deletionVectors", "inCommitTimestamp", "typeWidening")
FEATURES = (*CHANGES, "columnMapping:id", "columnMapping:name", "deletionVectors:partitioned", "rowTracking")
RELEASES = [
    f"{product.name}@{bound}"
    for product in Knowledge.load().products.values()
    if "delta" in product.formats
    for bound in product.boundaries("delta", "write")
]

tables = st.tuples(
    st.sets(st.sampled_from(sorted(PROPERTIES)), max_size=5).map(lambda keys: {key: PROPERTIES[key] for key in keys}),
    st.booleans(),
)
releases = st.sampled_from([*RELEASES, "in-house@1.0", "nightly"])
users = st.dictionaries(
    st.sampled_from(["bi", "etl", "finance", "ops"]),
    st.tuples(releases, st.sets(st.sampled_from(["read", "write", "write.append", "read.arrow"]), min_size=1)),
    min_size=1,
)


class Members:
    """A fleet whose members use one table, asked without a network in between."""

    def __init__(self, table, named):
        self.table, self.identity = table, "self"
        self.contact = SimpleNamespace(error=None, status="joined", since=0)
        self.state = MemberState(Report("self", 1, "halocline@0.1.0"))
        self.fleet_state = loaded(Fleet())
        self.do(TakeOver())
        for each in shipped().values():
            self.do(DeclareLadder(each.ladder, "test"))
        for name, (release, operations) in named.items():
            uses = frozenset(TableUse(table, "delta", each) for each in operations)
            supported = supported_by(release)
            self.do(Observe(name, release, Provenance.DECLARED, "test", None, supported, uses, "writer"))

    def do(self, cause):
        self.fleet_state, _ = step(self.fleet_state, Event(0, cause))

    @property
    def clients(self):
        return [client_of(each, table=self.table) for each in self.fleet_state.fleet.members.values()]

    # What a gatekeeper asks of its member.

    def snapshot(self):
        return LevelSnapshot({"delta": View(1, 99)})

    def call(self, call, request):
        return questions.table_users(self.fleet_state, request, 0) if call is TABLE_USERS else None

    def use(self, table, ladder, operation):
        pass

    def begin(self, operation):
        return self.snapshot()

    def may_commit(self, operation):
        return True

    def end(self, operation):
        pass

    def stop(self):
        pass


def names(found) -> set[str]:
    return {each.client.name for each in found}


def by_gatekeeper(fleet, act) -> set[str]:
    """Those whom a refusal names; what is done otherwise goes through."""
    keeper = FleetGatekeeper(fleet, "grpc://nowhere")
    try:
        with gatekeeper.acting(keeper):
            act()
    except IncompatibleError as refused:
        if refused.condition != "WOULD_BREAK_USERS":
            raise
        return set(refused.sides)
    finally:
        keeper.close()
    return set()


def by_who_breaks(fleet, before, after) -> set[str]:
    sent = WHO_BREAKS.request.encode(BreakQuery(change=ProtocolChange(fleet.table, before, after)))
    answer = questions.who_breaks_by_change(fleet.fleet_state, WHO_BREAKS.request.decode(sent), 0)
    assert answer.checked == len(fleet.clients)
    return {each.who for each in answer.affected}


def by_command(url, named, feature_name) -> tuple[set[str], dict[str, tuple[str, str]]]:
    """Who breaks, and the answers before and after, by `halocline check`, asked once for each operation."""
    broken, answers = set(), {}
    for operation in sorted({each for _, operations in named.values() for each in operations}):
        asked = {name: release for name, (release, does) in named.items() if operation in does and "@" in release}
        if not asked:
            continue
        clients = [word for release in asked.values() for word in ("--client", release)]
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            command = ["check", url, *clients, "--operation", operation, "--enable", feature_name]
            code = main.run([*command, "--output", "json"])
        facts = json.loads(shown.getvalue())
        would_break = facts["wouldBreak"]["after"]
        cannot = [each["client"] for each in facts["clients"] if each["after"]["answer"] != "ok"]
        assert code == (2 if would_break or cannot else 0)
        broken |= {name for name, release in asked.items() if release in would_break}
        for each in facts["clients"]:
            answers[f"{each['client']} {operation}"] = (each["now"]["answer"], each["after"]["answer"])
    return broken, answers


def made(folder, properties, partitioned) -> str:
    store = open_store(folder)
    columns = schema("id", field("day", "date"))
    state = new_table(columns, ("day",) if partitioned else (), properties)
    Transaction.create(store).commit((), "CREATE TABLE", configuration=state)
    return store.root


@given(tables, st.sampled_from(CHANGES), users)
@SETTINGS
def test_all_ways_to_ask_who_breaks_by_a_feature_give_the_same_answer(table, change, named):
    with tempfile.TemporaryDirectory() as folder:
        url = made(folder, *table)
        opened = Table.for_path(url)
        before = opened.terms
        fleet = Members(Location.parse(url).url, named)
        told, answers = by_command(url, named, change)
        can = {question: str(opened.can(*question.split()).answer) for question in answers}
        assert can == {question: now for question, (now, _) in answers.items()}, "Table.can and check, now"

        refused = by_gatekeeper(
            fleet, lambda: Table.for_path(url).set_properties(feature("delta", change).enabling_properties)
        )
        if refused:
            assert opened.terms == before, "the table changed although somebody would break"
            opened.set_properties(feature("delta", change).enabling_properties)
        after = opened.terms
        expected = names(breaks(before, after, fleet.clients))
        assert refused == expected, "the gatekeeper"
        assert by_who_breaks(fleet, before, after) == expected, "who-breaks"
        assert told == {name for name in expected if "@" in named[name][0]}, "check"
        can = {question: str(opened.can(*question.split()).answer) for question in answers}
        assert can == {question: then for question, (_, then) in answers.items()}, "Table.can and check, after"


@given(tables, st.sampled_from(["name", "id"]), users)
@SETTINGS
def test_all_ways_to_ask_about_a_new_table_give_the_same_answer(table, mode, named):
    properties, partitioned = table
    with tempfile.TemporaryDirectory() as folder:
        fleet = Members(Location.parse(folder).url, named)
        wanted = {**properties, "delta.columnMapping.mode": mode}
        columns = [field("id", "long"), field("day", "date")]

        def create():
            Table.create(folder, columns, partition_by="day" if partitioned else (), properties=wanted)

        refused = by_gatekeeper(fleet, create)
        if refused:
            create()
        after = Table.for_path(folder).terms
        assert f"columnMapping:{mode}" in after.in_use
        expected = names(breaks(None, after, fleet.clients))
        assert refused == expected, "the gatekeeper"
        assert by_who_breaks(fleet, None, after) == expected, "who-breaks"


@given(st.sampled_from(FEATURES), users)
@SETTINGS
def test_who_blocks_a_feature_is_who_breaks_by_a_table_that_uses_it(asked, named):
    fleet = Members("file:///lake/orders", named)
    after = Terms.using("delta", [asked])
    blocking = {each.who for each in questions.who_blocks(fleet.fleet_state, BlockQuery(feature=asked), 0).affected}
    assert blocking == by_who_breaks(fleet, None, after) == names(breaks(None, after, fleet.clients))


@pytest.mark.parametrize(
    ("properties", "partitioned", "change", "release", "answer"),
    [
        ({}, True, "deletionVectors", "trino@430", "wrong"),
        ({"delta.feature.deletionVectors": "supported"}, True, "deletionVectors", "trino@430", "wrong"),
        ({}, False, "deletionVectors", "trino@470", "ok"),
        ({}, False, "columnMapping", "delta-spark@2.0.0", "ok"),
        ({}, False, "columnMapping", "delta-spark@1.1.0", "wrong"),
        ({}, False, "columnMapping", "delta-spark@99.0.0", "unknown"),
    ],
)
def test_answers_that_once_differed_are_the_same(tmp_path, properties, partitioned, change, release, answer):
    url = made(tmp_path / "t", properties, partitioned)
    named = {"bi": (release, {"read"})}
    fleet = Members(Location.parse(url).url, named)
    told, answers = by_command(url, named, change)
    refused = by_gatekeeper(
        fleet, lambda: Table.for_path(url).set_properties(feature("delta", change).enabling_properties)
    )
    assert answers[f"{release} read"][1] == answer
    assert (told, refused) == ((set(), set()) if answer == "ok" else ({"bi"}, {"bi"}))


def test_release_that_knows_no_ids_is_refused_a_table_that_is_mapped_by_id(tmp_path):
    versions = {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    url = made(tmp_path / "t", {**versions, "delta.columnMapping.mode": "id"}, False)
    assert str(Table.for_path(url).protocol) == str(Protocol.delta(2, 5))
    assert Table.for_path(url).can("delta-spark@2.0.0").refused
    assert Table.for_path(url).can("delta-spark@2.2.0").ok
    with pytest.raises(IncompatibleError):
        Table.for_path(url, release="delta-spark@2.0.0")
    with pytest.raises(InputError):
        Table.for_path(url).set_properties({"delta.columnMapping.mode": "name"})
