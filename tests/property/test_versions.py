"""The order of versions is one, and no text breaks the parser."""

from hypothesis import example, given
from hypothesis import strategies as st

from halocline.spans import SpanSet
from halocline.versions import LOWEST, Version, find_versions

NUMBERS = st.sampled_from([0, 1, 2, 9, 10, 99, 100, 999, 1000, 1001, 260205])
CORES = st.lists(NUMBERS, min_size=1, max_size=4)
PRE_RELEASES = ["", "-dev", "a1", "-alpha", "-alpha.2", "b1", "-M1", "-preview", "rc1", "-RC2", "rc10", "-SNAPSHOT"]
TAGS = ["", "-amzn-0", "-amzn-10", "-databricks-1", ".x-scala2.12", "+local", ".post1", "-cdh6.3.2", "_4", "-AMZN-0"]

texts = st.builds(
    lambda prefix, core, pre_release, tag: f"{prefix}{'.'.join(map(str, core))}{pre_release}{tag}",
    st.sampled_from(["", "v", "V", " "]),
    CORES,
    st.sampled_from(PRE_RELEASES),
    st.sampled_from(TAGS),
)
near_misses = st.text(alphabet="0123456789.-_+vxrcabmdetaSNAPHOT /:@\u017f²٣∞\n\0", max_size=30)
versions = (texts | near_misses | st.text(max_size=20)).map(Version.parse)


@given(versions, versions)
def test_any_two_are_in_exactly_one_relation(one, other):
    assert (one < other) + (one == other) + (one > other) == 1
    assert (one <= other) == (not one > other)
    assert (one >= other) == (not one < other)
    assert (one < other) == (other > one)
    assert (one == other) == (other == one)


@given(versions, versions, versions)
def test_the_order_is_transitive(one, two, three):
    low, middle, high = sorted([one, two, three])
    assert low <= middle <= high
    assert low <= high
    if one <= two and two <= three:
        assert one <= three
    if one == two and two == three:
        assert one == three


@given(versions, versions)
def test_what_is_equal_hashes_alike(one, other):
    if one == other:
        assert hash(one) == hash(other)
    assert one == Version.parse(one.text)
    assert hash(one) == hash(Version.parse(one.text))


@given(CORES, CORES, st.sampled_from(PRE_RELEASES), st.sampled_from(TAGS), st.integers(0, 3))
def test_the_core_decides_first_and_trailing_zeros_do_not_count(one, other, pre_release, tag, zeros):
    length = max(len(one), len(other))
    padded = [core + [0] * (length - len(core)) for core in (one, other)]
    plain, decorated = Version.of(*one), Version.parse(".".join(map(str, other)) + pre_release + tag)
    if padded[0] != padded[1]:
        assert (plain < decorated) == (padded[0] < padded[1])
    assert Version.of(*one, *[0] * zeros) == plain


@given(CORES, st.sampled_from(PRE_RELEASES[1:]), st.sampled_from(TAGS[1:]))
def test_pre_releases_come_before_and_vendor_builds_after_the_release(core, pre_release, tag):
    plain = ".".join(map(str, core))
    release = Version.parse(plain)
    before, build = Version.parse(plain + pre_release), Version.parse(plain + tag)
    assert before < release < build
    assert before.is_pre_release
    assert not build.is_pre_release
    assert before < Version.parse(plain + pre_release + tag) < release
    following = Version.of(*core[:-1], core[-1] + 1)
    assert build < following
    assert release == before.release == build.release == following.release or following != release


@given(st.text())
@example("1.0-\u017fnapshot")
@example("1" * 5000)
@example("\ud800")
def test_any_text_is_a_version_known_or_not(text):
    version = Version.parse(text)
    assert version.text == text.strip()
    assert version.known == (version in SpanSet.everything())
    assert version.known == (version >= LOWEST)
    if version.known:
        assert version.core
        assert version.is_zero == (not any(version.core))
    for product, found in find_versions(text):
        assert found.known
        assert product in text


@given(near_misses)
def test_text_that_looks_like_a_version_never_breaks_the_parser(text):
    version = Version.parse(text)
    assert Version.parse(version.text) == version
    find_versions(text)


@given(st.lists(st.tuples(st.sampled_from(["Apache-Spark", "Delta-Lake", "trino", "x_y"]), texts.map(str.strip))))
def test_products_are_found_in_the_order_they_stand(pairs):
    text = " ".join(f"{product}/{version}" for product, version in pairs)
    assert find_versions(text) == tuple((product, Version.parse(version)) for product, version in pairs)
