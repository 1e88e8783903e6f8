"""Who breaks when the terms of a table change, who only stays broken, and what would help."""

from __future__ import annotations

import pytest

from halocline.compat.breaks import READING, WRITING, Client, breaks, forecast, newest_known
from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.support import support_of
from halocline.compat.terms import Terms
from halocline.errors import NotFoundError

POWERBI = """
product = "powerbi"
title = "Power BI"
format = "delta"
first = "2.0"
unlisted = "refused"
source = "test"

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
def _powerbi_is_known(tmp_path, monkeypatch):
    (tmp_path / "powerbi.toml").write_text(POWERBI)
    known = Knowledge.load(tmp_path)
    monkeypatch.setattr("halocline.compat.knowledge._shipped", lambda: known)
    support_of.cache_clear()
    yield
    support_of.cache_clear()


PLAIN = Terms(Protocol.delta(1, 2), frozenset())
VECTORS = Terms(Protocol.delta(1, 2).upgraded("deletionVectors"), frozenset({"deletionVectors"}))


def client(release, operations=READING) -> Client:
    return Client(Release.parse(release), operations)


def answers(found) -> dict[str, str]:
    return {str(each.client.release): str(each.after[0].answer) for each in found.outlooks}


@pytest.mark.usefixtures("_powerbi_is_known")
def test_wrong_rows_come_first_and_are_not_hidden_behind_a_refused_write():
    clients = [client("trino@426"), client("delta-spark@3.2.0"), client("powerbi@2.131", WRITING)]
    found = forecast(clients, PLAIN, VECTORS)
    assert list(answers(found).items()) == [
        ("powerbi@2.131", "wrong"),
        ("trino@426", "refused"),
        ("delta-spark@3.2.0", "ok"),
    ]
    assert [str(each.client.release) for each in found.broken()] == ["powerbi@2.131", "trino@426"]
    assert found.next_step() == "upgrade trino to 469; powerbi has no known release that reads it"


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
    partitioned = TableMetadata({"delta.enableDeletionVectors": "true"}, ("day",))
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


def broken(before, after, *clients) -> dict[str, str]:
    return {str(each.client.release): str(each.verdict.answer) for each in breaks(before, after, clients)}


def mapped(mode) -> Terms:
    return Terms.of(Protocol.delta(2, 5), TableMetadata({"delta.columnMapping.mode": mode}))


def test_mode_that_a_release_does_not_know_breaks_it():
    """Column mapping by id came with 2.2.0."""
    old = Client(Release.parse("delta-spark@2.0.0"))
    assert broken(PLAIN, mapped("name"), old) == {}
    assert broken(PLAIN, mapped("id"), old) == {"delta-spark@2.0.0": "refused"}


def test_mode_that_comes_with_use_breaks_who_works_wrongly_in_it_even_if_the_protocol_stays():
    unused = Terms(VECTORS.protocol, frozenset())
    used = Terms(VECTORS.protocol, frozenset({"deletionVectors", "deletionVectors:partitioned"}))
    assert broken(unused, used, client("trino@430"), client("trino@470")) == {"trino@430": "wrong"}


def test_losing_one_of_two_operations_is_breaking_even_if_the_other_was_lost_before():
    """It could read and not write; now it can do neither."""
    now = Terms(Protocol.delta(1, 2).upgraded("rowTracking"), frozenset())
    later = Terms(now.protocol.upgraded("deletionVectors"), frozenset({"deletionVectors"}))
    assert broken(now, later, client("delta-spark@2.2.0", WRITING)) == {"delta-spark@2.2.0": "refused"}


@pytest.mark.usefixtures("_powerbi_is_known")
def test_who_was_refused_and_would_then_work_with_wrong_data_breaks_although_less_is_required():
    both = Terms(VECTORS.protocol.upgraded("v2Checkpoint"), frozenset({"deletionVectors"}))
    assert broken(both, VECTORS, client("powerbi@2.131")) == {"powerbi@2.131": "wrong"}


def test_table_that_is_being_created_is_judged_by_what_it_requires():
    assert broken(None, VECTORS, client("deltalake@1.0.2"), client("deltalake@1.6.6")) == {"deltalake@1.0.2": "refused"}


@pytest.mark.parametrize(
    ("says", "breaks_now"), [(set(), True), ({"v2Checkpoint"}, True), ({"deletionVectors"}, False)]
)
def test_word_of_a_client_counts_where_nothing_is_known_about_its_release(says, breaks_now):
    own = Client(Release.parse("in-house@7.1"), provides=frozenset(says))
    assert bool(broken(PLAIN, VECTORS, own)) is breaks_now


def test_word_of_a_client_does_not_outweigh_what_is_known():
    boasting = Client(Release.parse("trino@426"), provides=frozenset({"deletionVectors"}))
    assert broken(PLAIN, VECTORS, boasting) == {"trino@426": "refused"}


def test_text_that_names_no_release_is_one_that_nothing_is_known_about():
    assert broken(PLAIN, VECTORS, Client(Release.reported("nightly"))) == {"nightly@unknown": "unknown"}
    assert broken(VECTORS, PLAIN, Client(Release.reported("?"))) == {}, "lower versions are nothing new"


def test_latest_release_that_a_product_needs_is_named():
    clients = [client("deltalake@1.0.2"), Client(Release.parse("deltalake@1.3.2"), WRITING)]
    assert forecast(clients, PLAIN, VECTORS).next_step() == "upgrade deltalake to 1.4.0"


def test_mode_that_nobody_tells_apart_is_not_known():
    with pytest.raises(NotFoundError) as caught:
        Terms.using("delta", ["columnMapping:shape"])
    assert caught.value.sides["known"] == "columnMapping:name, columnMapping:id"
