"""Lineage events: what is understood of them, and what the coordinator answers."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fleets import running, users_of

from halocline.errors import HaloclineError, InputError
from halocline.fleet.core.events import MoveTable
from halocline.fleet.server.auth import Access, Grant, digest, rights
from halocline.fleet.server.lineage import PATH, parse, understood

NOW = 1_800_000_000_000
DELTA = {"storage": {"storageLayer": "delta", "fileFormat": "parquet"}}


def event(engine=("spark", "3.5.1"), inputs=(), outputs=(), **more):
    facets = {"processing_engine": {"name": engine[0], "version": engine[1]}} if engine else {}
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-11-15T06:00:00Z",
        "producer": "https://example.org",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
        "run": {"runId": "0190", "facets": facets},
        "job": {"namespace": "prod", "name": "nightly load"},
        "inputs": list(inputs),
        "outputs": list(outputs),
        **more,
    }


def dataset(namespace, name, facets=DELTA):
    return {"namespace": namespace, "name": name, "facets": facets}


def read(found, **options):
    return understood(parse(json.dumps(found).encode()), NOW, **options)


@pytest.mark.parametrize(
    ("engine", "release", "provenance", "shown"),
    [
        (("spark", "3.5.1"), "delta-spark@3.0.0", "inferred", "delta-spark 3.0.0 to 3.3.2"),
        (("Spark", "3.4.0"), "delta-spark@2.4.0", "inferred", "delta-spark 2.4.0"),
        (("spark", "4.0.0"), "delta-spark@4.0.0", "inferred", "delta-spark 4.0.0 to 4.3.0"),
        (("trino", "426"), "trino@426", "observed", "trino@426"),
        (("spark", "9.9"), "unknown@0", "inferred", "unknown: spark 9.9"),
        (("spark", "nightly"), "unknown@0", "inferred", "unknown: spark nightly"),
        (("presto", "0.280"), "unknown@0", "inferred", "unknown: presto 0.280"),
        (None, "unknown@0", "inferred", "unknown: no engine"),
    ],
)
def test_an_engine_tells_the_lowest_release_that_it_can_be(engine, release, provenance, shown):
    found = read(event(engine, [dataset("s3://lake", "orders")]))
    assert (found.trace.release, found.trace.provenance, found.release_range) == (release, provenance, shown)


@pytest.mark.parametrize(
    ("namespace", "name", "table"),
    [
        ("file", "/lake/my orders", "file:///lake/my%20orders"),
        ("s3://lake", "orders", "s3://lake/orders"),
        ("s3a://lake", "/orders/", "s3://lake/orders"),
        ("gs://lake", "a/b", "gs://lake/a/b"),
        ("abfss://c@a.dfs.core.windows.net", "t", "abfss://c@a.dfs.core.windows.net/t"),
    ],
)
def test_a_dataset_names_a_table(namespace, name, table):
    found = read(event(inputs=[dataset(namespace, name)]))
    assert {use.table for use in found.trace.uses} == {table}


@pytest.mark.parametrize(
    "unusable",
    [
        dataset("s3://lake", "orders", {}),
        dataset("s3://lake", "orders", {"storage": {"storageLayer": "iceberg"}}),
        dataset("s3://lake", "orders", {"storage": "delta"}),
        dataset("file", "relative/path"),
        dataset("memory://x", "y"),
        dataset("postgres://db:5432", "public.orders"),
        dataset("", ""),
    ],
)
def test_a_dataset_that_is_no_known_table_is_counted_and_left_out(unusable):
    found = read(event(inputs=[unusable]))
    assert (found.trace, found.ignored) == (None, 1)


def test_a_table_that_the_fleet_knows_needs_no_facet():
    found = read(event(inputs=[dataset("s3://lake", "orders", {})]), ladder_of={"s3://lake/orders": "hudi"}.get)
    assert [(use.table, use.ladder) for use in found.trace.uses] == [("s3://lake/orders", "hudi")]


def test_a_catalog_facet_and_a_symlink_lead_to_the_table():
    facets = {
        "catalog": {"framework": "delta", "type": "hive", "name": "spark_catalog"},
        "symlinks": {"identifiers": [{"namespace": "s3://lake", "name": "orders", "type": "TABLE"}, "odd"]},
    }
    found = read(event(inputs=[dataset("hive://metastore:9083", "db.orders", facets)]))
    assert [use.table for use in found.trace.uses] == ["s3://lake/orders"]


def test_inputs_are_read_and_outputs_written():
    found = read(event(inputs=[dataset("s3://lake", "a")], outputs=[dataset("s3://lake", "b")]))
    assert {(use.table, use.operation) for use in found.trace.uses} == {
        ("s3://lake/a", "read"),
        ("s3://lake/b", "write"),
    }
    assert found.trace.role == "writer"


def test_an_event_from_the_future_counts_as_seen_now():
    found = read(event(inputs=[dataset("s3://lake", "a")], eventTime="2999-01-01T00:00:00Z"))
    assert found.trace.seen_ms == NOW


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"eventTime": "yesterday", "run": {}, "job": {}}',
        b'{"eventTime": "2026-11-15T06:00:00", "run": {}, "job": {}}',
        b'{"eventTime": "2026-11-15T06:00:00Z", "run": 1, "job": {}}',
        b'{"eventTime": "2026-11-15T06:00:00Z", "job": {}}',
        b'{"eventTime": "2026-11-15T06:00:00Z", "run": {}, "job": {}, "inputs": [1]}',
        json.dumps(event(inputs=[dataset("s3://lake", str(n)) for n in range(300)])).encode(),
    ],
)
def test_what_is_no_event_is_refused(body):
    with pytest.raises(InputError):
        parse(body)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    facets=st.dictionaries(st.sampled_from(["storage", "catalog", "symlinks", "x"]), _json),
    engine=_json,
    name=st.text(),
)
def test_facets_of_any_shape_never_break_it(facets, engine, name):
    odd = event(None, [{"namespace": "s3://lake", "name": name, "facets": facets}])
    odd["run"]["facets"] = {"processing_engine": engine}
    odd["job"]["name"] = name
    try:
        found = read(odd)
    except HaloclineError as error:
        pytest.fail(f"{error} for {odd}")
    assert found.trace is None or found.trace.identity


# ---------------------------------------------------------------------- over HTTP


def post(hosting, body, headers=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(f"http://127.0.0.1:{hosting.http_port}{PATH}", data, sent, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_page_of_another_site_can_send_changes_nothing(fleet, kind):
    hosting, admin = fleet
    before = admin.members()
    assert post(hosting, event(), {"Content-Type": kind})[0] == 415
    assert admin.members() == before


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://127.0.0.1:7471", "null"])
def test_what_a_browser_sends_changes_nothing_even_if_it_takes_the_page_for_ours(fleet, origin):
    hosting, admin = fleet
    before = admin.members()
    body = event(inputs=[dataset("s3://lake", "orders")])
    assert post(hosting, body, {"Origin": origin})[0] == 403
    assert admin.members() == before


def test_a_table_whose_level_is_recorded_is_known_without_a_facet_or_a_user(fleet):
    hosting, _ = fleet
    move = hosting.service.submit(MoveTable("s3://lake/recorded", "delta", 1, "test"))
    asyncio.run_coroutine_threadsafe(move, hosting.loop).result(30)
    status, answer = post(hosting, event(inputs=[dataset("s3://lake", "recorded", {})]))
    assert (status, answer["tables"], answer["ignored"]) == (201, ["s3://lake/recorded"], 0)


def test_an_event_with_thousands_of_links_is_refused(fleet):
    links = [{"namespace": "s3://lake", "name": f"t{number}"} for number in range(17)]
    dataset = {"namespace": "nowhere", "name": "t", "facets": {"symlinks": {"identifiers": links}}}
    status, answer = post(fleet[0], event(inputs=[dataset]))
    assert (status, answer["error"]["sides"]) == (400, {"at most": "16"})


def test_a_posted_event_makes_a_member_and_a_later_one_replaces_it(fleet):
    hosting, admin = fleet
    status, answer = post(hosting, event(("trino", "426"), [dataset("s3://lake", "orders")]))
    assert (status, answer["tables"], answer["ignored"]) == (201, ["s3://lake/orders"], 0)
    later = event(("trino", "470"), [dataset("s3://lake", "orders")], eventTime="2026-11-15T06:00:01Z")
    assert post(hosting, later)[0] == 201
    (member,) = users_of(admin, "s3://lake/orders").values()
    assert (member.release, member.provenance, member.role) == ("trino@470", "observed", "reader")
    assert member.supported["delta"].hi == 6
    assert member.last_seen_ms > 0


def test_a_member_of_an_unknown_engine_keeps_the_level_where_it_is():
    with running() as (hosting, admin):
        post(hosting, event(("presto", "0.280"), [dataset("s3://lake", "orders")]))
        plan = admin.plan_raise("delta", 2)
        assert [each.kind for each in plan.blockers] == ["unknown"]


def test_an_event_without_tables_makes_nobody(fleet):
    hosting, admin = fleet
    before = len(admin.members().members)
    assert post(hosting, event(inputs=[dataset("postgres://db", "x")]))[1]["member"] is None
    assert len(admin.members().members) == before


@pytest.mark.parametrize("body", [b"{", b"[]", b"x" * (1 << 20) + b"y"])
def test_a_bad_or_huge_body_is_refused_with_a_typed_answer(fleet, body):
    status, answer = post(fleet[0], body)
    assert status == 400
    assert answer["error"]["condition"] == "ARGUMENT_INVALID"


def test_a_caller_without_the_right_is_refused():
    access = Access(
        secrets={
            digest("look"): Grant("watchers", rights(["observe"])),
            digest("tell"): Grant("jobs", rights(["join"])),
        }
    )
    with running(access=access) as (hosting, _):
        body = event(inputs=[dataset("s3://lake", "orders")])
        assert post(hosting, body)[0] == 401
        assert post(hosting, body, {"authorization": "Bearer look"})[0] == 403
        assert post(hosting, body, {"authorization": "Bearer tell"})[0] == 201
