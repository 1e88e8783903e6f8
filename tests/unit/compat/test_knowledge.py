"""Knowledge files: what ships is sound, and what is not is refused with the reason."""

import pytest

from halocline import __version__
from halocline.compat.answer import Answer
from halocline.compat.breaks import next_step
from halocline.compat.features import features, rules
from halocline.compat.knowledge import Knowledge
from halocline.compat.matrix import feature_stretches, tokens_for
from halocline.compat.product import ANY, Evidence, is_number
from halocline.compat.release import Release
from halocline.compat.support import support_of
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.errors import InputError, MalformedError, NotFoundError
from halocline.versions import Version

PRODUCTS = Knowledge.load().products

ASKED_FOR = {
    *("delta-spark", "delta-kernel-java", "delta-kernel-rs", "deltalake", "trino", "duckdb-delta"),
    *("databricks-runtime", "hudi", "hudi-rs", "indextables4spark", "halocline"),
    *(
        "duckdb",
        "polars",
        "daft",
        "snowflake",
        "fabric-runtime",
        "athena",
        "bigquery",
        "delta-flink",
        "presto",
        "redshift",
    ),
}


def ok_spans(product, operation, token):
    found = feature_stretches(PRODUCTS[product], PRODUCTS[product].formats[0], operation, token)
    return [str(each) for each in found if each.answer is Answer.OK and not each.only_unused]


def written(folder, **changes):
    """A knowledge file with changes, loaded."""
    lines = {
        "product": '"thing"',
        "title": '"Thing"',
        "format": '"delta"',
        "first": '"1.0"',
        "last": '"2.0"',
        "unlisted": '"refused"',
        "source": '"here"',
    } | changes.pop("top", {})
    fact = {"operation": '"read"', "tokens": '["reader 1"]', "spans": '"1.0"', "source": '"here"'} | changes
    text = "".join(f"{key} = {value}\n" for key, value in lines.items() if value)
    text += "[[fact]]\n" + "".join(f"{key} = {value}\n" for key, value in fact.items() if value)
    (folder / "thing.toml").write_text(text)
    return Knowledge.load(folder).product("thing")


def test_every_product_asked_for_has_a_file():
    assert PRODUCTS.keys() >= ASKED_FOR


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=lambda product: product.name)
def test_every_fact_has_a_source_and_names_something_that_exists(product):
    for fact in product.facts:
        assert fact.source.strip(), f"{fact.tokens} has no source"
        how, known = rules(fact.format), features(fact.format)
        aliases = {alias for record in known.values() for alias in record.aliases}
        for token in fact.tokens:
            if is_number(token):
                word, number = token.rsplit(" ", 1)
                assert word in ("reader", "writer", how.level_name), token
                # One beyond the highest number stands for versions that do not exist yet.
                assert int(number) <= max(*how.readers, *how.writers, *(level.number for level in how.levels), 0) + 1
            else:
                assert token == ANY or token.partition(":")[0] in known.keys() | aliases, token


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=lambda product: product.name)
def test_spans_begin_and_end_at_known_releases(product):
    for each in (*product.facts, *product.pins):
        outside = [str(bound) for bound in each.spans.boundaries if not product.knows(bound)]
        assert outside == [], f"{getattr(each, 'tokens', '')} {each.spans} leaves the known range of {product.name}"


