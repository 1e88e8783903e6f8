"""The shipped histories of Databend Meta against values that were computed and published elsewhere."""

import pytest

from halocline.compat.answer import Answer
from halocline.compat.history import History
from halocline.compat.history.file import find
from halocline.spans import SpanSet
from halocline.versions import Version

META = History.load("databend-meta")
SEED = History.load("databend-meta-seed")
RAFT = History.load("databend-raft")
FLAG = "txn-put-match-seq"

# feature, server since, server until, client since, client until; None: no end, or never.
GRPC_ROWS = [
    ("kv_api", "1.2.163", None, "1.2.163", "1.2.823"),
    ("kv_api/get_kv", "1.2.163", "1.2.663", "1.2.163", "1.2.287"),
    ("kv_api/mget_kv", "1.2.163", "1.2.663", "1.2.163", "1.2.287"),
    ("kv_api/list_kv", "1.2.163", "1.2.663", "1.2.163", "1.2.287"),
    ("kv_read_v1", "1.2.163", None, "1.2.176", None),
    ("transaction", "1.2.258", None, "1.2.259", None),
    ("transaction/reply_error", "1.2.258", "1.2.755", "1.2.258", "1.2.676"),
    ("transaction/put_with_ttl", "1.2.258", None, "1.2.361", None),
    ("transaction/prev_value", "1.2.304", None, "260214.0.0", None),
    ("transaction/condition_keys_prefix", "1.2.674", None, "1.2.726", None),
    ("transaction/operations", "1.2.676", None, "1.2.726", None),
    ("operation/as_is", "1.2.163", None, "1.2.163", "1.2.663"),
    ("export", "1.2.259", None, "1.2.259", None),
    ("export_v1", "1.2.315", None, None, None),
    ("watch", "1.2.259", None, "1.2.259", None),
    ("watch/initial_flush", "1.2.677", None, "1.2.726", None),
    ("watch/init_flag", "1.2.736", None, "1.2.726", None),
    ("member_list", "1.2.259", None, "1.2.259", None),
    ("get_cluster_status", "1.2.259", None, "1.2.259", None),
    ("get_client_info", "1.2.259", None, "1.2.259", None),
    ("put_response/current", "1.2.756", None, "1.2.756", None),
    ("fetch_add_u64", "1.2.764", None, "1.2.821", None),
    ("expire_in_millis", "1.2.770", None, "260205.0.0", None),
    ("put_sequential", "1.2.770", None, "260205.0.0", None),
    ("proposed_at_ms", "1.2.823", None, None, None),
    ("fetch_increase_u64", "1.2.828", None, None, None),
    ("kv_list", "1.2.869", None, None, None),
    ("kv_get_many", "1.2.869", None, "260214.0.0", None),
    ("kv_transaction", "260217.0.0", None, None, None),
    ("kv_transaction/put_match_seq", "260217.0.0", None, None, None),
    ("raft_reply/error", "1.2.163", None, "1.2.163", None),
]

# version, minimum server, a feature that forces it, first server that drops something needed, minimum client
GOLDEN = [
    ("1.2.163", "1.2.163", "kv_api", "1.2.663", "0.0.0"),
    ("1.2.258", "1.2.258", "transaction/reply_error", "1.2.663", "0.0.0"),
    ("1.2.259", "1.2.259", "export", "1.2.663", "0.0.0"),
    ("1.2.287", "1.2.259", "export", "1.2.755", "0.0.0"),
    ("1.2.663", "1.2.259", "export", "1.2.755", "1.2.287"),
    ("1.2.676", "1.2.259", "export", None, "1.2.287"),
    ("1.2.726", "1.2.736", "watch/init_flag", None, "1.2.287"),
    ("1.2.755", "1.2.736", "watch/init_flag", None, "1.2.676"),
    ("1.2.756", "1.2.756", "put_response/current", None, "1.2.676"),
    ("1.2.821", "1.2.764", "fetch_add_u64", None, "1.2.676"),
    ("1.2.873", "1.2.764", "fetch_add_u64", None, "1.2.676"),
    ("260205.0.0", "1.2.770", "expire_in_millis", None, "1.2.676"),
    ("260214.0.0", "1.2.869", "kv_get_many", None, "1.2.676"),
    ("260217.0.0", "1.2.869", "kv_get_many", None, "1.2.676"),
    ("260304.0.0", "1.2.869", "kv_get_many", None, "1.2.676"),
]


def spans(since, until):
    if since is None:
        return SpanSet()
    return SpanSet.parse(f"[{since}, {until})" if until else since)


def test_databend_meta_has_exactly_the_published_rows():
    shipped = [(row.id, row.provided, row.required) for row in META.lifetimes]
    assert shipped == [(row[0], spans(*row[1:3]), spans(*row[3:5])) for row in GRPC_ROWS]


