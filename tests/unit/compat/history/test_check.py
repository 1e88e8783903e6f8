"""Minima, ranges and the exact check on small histories."""

import pytest

from halocline.compat.answer import Answer
from halocline.compat.history import History
from halocline.errors import IncompatibleError, InputError, MalformedError
from halocline.spans import SpanSet
from halocline.versions import Version


def history(*features, head=""):
    """Each feature is (id, provided, required[, more lines])."""
    text = f'format = 1\nname = "mail"\nreleased = "9.0"\n{head}\n'
    for name, provided, required, *more in features:
        text += f'[[feature]]\nid = "{name}"\nprovided = {provided}\nrequired = {required}\n' + "\n".join(more) + "\n"
    return History.parse(text)


# The worked example of the two algorithms, with a part of the features.
EXAMPLE = history(
    ("KvReadV1", ["[1.2.163, ∞)"], ["[1.2.176, ∞)"]),
    ("Transaction", ["[1.2.258, ∞)"], ["[1.2.259, ∞)"]),
    ("WatchInitFlush", ["[1.2.677, ∞)"], ["[1.2.726, ∞)"]),
)
REMOVALS = history(
    ("KvApiGetKv", ["[1.2.163, 1.2.663)"], ["[1.2.163, 1.2.287)"]),
    ("TxnReplyErr", ["[1.2.258, 1.2.755)"], ["[1.2.258, 1.2.676)"]),
)


@pytest.mark.parametrize(
    ("client", "least", "features"),
    [
        ("1.2.175", "0.0.0", ()),
        ("1.2.176", "1.2.163", ("KvReadV1",)),
        ("1.2.258", "1.2.163", ("KvReadV1",)),
        ("1.2.259", "1.2.258", ("Transaction",)),
        ("1.2.725", "1.2.258", ("Transaction",)),
        ("1.2.800", "1.2.677", ("WatchInitFlush",)),
    ],
)
def test_minimum_server_is_the_latest_beginning_of_what_the_client_requires(client, least, features):
    found = EXAMPLE.explain_min_server(client)
    assert (str(found.version), found.features) == (least, features)
    assert found.usable == found.version


@pytest.mark.parametrize(
    ("server", "least", "features"),
    [
        ("1.2.662", "0.0.0", ()),
        ("1.2.663", "1.2.287", ("KvApiGetKv",)),
        ("1.2.754", "1.2.287", ("KvApiGetKv",)),
        ("1.2.755", "1.2.676", ("TxnReplyErr",)),
        ("1.2.873", "1.2.676", ("TxnReplyErr",)),
    ],
)
def test_minimum_client_is_the_latest_end_of_what_the_server_removed(server, least, features):
    found = REMOVALS.explain_min_client(server)
    assert (str(found.version), found.features) == (least, features)


def test_no_feature_required_gives_minimum_server_zero():
    assert history(("a", ["1.0"], [])).min_server("5.0") == Version.of(0, 0, 0)


def test_no_feature_removed_gives_minimum_client_zero():
    assert history(("a", ["1.0"], ["1.0"])).min_client("5.0") == Version.of(0, 0, 0)


def test_feature_that_no_client_uses_yet_changes_no_minimum():
    with_unused = history(("a", ["1.0"], ["1.0"]), ("unused", ["4.0"], []), ("dropped", ["[1.0, 2.0)"], []))
    assert str(with_unused.min_server("5.0")) == "1.0"
    assert with_unused.min_client("5.0") == Version.of(0, 0, 0)
    assert with_unused.check(client="5.0", server="1.0").ok


def test_feature_that_is_still_provided_changes_no_minimum_client():
    assert history(("kept", ["1.0"], ["[1.0, 2.0)"])).min_client("9.0") == Version.of(0, 0, 0)


