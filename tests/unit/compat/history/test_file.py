"""What a history file may say, and how a bad one is reported."""

from pathlib import Path

import pytest

from halocline.compat.history import History
from halocline.errors import MalformedError, NotFoundError
from halocline.spans import SpanSet

GOOD = """
format = 1
name = "mail"
released = "2.0"
[[feature]]
id = "send"
provided = "1.0"
required = ["[1.0, 1.5)", "1.6"]
"""


def test_file_of_ones_own_is_loaded_by_path(tmp_path):
    path = tmp_path / "mail.toml"
    path.write_text(GOOD)
    history = History.load(path)
    assert history == History.load(str(path))
    assert history.lifetimes[0].required == SpanSet.parse("[1.0, 1.5)", "1.6")


@pytest.mark.parametrize("name", History.shipped())
def test_shipped_history_loads_by_name_and_bears_it(name):
    history = History.load(name)
    assert history.name == name
    assert history.sources
    assert all(row.summary and row.name for row in history.lifetimes)


def test_shipped_names_are_those_of_databend_and_our_own():
    assert History.shipped() == (
        "databend-meta",
        "databend-meta-seed",
        "databend-raft",
        "halocline-fleet",
        "halocline-fleet-push",
    )


def test_unknown_name_is_not_found_and_the_nearest_is_offered():
    with pytest.raises(NotFoundError) as caught:
        History.load("databend-mta")
    assert caught.value.next_step == "Did you mean databend-meta?"
    assert "databend-raft" in caught.value.sides["known"]


@pytest.mark.parametrize("path", ["", ".", "\0", "a" * 5000, "databend-meta/x"])
def test_path_that_is_no_file_is_not_found(path):
    with pytest.raises(NotFoundError):
        History.load(path)


def broken(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


BAD = [
    ("not = [toml", "not TOML"),
    ("\x00\x01", "not TOML"),
    ("", "missing required field `format`"),
    ("a = " + "[" * 5000, "nested too deeply"),
    ("a = 1" + "0" * 5000, "not TOML"),
    (broken("format = 1", "format = 7"), "key format: this release reads format 1, not 7"),
    (broken('name = "mail"', 'name = " "'), "key name: it is empty"),
    (broken('name = "mail"', "name = 5"), "key name: Expected `str`, got `int`"),
    (broken('released = "2.0"', ""), "missing required field `released`"),
    (broken('released = "2.0"', 'released = "soon"'), "key released: 'soon' is not a version"),
    (broken('released = "2.0"', 'released = "2.0"\nbegin = "1.0"'), "unknown field `begin`"),
    (broken('released = "2.0"', f'released = "2.0"\n{"x" * 9000} = 1'), "unknown field `xxx"),
    (broken('released = "2.0"', 'released = "2.0"\nunknown_before = "?"'), "key unknown_before: '?' is not a version"),
    (broken('released = "2.0"', 'released = "2.0"\npre_releases = "no"'), "key pre_releases: Invalid enum value 'no'"),
    (broken('provided = "1.0"', 'provided = "[2.0, 1.0)"'), "key feature[0].provided: span [2.0, 1.0) is empty"),
    (broken('provided = "1.0"', 'provided = "since"'), "key feature[0].provided: span [since, ∞) has a bound"),
    (broken('provided = "1.0"', "provided = 1.0"), "key feature[0].provided: Expected `str | array`, got `float`"),
    (broken('provided = "1.0"', "provided = [1]"), "key feature[0].provided[0]: Expected `str`, got `int`"),
    (broken('provided = "1.0"', "provide = '1.0'"), "key feature[0]: Object contains unknown field `provide`"),
    (broken('"1.6"]', '"1.4"]'), "key feature[0].required: [1.4, ∞) overlaps another span"),
    (broken('id = "send"', 'id = ""'), "key feature[0].id: it is empty"),
    (broken('id = "send"', ""), "key feature[0]: Object missing required field `id`"),
    (GOOD + 'with.fast.required = "1.0"', "key feature[0].with.fast: this flag is not described"),
    (GOOD + '[[yanked]]\nversions = "1.4.1"', "key yanked[0].versions: write [1.4.1, NEXT)"),
    (GOOD + '[[yanked]]\nversions = "[1.4, 1.5)"\nside = "peer"', "key yanked[0].side: Invalid enum value 'peer'"),
    (GOOD + '[[reports_as]]\nversion = "1.4"\nreports = "?"', "key reports_as[0].reports: '?' is not a version"),
    (
        GOOD + '[[reports_as]]\nversion = "1.4"\nreports = "1.3"\nuse = "1.4"',
        "key reports_as[0].use: 1.4 is not later than 1.4",
    ),
    (
        GOOD + '[[constants]]\nsince = "2"\nmin_client = "1"\nmin_server = "1"\n'
        '[[constants]]\nsince = "1"\nmin_client = "1"\nmin_server = "1"',
        "key constants[1].since: 1 does not follow 2",
    ),
    (GOOD.partition("[[feature]]")[0] + "feature = []", "key feature: a history needs at least one feature"),
]


@pytest.mark.parametrize(("text", "problem"), BAD, ids=[problem[:50] for _, problem in BAD])
def test_bad_file_is_malformed_and_names_file_and_key(tmp_path, text, problem):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(MalformedError) as caught:
        History.load(path)
    assert caught.value.condition == "MALFORMED_HISTORY"
    assert str(path) in caught.value.message
    assert problem in caught.value.message
    assert len(caught.value.message) < 400 + len(str(path))


def test_binary_file_is_malformed(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\xfe\x00PAR1")
    with pytest.raises(MalformedError, match="not UTF-8 text") as caught:
        History.load(path)
    assert caught.value.condition == "MALFORMED_HISTORY"


@pytest.mark.parametrize("endless", [False, True])
def test_huge_file_is_refused_before_it_is_read_whole(tmp_path, endless):
    path = Path("/dev/zero") if endless else tmp_path / "huge.toml"
    if not endless:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(MalformedError, match="it has more than the 4,000,000 bytes a history may have"):
        History.load(path)
