"""Each rule of the linter, on a history that breaks only that one."""

import pytest

from halocline.compat.history import History, HistoryRule
from halocline.errors import MalformedError

HEAD = 'format = 1\nname = "mail"\nreleased = "9.0"\n'


def linted(*features, head="", tail=""):
    text = HEAD + head + "\n"
    for name, provided, required, *more in features:
        text += f'[[feature]]\nid = "{name}"\nprovided = {provided}\nrequired = {required}\n' + "\n".join(more) + "\n"
    return [(finding.rule, finding.text) for finding in History.parse(text + tail).lint()]


def constants(*rows):
    each = '[[constants]]\nsince = "{}"\nmin_client = "{}"\nmin_server = "{}"\n'
    return "\n" + "".join(each.format(*row) for row in rows)


def test_history_in_order_has_no_findings():
    assert linted(("a", ["[1.0, 4.0)"], ["[2.0, 3.0)"]), ("b", ["2.0"], ["2.0"])) == []


def test_client_that_requires_before_the_server_provides_is_found():
    assert linted(("a", ["2.0"], ["1.0"])) == [
        (HistoryRule.REQUIRED_BEFORE_PROVIDED, "clients require a from 1.0, servers provide it from 2.0 only")
    ]


def test_server_that_removes_before_the_client_stops_is_found():
    assert linted(("a", ["[1.0, 3.0)"], ["[1.0, 4.0)"]))[0] == (
        HistoryRule.REMOVED_BEFORE_UNUSED,
        "servers remove a at 3.0, clients require it until 4.0",
    )


@pytest.mark.parametrize(
    ("provided", "text"),
    [
        (["[1.0, 3.0)"], "servers remove a at 3.0, clients never stop requiring it"),
        ([], "clients require a from 1.0, which no server provides"),
    ],
)
def test_infinite_minimum_is_found(provided, text):
    assert linted(("a", provided, ["1.0"])) == [(HistoryRule.INFINITE_MINIMUM, text)]


def test_id_used_twice_is_found():
    assert linted(("a", ["1.0"], []), ("a", ["2.0"], [])) == [(HistoryRule.ID_REUSED, "id a is used by 2 features")]


def test_name_used_twice_is_found():
    assert linted(("a", ["1.0"], [], 'name = "A"'), ("b", ["2.0"], [], 'name = "A"')) == [
        (HistoryRule.ID_REUSED, "name A is used by 2 features")
    ]


def test_retired_id_that_is_used_is_found():
    assert linted(("a", ["1.0"], []), head='retired = ["a"]') == [
        (HistoryRule.ID_REUSED, "id a is retired and may not be used again")
    ]


def test_falling_minimum_server_is_found():
    assert linted(("a", ["3.0"], ["[4.0, 5.0)"]), ("b", ["1.0"], ["1.0"])) == [
        (HistoryRule.FALLING_MINIMUM, "the minimum server falls from 3.0 (4.0) to 1.0 (5.0)")
    ]


def test_falling_minimum_client_is_found():
    # The feature comes back at 5.0, so clients that were refused are accepted again.
    found = linted(("a", ["[1.0, 4.0)", "5.0"], ["[1.0, 3.0)"]))
    assert (HistoryRule.FALLING_MINIMUM, "the minimum client falls from 3.0 (4.0) to 0.0.0 (5.0)") in found


def test_falling_shipped_constant_is_found():
    found = linted(("a", ["1.0"], []), tail=constants(("1.0", "0", "0.5"), ("2.0", "0", "0.4")))
    assert (HistoryRule.FALLING_MINIMUM, "the shipped minimum server falls from 0.5 (1.0) to 0.4 (2.0)") in found


def test_constant_that_is_too_low_names_who_is_let_in_and_what_is_missing():
    assert linted(
        ("a", ["[1.0, 4.0)"], ["[1.0, 3.0)"]), ("b", ["1.0"], ["1.0"]), tail=constants(("1.0", "0.5", "1.0"))
    ) == [
        (
            HistoryRule.CONSTANT_TOO_LOW,
            "servers [4.0, 9.0) ship minimum client 0.5, computed is 3.0: "
            "clients in [0.5, 3.0) are let in though a would be missing",
        ),
        (
            HistoryRule.CONSTANT_TOO_HIGH,
            "servers [1.0, 4.0) ship minimum client 0.5, computed is 0.0.0: "
            "clients in [0.0.0, 0.5) are refused though they fit",
        ),
    ]


def test_constant_that_is_too_high_names_who_is_refused():
    assert linted(("a", ["1.0"], ["1.0"]), tail=constants(("1.0", "0.0.0", "1.5"))) == [
        (
            HistoryRule.CONSTANT_TOO_HIGH,
            "clients [1.0, 9.0) ship minimum server 1.5, computed is 1.0: "
            "servers in [1.0, 1.5) are refused though they fit",
        )
    ]


