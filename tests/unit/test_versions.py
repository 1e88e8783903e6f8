"""Release numbers that real engines print."""

import itertools
import time

import pytest

from halocline.versions import LOWEST, Version, find_versions

IN_ORDER = [
    ["nonsense"],
    ["0-dev", "0.0.0-nightly"],
    ["0.0.0-SNAPSHOT"],
    ["0", "0.0", "0.0.0"],
    ["0.10.2"],
    ["0.12.2rc1", "0.12.2-rc-1", "0.12.2-RC1"],
    ["0.12.2", "v0.12.2", "0.12.2.0"],
    ["0.12.2-amzn-0", "0.12.2-AMZN-0"],
    ["0.12.2-amzn-9"],
    ["0.12.2-amzn-10"],
    ["0.12.3"],
    ["1.1.0-dev", "1.1.0.dev0"],
    ["1.1.0a1", "1.1.0-alpha1", "1.1.0-alpha.1"],
    ["1.1.0-beta.2", "1.1.0b2"],
    ["1.1.0-M3", "1.1.0-milestone-3"],
    ["1.1.0-preview4"],
    ["1.1.0-CR5", "1.1.0rc5", "1.1.0c5"],
    ["1.1.0-rc10"],
    ["1.1.0-rc10-amzn-1"],
    ["1.1.0-SNAPSHOT"],
    ["1.1.0", "1.1", "V1.1"],
    ["1.1.0-incubating"],
    ["1.1.0.post1"],
    ["1.1.1"],
    ["1.2.770"],
    ["1.2.1000"],
    ["1.10"],
    ["3.5.0"],
    ["3.5.0-databricks-1"],
    ["4.0.0rc1"],
    ["4.0.0"],
    ["v6.5.0-alpha"],
    ["6.5.0"],
    ["13.3", "13.3.x"],
    ["13.3.x-scala2.12"],
    ["13.3.1"],
    ["479"],
    ["260205.0.0", "260205"],
]


@pytest.mark.parametrize("position", range(len(IN_ORDER)), ids=lambda position: IN_ORDER[position][0])
def test_a_version_stands_in_its_place_among_all_others(position):
    for text in IN_ORDER[position]:
        one = Version.parse(text)
        for other_position, others in enumerate(IN_ORDER):
            for other in map(Version.parse, others):
                expected = (position > other_position) - (position < other_position)
                found = (one > other) - (one < other)
                assert found == expected, f"{one} against {other}"
                assert (one == other) == (expected == 0), f"{one} against {other}"
                assert (one <= other, one >= other) == (expected <= 0, expected >= 0), f"{one} against {other}"
                if expected == 0:
                    assert hash(one) == hash(other), f"{one} and {other}"


@pytest.mark.parametrize(
    ("text", "core", "pre_release", "tag"),
    [
        ("1.2.770", (1, 2, 770), "", ""),
        ("4.0.0rc1", (4, 0, 0), "rc1", ""),
        ("1.1.0-SNAPSHOT", (1, 1, 0), "snapshot", ""),
        ("v6.5.0-alpha", (6, 5, 0), "alpha", ""),
        ("0.12.2-amzn-0", (0, 12, 2), "", "amzn-0"),
        ("3.5.0-databricks-1", (3, 5, 0), "", "databricks-1"),
        ("13.3.x-scala2.12", (13, 3), "", "scala2.12"),
        ("479", (479,), "", ""),
        ("1.0", (1, 0), "", ""),
        ("260205.0.0", (260205, 0, 0), "", ""),
        ("1.1.0-rc2-amzn-3", (1, 1, 0), "rc2", "amzn-3"),
        ("2.4.0-cdh6.3.2", (2, 4, 0), "", "cdh6.3.2"),
        ("2.3.0-mapr-1808", (2, 3, 0), "", "mapr-1808"),
        ("1.2.823-nightly", (1, 2, 823), "nightly", ""),
        ("1.0.0-beta.2+build.7", (1, 0, 0), "beta2", "build.7"),
        ("  1.4.0\n", (1, 4, 0), "", ""),
    ],
)
def test_a_version_is_taken_apart(text, core, pre_release, tag):
    version = Version.parse(text)
    assert (version.core, version.pre_release, version.tag, version.known) == (core, pre_release, tag, True)
    assert version.is_pre_release == bool(pre_release)
    assert str(version) == text.strip()


