"""Forecasts: who breaks, who only stays broken, and what would help."""

from __future__ import annotations

import pytest

from halocline.compat.forecast import READING, WRITING, Client, Terms, forecast, newest_known
from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release

POWERBI = """
product = "powerbi"
title = "Power BI"
format = "delta"
first = "2.0"
unlisted = "refused"

[[fact]]
operation = ["read", "write"]
tokens = ["reader 1", "reader 3", "writer 2", "writer 7", "appendOnly", "invariants"]
spans = "2.0"
source = "test"

[[fact]]
operation = "read"
tokens = ["deletionVectors"]
spans = "2.0"
answer = "wrong"
what = "deleted rows reappear"
source = "test"
"""


@pytest.fixture
def knowledge(tmp_path):
    (tmp_path / "powerbi.toml").write_text(POWERBI)
    return Knowledge.load(tmp_path)


PLAIN = Terms(Protocol.delta(1, 2), frozenset())
VECTORS = Terms(Protocol.delta(1, 2).upgraded("deletionVectors"), frozenset({"deletionVectors"}))


def client(release, operations=READING) -> Client:
    return Client(Release.parse(release), operations)


def answers(found) -> dict[str, str]:
    return {str(each.client.release): str(each.after[0].answer) for each in found.outlooks}


def test_wrong_rows_come_first_and_are_not_hidden_behind_a_refused_write(knowledge):
    clients = [client("trino@426"), client("delta-spark@3.2.0"), client("powerbi@2.131", WRITING)]
    found = forecast(clients, PLAIN, VECTORS, knowledge=knowledge)
    assert list(answers(found).items()) == [
        ("powerbi@2.131", "wrong"),
        ("trino@426", "refused"),
        ("delta-spark@3.2.0", "ok"),
    ]
    assert [str(each.client.release) for each in found.broken()] == ["powerbi@2.131", "trino@426"]
    assert found.next_step() == "upgrade trino to 427; powerbi has no known release that reads it"


def test_who_is_locked_out_already_does_not_break():
    found = forecast(
        [client("delta-spark@2.2.0")], VECTORS, Terms(VECTORS.protocol.upgraded("v2Checkpoint"), VECTORS.in_use)
    )
    assert answers(found) == {"delta-spark@2.2.0": "refused"}
    assert found.broken() == ()


@pytest.mark.parametrize(("after", "breaks"), [(VECTORS, 1), (PLAIN, 0)], ids=["more is required", "nothing new"])
def test_who_nothing_is_known_about_breaks_only_if_more_is_required(after, breaks):
    found = forecast([client("nobody@1.0")], PLAIN, after)
    assert answers(found) == {"nobody@1.0": "unknown"}
    assert len(found.broken()) == breaks
    assert ("find out whether nobody@1.0 reads it" in found.next_step()) == bool(breaks)


def test_each_way_of_a_change_is_judged_by_itself():
    kept = Terms(VECTORS.protocol.without_feature("deletionVectors", protect_history=True), frozenset())
    found = forecast([client("delta-spark@3.2.0", WRITING)], VECTORS, kept, PLAIN)
    assert [len(found.broken(at)) for at in (0, 1)] == [1, 0]
    assert [len(found.left_able(at)) for at in (0, 1)] == [0, 1]
    assert found.next_step(0) == "upgrade delta-spark to 3.3.0"


def test_the_first_word_on_a_release_stands():
    seen = Client(Release.parse("trino@480"), WRITING, "observed", 5)
    found = forecast([seen, client("trino@480")], PLAIN, VECTORS)
    assert [each.client for each in found.outlooks] == [seen]


def test_modes_that_clients_tell_apart_are_part_of_the_terms():
    metadata = TableMetadata({"delta.columnMapping.mode": "ID"})
    assert Terms.of(Protocol.delta(2, 5), metadata).in_use == {"columnMapping", "columnMapping:id"}
    partitioned = TableMetadata({"delta.enableDeletionVectors": "true"}, None, ("day",))
    found = Terms.of(VECTORS.protocol, partitioned)
    assert found.in_use == {"deletionVectors", "deletionVectors:partitioned"}
    assert answers(forecast([client("trino@430")], VECTORS, found)) == {"trino@430": "wrong"}


def test_who_worked_wrongly_and_is_now_refused_breaks_as_well():
    found = forecast([client("trino@480", WRITING)], PLAIN, Terms(PLAIN.protocol.upgraded("rowTracking"), frozenset()))
    assert [(str(each.now.answer), str(each.after[0].answer)) for each in found.broken()] == [("wrong", "refused")]


def test_the_newest_known_release_of_every_product_is_listed():
    newest = {each.release.product: each.release.version for each in newest_known()}
    products = {name for name, product in Knowledge.load().products.items() if "delta" in product.formats}
    assert newest.keys() == products
    assert str(newest["delta-spark"]) == "4.4.0"


def test_nobody_breaks_where_nobody_is_known():
    found = forecast([], PLAIN, VECTORS)
    assert (found.outlooks, found.broken(), found.next_step()) == ((), (), "")