@pytest.mark.parametrize(("version", "server", "feature", "dropped", "client"), GOLDEN)
def test_golden_row_gives_published_minima(version, server, feature, dropped, client):
    least = META.explain_min_server(version)
    assert str(least.version) == server
    assert feature in least.features
    assert str(META.min_client(version)) == client
    fits = META.servers_for(version)
    assert fits == spans(server, dropped)


@pytest.mark.parametrize("version", ["260217.0.0", "260304.0.0"])
def test_build_flag_raises_the_minimum_server(version):
    assert str(META.min_server(version, flags=[FLAG])) == "260217.0.0"
    refused = META.check(client=version, server="1.2.880", flags=[FLAG])
    assert refused.features == ("kv_transaction/put_match_seq",)
    assert META.check(client=version, server="1.2.880").ok


@pytest.mark.parametrize(("history", "least"), [(SEED, "1.2.770"), (META, "1.2.764")])
def test_minimum_server_at_1_2_873_depends_on_the_state_of_the_record(history, least):
    assert str(history.min_server("1.2.873")) == least
    assert str(history.min_client("1.2.873")) == "1.2.676"


def test_seed_features_force_both_its_minima():
    assert SEED.explain_min_server("1.2.873").features == ("expire_in_millis", "put_sequential")
    assert SEED.explain_min_client("1.2.873").features == ("transaction/reply_error",)


def test_seed_constants_equal_the_computed_minima():
    constant = SEED.constant("1.2.873")
    assert constant is not None
    assert constant.min_server == SEED.min_server("1.2.873")
    assert constant.min_client == SEED.min_client("1.2.873")


def test_minimum_client_of_every_release_counts_removed_features_only():
    # A feature that the server has not added yet is not removed: old servers would otherwise accept nobody.
    for version in META.breakpoints():
        assert META.min_client(version) in (Version.of(0, 0, 0), Version.of(1, 2, 287), Version.of(1, 2, 676)), version


@pytest.mark.parametrize(
    ("release", "min_client", "min_server"),
    [
        ("0.0.120", "0.7.59", "0.8.30"),
        ("0.8.30", "0.7.59", "0.7.63"),
        ("0.8.36", "0.7.59", "0.8.30"),
        ("0.8.80", "0.7.59", "0.8.35"),
        ("0.9.24", "0.8.80", "0.8.35"),
        ("0.9.42", "0.9.41", "0.8.35"),
        ("1.1.34", "0.9.41", "1.1.32"),
        ("1.2.287", "0.9.41", "1.2.226"),
        ("1.2.361", "0.9.41", "1.2.259"),
        ("1.2.663", "1.2.288", "1.2.259"),
        ("1.2.725", "1.2.288", "1.2.677"),
        ("1.2.821", "1.2.288", "1.2.768"),
        ("1.2.823", "1.2.288", "1.2.770"),
        ("1.2.879", "1.2.288", "1.2.770"),
        ("1.2.880", "1.2.676", "1.2.770"),
        ("260205.0.0", "1.2.676", "1.2.770"),
        ("260312.0.0", "1.2.676", "260217.0.0"),
        ("260629.0.0", "1.2.676", "260217.0.0"),
    ],
)
def test_shipped_constant_is_recorded_for_every_release(release, min_client, min_server):
    constant = META.constant(release)
    assert constant is not None
    assert (str(constant.min_client), str(constant.min_server)) == (min_client, min_server)


def test_stale_constant_lets_forty_pairs_through_and_the_computed_one_none():
    points = META.breakpoints()
    assert len(points) ** 2 == 625
    pairs = [
        (c, s) for c in points for s in points if not META.check(client=c, server=s).ok and s >= META.min_server(c)
    ]
    assert not [pair for pair in pairs if pair[0] >= META.min_client(pair[1])], "let in by the computed minima"
    stale = [(c, s) for c, s in pairs if c >= META.constant(s).min_client]
    assert len(stale) == 40
    low, high = Version.of(1, 2, 288), Version.of(1, 2, 676)
    for client, server in stale:
        assert low <= client < high, (client, server)
        assert Version.of(1, 2, 755) <= server < Version.of(1, 2, 880), (client, server)
        assert META.check(client=client, server=server).features == ("transaction/reply_error",)


def test_numbers_agree_with_the_exact_check_on_every_pair():
    for client in META.breakpoints():
        for server in META.breakpoints():
            by_number = server >= META.min_server(client) and client >= META.min_client(server)
            assert META.check(client=client, server=server).ok == by_number, (client, server)