@pytest.mark.parametrize(
    ("product", "operation", "token", "spans"),
    [
        ("delta-spark", "write", "writer 6", ["[1.2.0, 2.4.0)", "3.3.0"]),
        ("delta-spark", "write", "writer 7", ["2.3.0"]),
        ("delta-spark", "read", "deletionVectors", ["2.3.0"]),
        ("delta-spark", "write", "inCommitTimestamp-preview", ["[3.2.0, 3.3.0)"]),
        ("delta-spark", "read", "catalogOwned-preview", ["[4.0.0, 4.0.1)"]),
        ("delta-spark", "write", "collations", []),
        ("delta-kernel-java", "read", "v2Checkpoint", ["3.2.0"]),
        ("delta-kernel-java", "write", "typeWidening", ["[3.3.0, 4.0.0)", "4.1.0"]),
        ("delta-kernel-rs", "read", "v2Checkpoint", ["0.9.0"]),
        ("delta-kernel-rs", "write", "v2Checkpoint", ["0.18.0"]),
        ("delta-kernel-rs", "write", "checkConstraints", []),
        ("deltalake", "read", "v2Checkpoint", ["[1.3.2, 1.6.0)", "1.6.3"]),
        ("deltalake", "read.arrow", "timestampNtz", ["0.16.0"]),
        ("deltalake", "write", "columnMapping", ["1.6.1"]),
        ("trino", "read", "deletionVectors", ["469"]),
        ("trino", "read", "v2Checkpoint", ["444"]),
        ("duckdb-delta", "read", "v2Checkpoint", ["0.4.0"]),
        ("duckdb-delta", "read", "deletionVectors", ["0.3.0"]),
        ("hudi", "read", "table version 8", ["1.0.0"]),
        ("hudi", "read", "table version 5", ["0.12.0"]),
        ("hudi", "write", "table version 9", ["1.1.0"]),
        ("hudi-rs", "read", "table version 6", ["0.1.0"]),
        ("hudi-rs", "read", "table version 9", ["0.5.0"]),
        ("indextables4spark", "read", "reader 4", ["0.4.5"]),
    ],
)
def test_support_has_the_lifetimes_and_holes_of_the_real_product(product, operation, token, spans):
    assert ok_spans(product, operation, token) == spans


def test_this_package_is_a_product_and_its_own_release_is_known():
    own = Release.parse(f"halocline@{__version__}")
    assert PRODUCTS["halocline"].knows(own.version)
    assert {"reader 3", "columnMapping", "deletionVectors"} <= support_of(own, "delta", "read").provided
    assert {"writer 7", "rowTracking", "identityColumns"} <= support_of(own, "delta", "write").provided


def test_this_package_writes_nothing_that_it_cannot_read():
    for format in ("delta", "hudi", "index"):
        own = Release.parse(f"halocline@{__version__}")
        reads = support_of(own, format, "read").provided
        needed = set(tokens_for(format, "read")) & support_of(own, format, "write").provided
        assert needed <= reads, f"{format}: written but not read: {sorted(needed - reads)}"


@pytest.mark.parametrize(
    ("version", "known"),
    [("0.5.7", False), ("0.5.8", True), ("1.6.6", True), ("1.6.6-amzn-0", True), ("1.6.7", False), ("1.6.7rc1", False)],
)
def test_only_releases_in_the_known_range_are_known(version, known):
    assert PRODUCTS["deltalake"].knows(Version.parse(version)) is known


def test_a_version_that_is_no_number_is_never_known():
    assert not PRODUCTS["halocline"].knows(Version.parse("latest"))


@pytest.mark.parametrize("name", ["Databricks", "dbr", "DATABRICKS-RUNTIME"])
def test_products_are_found_by_alias_and_in_any_case(name):
    assert Knowledge.load().product(name).name == "databricks-runtime"


def test_an_unknown_product_is_an_error_that_lists_the_known_ones():
    with pytest.raises(NotFoundError) as caught:
        Knowledge.load().product("powerbi")
    assert "deltalake" in caught.value.sides["known"]


def test_a_finer_operation_falls_back_to_its_parent_unless_it_is_separate():
    deltalake = PRODUCTS["deltalake"]
    assert deltalake.lineage("read.query") == ("read.query", "read")
    assert deltalake.lineage("read.arrow") == ("read.arrow",)


def test_a_pin_gives_the_answers_of_the_release_it_names():
    follower = support_of(Release.parse("duckdb-delta@0.4.0"), "delta", "read")
    followed = support_of(Release.parse("delta-kernel-rs@0.12.1"), "delta", "read")
    assert follower.provided == followed.provided


def test_a_pre_release_is_unknown_where_the_release_changes_something():
    support = support_of(Release.parse("delta-spark@3.3.0rc1"), "delta", "read")
    assert support.answer("typeWidening", True, frozenset()).answer is Answer.UNKNOWN
    assert support.answer("deletionVectors", True, frozenset()).answer is Answer.OK
    assert support.answer("collations", True, frozenset()).answer is Answer.REFUSED