def test_feature_not_added_yet_is_missing_and_not_removed():
    later = history(("a", ["3.0"], ["[4.0, 5.0)"]))
    assert later.min_client("2.0") == Version.of(0, 0, 0)
    verdict = later.check(client="4.0", server="2.0")
    assert [(r.feature, r.kind) for r in verdict.reasons] == [("a", "missing")]
    assert str(verdict.reasons[0]) == "client 4.0 requires a, which servers provide from 3.0"


def test_peer_below_the_minimum_is_refused():
    verdict = EXAMPLE.check(client="1.2.800", server="1.2.500")
    assert verdict.answer is Answer.REFUSED
    assert verdict.features == ("WatchInitFlush",)
    assert verdict.fix == "Upgrade the server to 1.2.677 or later"


def test_removed_feature_is_named_with_both_ranges():
    verdict = REMOVALS.check(client="1.2.200", server="1.2.800")
    assert [(r.feature, r.kind) for r in verdict.reasons] == [("KvApiGetKv", "removed")]
    assert str(verdict.reasons[0]) == "client 1.2.200 requires KvApiGetKv, removed from servers at 1.2.663"
    assert str(verdict.servers) == "[1.2.163, 1.2.663)"
    assert str(verdict.clients) == "[0.0.0, 1.2.163) ∪ [1.2.676, ∞)"
    assert verdict.fix == "Upgrade the client to 1.2.676 or later"


def test_missing_and_removed_features_are_all_named():
    both = history(("old", ["[1.0, 2.0)"], ["[1.0, 3.0)"]), ("new", ["4.0"], ["[2.0, 5.0)"]))
    verdict = both.check(client="2.5", server="3.0")
    assert [(r.feature, r.kind) for r in verdict.reasons] == [("old", "removed"), ("new", "missing")]
    assert not verdict.servers
    assert verdict.fix == "Upgrade the client to 5.0 or later"


def test_pair_that_no_single_upgrade_helps_says_so():
    alone = history(("old", ["[1.0, 2.0)"], ["[1.0, 3.0)"]), ("new", ["4.0"], ["3.0"]))
    assert alone.check(client="2.5", server="3.0").fix == (
        "No upgrade of one side alone helps; this client needs a server in [1.0, 2.0)"
    )


BACK_PORT = history(("cpu", ["[8.5.7, 9.0.0-alpha)", "9.0.0-beta.1"], ["8.6"]), ("base", ["8.0"], ["8.0"]))


@pytest.mark.parametrize(
    ("server", "ok"), [("8.5.6", False), ("8.5.7", True), ("8.5.9", True), ("9.0.0-alpha.2", False), ("9.0.0", True)]
)
def test_back_ported_feature_is_provided_in_each_release_line(server, ok):
    assert BACK_PORT.check(client="8.6", server=server).ok is ok


def test_release_line_without_the_feature_is_named_and_led_back():
    verdict = BACK_PORT.check(client="8.6", server="9.0.0-alpha.2")
    assert str(verdict.reasons[0]).endswith("lacks and servers from 9.0.0-beta.1 have again")
    assert verdict.fix == "Upgrade the server to 9.0.0-beta.1 or later"
    assert str(BACK_PORT.clients_for("9.0.0-alpha.2")) == "[0.0.0, 8.6)"


def test_minimum_server_steps_over_a_hole():
    holed = history(("a", ["[1.0, 2.0)", "3.0"], ["1.0"]), ("b", ["2.5"], ["2.5"]))
    least = holed.explain_min_server("4.0")
    assert (str(least.version), least.features) == ("3.0", ("a",))
    assert str(holed.servers_for("4.0")) == "[3.0, ∞)"


def test_no_least_client_in_a_hole_is_incompatible_not_malformed():
    with pytest.raises(IncompatibleError, match=r"no least client for server 2.5"):
        history(("a", ["[1.0, 2.0)", "3.0"], ["1.0"])).min_client("2.5")


def test_infinite_minimum_client_is_an_error_and_no_number():
    with pytest.raises(MalformedError, match="servers removed a, which clients never stop requiring") as caught:
        history(("a", ["[1.0, 2.0)"], ["1.0"])).min_client("2.0")
    assert caught.value.condition == "MALFORMED_HISTORY"