def test_constant_equal_to_the_first_usable_build_is_right():
    yanked = '[[yanked]]\nversions = "[1.0, 1.2)"\n'
    assert linted(("a", ["1.0"], ["1.0"]), tail=yanked + constants(("1.0", "0.0.0", "1.2"))) == []


def test_constant_after_the_last_release_is_not_judged():
    assert linted(("a", ["1.0"], ["1.0"]), tail=constants(("10.0", "5.0", "5.0"))) == []


def test_breach_under_a_build_flag_names_the_flag():
    flagged = ("a", ["2.0"], [], 'with.fast.required = "1.0"')
    assert linted(flagged, head='flags = { fast = "goes fast" }') == [
        (
            HistoryRule.REQUIRED_BEFORE_PROVIDED,
            "clients require a from 1.0, servers provide it from 2.0 only (with build flag fast)",
        )
    ]


def test_breach_without_a_build_flag_is_not_repeated_for_each():
    found = linted(("a", ["2.0"], ["1.0"]), head='flags = { fast = "goes fast", slow = "goes slow" }')
    assert len(found) == 1, found


@pytest.mark.parametrize("name", ["databend-meta", "databend-meta-seed"])
def test_shipped_history_reports_the_watch_anomaly(name):
    found = History.load(name).lint()
    assert (found[0].rule, found[0].feature, found[0].text) == (
        HistoryRule.REQUIRED_BEFORE_PROVIDED,
        "watch/init_flag",
        "clients require watch/init_flag from 1.2.726, servers provide it from 1.2.736 only",
    )


def test_shipped_history_reports_the_stale_constant():
    stale = [
        finding.text for finding in History.load("databend-meta").lint() if finding.rule is HistoryRule.CONSTANT_TOO_LOW
    ]
    assert stale[0] == (
        "servers [1.2.755, 1.2.880) ship minimum client 1.2.288, computed is 1.2.676: "
        "clients in [1.2.288, 1.2.676) are let in though transaction/reply_error would be missing"
    )


RELEASES = "".join(
    f'[[release]]\nversion = "{version}"\ndate = {date}\n'
    for version, date in (("1.0.0", "2026-01-01"), ("1.1.0", "2026-03-01"), ("1.2.0", "2026-04-01"))
)
OLD = ("old", ["[1.0.0, 1.2.0)"], [], 'successor = "new"')
NEW = ("new", ["1.1.0"], [])


@pytest.mark.parametrize(
    ("window", "text"),
    [
        ("days = 31", ""),
        ("days = 32", "servers remove old at 1.2.0, 31 days after new appeared at 1.1.0; 32 are promised"),
        ("releases = 1", ""),
        ("releases = 2", "servers remove old at 1.2.0, 1 releases after new appeared at 1.1.0; 2 are promised"),
    ],
)
def test_feature_that_goes_sooner_after_its_successor_than_promised_is_found(window, text):
    found = linted(OLD, NEW, head=f"deprecation = {{ {window} }}\n", tail=RELEASES)
    assert found == ([(HistoryRule.REMOVED_TOO_SOON, text)] if text else [])


def test_days_that_cannot_be_counted_are_found_rather_than_passed():
    releases = RELEASES.replace("date = 2026-03-01\n", "")
    ((rule, text),) = linted(OLD, NEW, head="deprecation = { days = 1 }\n", tail=releases)
    assert rule is HistoryRule.REMOVED_TOO_SOON
    assert "not both have a date" in text


def test_without_a_declared_window_nothing_is_asked_of_it():
    assert not linted(OLD, NEW, tail=RELEASES)


@pytest.mark.parametrize(
    ("head", "old", "problem"),
    [
        ("deprecation = { days = 1 }\n", ("old", ["1.0.0"], [], 'successor = "nwe"'), "'nwe' is no other feature"),
        ("deprecation = { days = 1 }\n", ("old", ["1.0.0"], [], 'successor = "old"'), "'old' is no other feature"),
        ("deprecation = { days = 1, releases = 1 }\n", OLD, "either days or releases"),
        ("deprecation = { days = -1 }\n", OLD, "either days or releases"),
        ("deprecation = {}\n", OLD, "either days or releases"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(head, old, problem):
    with pytest.raises(MalformedError, match=problem):
        linted(old, NEW, head=head, tail=RELEASES)


def test_a_window_without_releases_to_count_by_is_refused():
    with pytest.raises(MalformedError, match=r"\[\[release\]\]"):
        linted(OLD, NEW, head="deprecation = { releases = 1 }\n")