def test_a_folder_adds_products_and_replaces_shipped_ones(tmp_path):
    assert written(tmp_path).title == "Thing"
    (tmp_path / "trino.toml").write_text((tmp_path / "thing.toml").read_text().replace('"thing"', '"trino"'))
    knowledge = Knowledge.load(tmp_path)
    assert knowledge.product("trino").title == "Thing"
    assert knowledge.product("deltalake") == PRODUCTS["deltalake"]
    assert Knowledge.load().product("trino").title != "Thing"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"source": '" "'}, "without a source"),
        ({"source": ""}, "lacks 'source'"),
        ({"answer": '"wrong"'}, "does not say what goes wrong"),
        ({"answer": '"maybe"'}, "cannot be used"),
        ({"when": '"sometimes"'}, "cannot be used"),
        ({"colour": '"red"'}, "mean nothing: colour"),
        ({"top": {"product": '"other"'}}, "same name"),
        ({"top": {"last": '"soon"'}}, "where a version must stand"),
        ({"top": {"title": ""}}, "lacks 'title'"),
        ({"top": {"title": '"open'}}, "is not TOML"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused_with_the_rule(tmp_path, changes, complaint):
    with pytest.raises(MalformedError, match=complaint) as caught:
        written(tmp_path, **changes)
    assert caught.value.condition == "MALFORMED_KNOWLEDGE"


def test_two_answers_to_the_same_thing_are_refused(tmp_path):
    (tmp_path / "thing.toml").write_text(
        'product = "thing"\ntitle = "Thing"\nformat = "delta"\nfirst = "1.0"\nunlisted = "refused"\nsource = "a"\n'
        '[[fact]]\noperation = "read"\ntokens = ["reader 1"]\nspans = "1.0"\nsource = "a"\n'
        '[[fact]]\noperation = "read"\ntokens = ["reader 1"]\nspans = "[1.5, 1.7)"\nanswer = "refused"\nsource = "b"\n'
    )
    with pytest.raises(MalformedError, match="in two ways in"):
        Knowledge.load(tmp_path).product("thing")


def test_an_operation_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no operation 'fly'"):
        written(tmp_path, operation='"fly"')


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(NotFoundError, match="no folder of knowledge files"):
        Knowledge.load(tmp_path / "nowhere")


def test_a_claim_about_everything_unlisted_needs_a_source(tmp_path):
    with pytest.raises(MalformedError, match="where it is known from"):
        written(tmp_path, top={"source": ""})
    assert written(tmp_path, top={"source": "", "unlisted": '"unknown"'}).source == ""


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("measured: make compat", Evidence.MEASURED),
        ("measured by us, https://example.org", Evidence.MEASURED),
        ("https://docs.example.org/page", Evidence.VENDOR),
        ("owner/project v1.0: file.scala; https://example.org/issues/1", Evidence.SOURCE),
    ],
)
def test_a_source_tells_how_something_is_known(source, known):
    assert Evidence.of(source) is known


@pytest.mark.parametrize("name", ["fabric", "flink", "prestodb", "redshift-spectrum", "biglake"])
def test_products_are_found_under_the_names_that_people_use(name):
    assert Release.parse(f"{name}@latest").version.known


def test_what_follows_another_product_is_known_no_better_than_that_it_does():
    verdict = can("fabric-runtime@1.3", Terms.using("delta", ["deletionVectors"]))
    assert verdict.ok
    assert verdict.evidence is Evidence.VENDOR
    refused = can("fabric-runtime@1.1", Terms.using("delta", ["deletionVectors"]))
    assert (refused.answer, refused.evidence) == (Answer.REFUSED, Evidence.VENDOR)


SERVICES = ["athena", "bigquery", "databricks-runtime", "fabric-runtime", "redshift", "snowflake"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_tells_how_it_is_numbered_where_a_version_is_not_known(name):
    product = Knowledge.load().product(name)
    verdict = can(f"{name}@0.1", "(1,2)")
    assert verdict.unknown
    assert str(verdict.reasons[0]).endswith(f"; {product.numbering}")
    assert product.numbering.endswith(f": {name}@{product.newest}")


@pytest.mark.parametrize("name", [each for each in SERVICES if Knowledge.load().product(each).by_day])
def test_a_version_that_is_no_day_is_no_older_release_of_a_service_that_goes_by_the_day(name):
    verdict = can(f"{name}@9.1", "(1,2)")
    assert verdict.fix is None
    assert next_step([verdict]) == f"write another version than {name}@9.1: {Knowledge.load().product(name).numbering}"
    assert not can(f"{name}@2019.5", "(1,2)").meant_otherwise, "a day before the first that is known"


@pytest.mark.parametrize(("version", "known"), [("2026.11", True), ("2026.11.30", True), ("2026.12", False)])
def test_the_days_of_the_last_month_that_is_known_are_known(version, known):
    assert Knowledge.load().product("snowflake").knows(Version.parse(version)) == known