@pytest.mark.parametrize(
    ("version", "peers"),
    [
        ("1.0.0", "[0.0.120, 1.2.769)"),
        ("1.2.546", "[0.0.120, 1.2.769)"),
        ("1.2.547", "0.0.120"),
        ("1.2.768", "0.0.120"),
        ("1.2.769", "1.2.547"),
        ("1.2.817", "1.2.547"),
        ("1.2.818", "1.2.547"),
        ("260304.0.0", "1.2.547"),
    ],
)
def test_raft_peers_follow_from_the_rows(version, peers):
    # The published ranges that end at 260629.0.0 need a row that this record, which ends earlier, does not have.
    assert RAFT.servers_for(version) & RAFT.clients_for(version) == SpanSet.parse(peers)


@pytest.mark.parametrize(
    ("version", "peers"),
    [
        ("1.0.0", "[0.0.120, 1.2.769)"),
        ("1.2.547", "[0.0.120, 260629.0.0)"),
        ("1.2.769", "[1.2.547, 260629.0.0)"),
        ("1.2.818", "1.2.547"),
        ("260629.0.0", "1.2.818"),
    ],
)
def test_one_appended_requirement_explains_all_published_raft_ranges(version, peers):
    # Inferred, not published: from 260629.0.0 on senders need the newer snapshot transfer.
    text = find("databend-raft")[0].replace(
        'optional = "1.2.818"', 'optional = "[1.2.818, 260629.0.0)"\nrequired = "260629.0.0"'
    )
    later = History.parse(text)
    assert later.servers_for(version) & later.clients_for(version) == SpanSet.parse(peers)
    changes = later.diff(RAFT)
    assert changes.changes
    assert not changes.rewrites


def test_raft_constants_equal_the_computed_minima():
    assert len(RAFT.lifetimes) == 7
    assert str(RAFT.min_server("260304.0.0")) == "1.2.547"
    assert str(RAFT.min_client("260304.0.0")) == "0.0.0"
    assert RAFT.lint() == ()


def test_optional_feature_never_refuses_and_names_its_fallback():
    verdict = RAFT.check(client="260217.0.0", server="1.2.547")
    assert verdict.ok
    assert "server 1.2.547 lacks raft/vote_v001, so the client falls back: raft/vote" in verdict.notes
    assert len(verdict.notes) == 4, verdict.notes


def test_yanked_build_is_named_and_skipped():
    least = META.explain_min_server("1.2.873")
    assert (str(least.version), str(least.usable)) == ("1.2.764", "1.2.768")
    assert least.notes == ("1.2.764 was yanked", "the first usable server is 1.2.768")
    for server in ("1.2.764", "1.2.767"):
        verdict = META.check(client="1.2.873", server=server)
        assert verdict.ok
        assert verdict.notes == (f"server {server} was yanked; the first usable one is 1.2.768",)


def test_yanked_build_is_not_offered_as_the_fix():
    assert META.check(client="1.2.873", server="1.2.756").fix == "Upgrade the server to 1.2.768 or later"


def test_yank_on_the_server_side_leaves_clients_alone():
    assert META.check(client="1.2.764", server="1.2.800").notes == ()


def test_build_that_misreports_itself_is_named_and_skipped():
    least = META.explain_min_server("1.2.258")
    assert (str(least.version), str(least.usable)) == ("1.2.258", "1.2.259")
    verdict = META.check(client="1.2.258", server="1.2.258")
    assert verdict.ok
    assert verdict.notes == (
        "client 1.2.258 reports itself as 1.2.257, so its peer may treat it as that",
        "server 1.2.258 reports itself as 1.2.257, so its peer may treat it as that",
    )
    assert META.check(client="1.2.163", server="1.2.257").notes == (
        "a server that reports 1.2.257 may also be 1.2.258",
    )


def test_inert_feature_is_still_provided_but_noted():
    assert META.check(client="1.2.873", server="260304.0.0").notes == (
        "server 260304.0.0 still has raft_reply/error, but makes no use of it",
    )
    assert META.check(client="1.2.873", server="260217.0.0").notes == ()


def test_nightly_tag_counts_as_the_release():
    assert META.min_server("v1.2.726-nightly") == META.min_server("1.2.726")
    assert META.check(client="v1.2.300-nightly-188426e3e6-simd", server="v1.2.700-nightly").ok


@pytest.mark.parametrize("version", ["1.2.162", "0.9.41", "0.0.0", "", "latest", "v"])
def test_version_outside_the_record_is_unknown_on_either_side(version):
    for verdict in (
        META.check(client=version, server="1.2.800"),
        META.check(client="1.2.800", server=version),
        META.check(client=version, server=version),
    ):
        assert verdict.answer is Answer.UNKNOWN, verdict
        assert not verdict.ok
        assert verdict.reasons
    assert not META.servers_for(version)
    assert not META.clients_for(version)