def test_infinite_minimum_server_is_an_error_and_no_number():
    with pytest.raises(MalformedError, match="clients require a, which no server provides"):
        history(("a", [], ["1.0"])).min_server("2.0")


def test_feature_no_server_provides_is_missing_for_every_server():
    verdict = history(("a", [], ["1.0"])).check(client="1.0", server="9.0")
    assert str(verdict.reasons[0]) == "client 1.0 requires a, which no server provides"
    assert verdict.fix == "No server fits client 1.0; upgrade both"


def test_minimum_over_refuses_where_the_exact_check_does_not():
    # Clients before 2.0 never used the feature, so its removal does not concern them.
    over = history(("a", ["[1.0, 4.0)"], ["[2.0, 3.0)"]))
    assert str(over.min_client("4.0")) == "3.0"
    assert over.check(client="1.5", server="4.0").ok
    assert over.clients_for("4.0") == SpanSet.parse("[0, 2.0)", "3.0")


def test_version_after_the_last_release_is_judged_and_noted():
    verdict = EXAMPLE.check(client="10.0", server="8.0")
    assert verdict.ok
    assert verdict.notes == ("client 10.0 is later than this history, which ends at 9.0",)


@pytest.mark.parametrize("version", ["", "latest", "0.0.0", "x" * 5000])
def test_unreadable_version_is_unknown_for_check_and_an_error_for_minima(version):
    assert EXAMPLE.check(client=version, server="1.2.800").answer is Answer.UNKNOWN
    with pytest.raises(InputError) as caught:
        EXAMPLE.min_server(version)
    assert len(str(caught.value)) < 500
    with pytest.raises(InputError):
        EXAMPLE.min_client(version)


def test_version_before_the_history_is_unknown_although_nothing_is_required():
    begun = history(("a", ["2.0"], ["2.0"]), head='unknown_before = "2.0"')
    verdict = begun.check(client="1.0", server="3.0")
    assert verdict.answer is Answer.UNKNOWN
    assert str(verdict.reasons[0]) == "client 1.0 is older than this history, which begins at 2.0"
    with pytest.raises(InputError, match=r"begins at 2.0"):
        begun.min_server("1.0")


def test_pre_release_comes_before_its_release_unless_the_file_says_otherwise():
    rows = ("a", ["2.0"], ["1.0"])
    assert not history(rows).check(client="1.0", server="2.0-rc1").ok
    assert history(rows, head='pre_releases = "as-release"').check(client="1.0", server="2.0-rc1").ok


def test_unknown_build_flag_is_an_error_that_names_the_known_ones():
    flagged = history(("a", ["1.0"], [], 'with.fast.required = "1.0"'), head='flags = { fast = "goes fast" }')
    with pytest.raises(InputError, match="no build flag 'slow'") as caught:
        flagged.check(client="1.0", server="1.0", flags=["slow"])
    assert caught.value.sides == {"flags": "fast"}


def test_build_flag_may_change_what_a_server_provides():
    flagged = history(("a", [], ["1.0"], 'with.fast.provided = "1.0"'), head='flags = { fast = "goes fast" }')
    assert not flagged.check(client="1.0", server="1.0").ok
    assert flagged.check(client="1.0", server="1.0", flags=("fast",)).ok
    assert flagged.check(client="1.0", server="1.0", flags="fast").ok


def test_verdict_for_programs_holds_both_sides_and_kinds():
    facts = REMOVALS.check(client="1.2.200", server="1.2.800").to_dict()
    assert facts["answer"] == "refused"
    assert facts["reasons"] == [
        {
            "feature": "KvApiGetKv",
            "answer": "refused",
            "text": "client 1.2.200 requires KvApiGetKv, removed from servers at 1.2.663",
            "kind": "removed",
        }
    ]
    assert facts["servers"] == ["[1.2.163, 1.2.663)"]