@pytest.mark.parametrize("build", ["0.12.2-amzn-0", "3.5.0-databricks-1", "2.4.0-cdh6.3.2", "1.1.0+vendor", "3.4.1_4"])
def test_a_vendors_build_is_not_below_its_release(build):
    version = Version.parse(build)
    assert version >= version.release
    assert version.release == Version.of(*version.core)
    following = (*version.core[:-1], version.core[-1] + 1)
    assert version < Version.of(*following)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "latest", "x.1", "-1", "1.0-", "1..2", "1.", "1,0", "1.0 beta", "v", "None", "${project.version}"),
        *("1.0²", "٣.٤", "1.0-\u017fnapshot", "1.0\0", "∞", "1" * 500, "1." * 5000),
    ],
)
def test_what_holds_no_version_is_unknown_and_below_everything(text):
    version = Version.parse(text)
    assert not version.known
    assert version < LOWEST
    assert not version.is_zero
    assert not version.is_pre_release


@pytest.mark.parametrize(("text", "expected"), [("0", True), ("0.0.0", True), ("0.0.0-dev", True), ("0.0.1", False)])
def test_zero_is_recognised(text, expected):
    assert Version.parse(text).is_zero is expected


def test_large_components_are_kept():
    assert Version.of(1, 2, 1000) > Version.of(1, 2, 999)
    assert Version.of(1, 1000, 0) < Version.of(2, 0, 0)
    assert Version.parse("1.2.9007199254740993") > Version.parse("1.2.9007199254740992")


def test_a_version_is_parsed_from_itself():
    version = Version.parse("1.2.3")
    assert Version.parse(version) is version


def test_a_version_compares_with_nothing_else():
    assert Version.of(1) != "1"
    assert Version.of(1) != 1
    with pytest.raises(TypeError):
        assert Version.of(1) < "2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Apache-Spark/3.5.0 Delta-Lake/3.1.0", [("Apache-Spark", "3.5.0"), ("Delta-Lake", "3.1.0")]),
        (
            "Databricks-Runtime/13.3.x-scala2.12",
            [("Databricks-Runtime", "13.3.x-scala2.12")],
        ),
        ("delta-rs:py-1.6.6", [("delta-rs:py", "1.6.6")]),
        ("trino 479", [("trino", "479")]),
        ("Spark v3.5.0 (vendor)", [("Spark", "v3.5.0")]),
        ("deltalake@1.6.6;hudi@1.1.0-SNAPSHOT", [("deltalake", "1.6.6"), ("hudi", "1.1.0-SNAPSHOT")]),
        ("no version here", []),
        ("", []),
        ("3.5.0", []),
    ],
)
def test_products_and_versions_are_found_in_combined_text(text, expected):
    assert [(product, str(version)) for product, version in find_versions(text)] == expected


HOSTILE = [
    ("a", 200_000),
    ("1.", 100_000),
    ("1-", 100_000),
    ("a/", 100_000),
    ("a:", 100_000),
    ("a ", 100_000),
    ("rc1", 80_000),
    ("1rc", 80_000),
    ("-", 200_000),
    (" ", 200_000),
    ("v1", 100_000),
    ("a1.", 80_000),
    ("x/a:", 60_000),
]


@pytest.mark.parametrize(("piece", "times"), HOSTILE, ids=[repr(piece) for piece, _ in HOSTILE])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("1", "!"), ("a/1", "!"), ("1.0-rc", "\n")])
def test_hostile_text_is_read_in_bounded_time(piece, times, before, after):
    for length in (150 // len(piece), times):
        text = before + piece * length + after
        begun = time.process_time()
        Version.parse(text)
        find_versions(text)
        taken = time.process_time() - begun
        assert taken < 0.5, f"{before!r} + {piece!r} * {length} + {after!r} takes {taken:.2f} s"


def test_every_pre_release_word_is_below_the_release_in_any_spelling():
    words = [
        "dev",
        "nightly",
        "a",
        "alpha",
        "b",
        "beta",
        "m",
        "milestone",
        "pre",
        "preview",
        "c",
        "cr",
        "rc",
        "snapshot",
    ]
    for word, left, right, shout in itertools.product(
        words, ["", "-", ".", "_"], ["", "-", ".", "_"], [str, str.upper]
    ):
        text = shout(f"1.2.3{left}{word}{right}1")
        assert Version.of(1, 2, 2) < Version.parse(text) < Version.of(1, 2, 3), text
