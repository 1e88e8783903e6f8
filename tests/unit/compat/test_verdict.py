"""Verdicts: how facts add up, what the reasons say, which fix is nearest, and the gate's message."""

import itertools
import random
import re

import pytest
from tests.support.reached import Reached

from halocline.compat.answer import Answer
from halocline.compat.features import features
from halocline.compat.knowledge import Knowledge
from halocline.compat.matrix import tokens_for
from halocline.compat.metadata import TableMetadata
from halocline.compat.product import OPERATIONS, is_number
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.support import support_of
from halocline.compat.terms import Terms
from halocline.compat.verdict import can, check
from halocline.errors import IncompatibleError, InputError

reached = Reached()
NO_UPGRADES = {"athena", "bigquery", "delta-flink", "delta-rs", "halocline", "redshift"}
"""Products of which no release is known that an upgrade helps with a feature of Delta."""
NAME_NO_RELEASE = NO_UPGRADES | {"databricks-runtime", "snowflake"}
"""Those of which no reason names the release from which on a feature is there."""

VECTORS = "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"


def using(protocol, names) -> Terms:
    return Terms(Terms.read(protocol).protocol, frozenset(names))


def made(folder, *facts, unlisted="refused", name="thing", separate=()):
    """A product with these facts, each `(operation, tokens, spans, extra lines)`."""
    lines = [f'product = "{name}"', 'title = "Thing"', 'format = "delta"', 'first = "1.0"', 'last = "9.0"']
    lines += [f'unlisted = "{unlisted}"', 'source = "made up"', f"separate = {list(separate)}"]
    for operation, tokens, spans, *extra in facts:
        lines += ["[[fact]]", f'operation = "{operation}"', f"tokens = {list(tokens)}", f"spans = {list(spans)}"]
        lines += ['source = "made up"', *extra]
    (folder / f"{name}.toml").write_text("\n".join(lines))
    return Knowledge.load(folder)


# ---- real products


@pytest.mark.parametrize(
    ("release", "protocol", "operation", "answer"),
    [
        ("delta-spark@3.2.0", VECTORS, "read", "ok"),
        ("delta-spark@2.2.0", VECTORS, "read", "refused"),
        ("delta-spark@1.2.0", "(1,6)", "read", "ok"),
        ("delta-spark@2.4.0", "(1,6)", "write", "refused"),
        ("delta-spark@3.3.0", "(1,6)", "write", "ok"),
        ("delta-spark@0.8.0", "(1,3)", "write", "ok"),
        ("delta-spark@0.7.0", "(1,3)", "write", "refused"),
        ("delta-spark@9.9.9", "(1,1)", "read", "unknown"),
        ("deltalake@1.6.6", "(2,5)", "read.query", "ok"),
        ("deltalake@1.6.6", "(2,5)", "read.arrow", "wrong"),
        ("deltalake@1.6.3", "(2,5)", "read.arrow", "refused"),
        ("deltalake@1.6.6", "(3,7|R: columnMapping|W: columnMapping)", "read.arrow", "refused"),
        ("deltalake@1.6.0", "(3,7|R: v2Checkpoint|W: v2Checkpoint)", "read", "refused"),
        ("deltalake@1.6.3", "(3,7|R: v2Checkpoint|W: v2Checkpoint)", "read", "ok"),
        ("deltalake@0.25.5", VECTORS, "read.query", "wrong"),
        ("deltalake@0.25.5", VECTORS, "read.arrow", "refused"),
        ("deltalake@0.6.3", VECTORS, "read", "wrong"),
        ("deltalake@1.6.6", "(1,7|W: checkpointProtection)", "write", "refused"),
        ("trino@426", VECTORS, "read", "refused"),
        ("trino@427", VECTORS, "read", "wrong"),
        ("trino@469", VECTORS, "read", "ok"),
        ("trino@413", VECTORS, "read", "wrong"),
        ("trino@478", "(1,2)", "write.append", "ok"),
        ("trino@478", "(1,2)", "write.delete", "wrong"),
        ("databricks-runtime@12.2.x-scala2.12", VECTORS, "read", "ok"),
        ("databricks-runtime@11.3", VECTORS, "read", "unknown"),
        ("hudi@0.15.0", "hudi(8)", "read", "refused"),
        ("hudi@1.0.2", "hudi(6)", "write", "ok"),
        ("hudi-rs@0.5.0", "hudi(7)", "read", "refused"),
        ("indextables4spark@0.4.0", "index(4,4)", "read", "refused"),
        ("halocline@0.1.0", VECTORS, "write", "ok"),
        ("halocline@0.1.0", "(3,7|R: shiny|W: shiny)", "read", "refused"),
        ("halocline@0.1.0", "(1,7|W: shiny)", "read", "ok"),
        ("powerbi@2.131", "(1,2)", "read", "unknown"),
        ("deltalake@nightly", "(1,2)", "read", "unknown"),
        ("deltalake@latest", "(1,2)", "read", "ok"),
        ("deltalake@1.6.6", "hudi(6)", "read", "unknown"),
    ],
)
def test_real_releases_get_the_answer_that_was_measured_or_read(release, protocol, operation, answer):
    verdict = can(release, protocol, operation)
    assert str(verdict.answer) == answer, verdict


def test_use_decides_where_a_release_looks_at_use():
    kernel = "delta-kernel-java@4.1.0"
    listed = "(1,7|W: checkConstraints)"
    assert can(kernel, using(listed, []), "write").ok
    assert can(kernel, using(listed, ["checkConstraints"]), "write").refused
    assert can(kernel, listed, "write").refused


def test_a_legacy_feature_that_may_be_in_use_counts_where_its_use_would_be_wrong():
    release = "delta-spark@2.2.0"
    assert can(release, "(1,6)", "write").wrong
    assert can(release, using("(1,6)", ["identityColumns"]), "write").wrong
    assert can(release, using("(1,6)", []), "write").ok
    # A refusal would be harmless, so it is not assumed.
    assert can("delta-spark@1.2.0", "(1,4)", "write").ok
    assert can("delta-spark@1.2.0", using("(1,4)", ["changeDataFeed"]), "write").refused


def test_a_mode_of_a_feature_counts_where_a_product_tells_modes_apart():
    mapped = ["columnMapping", "columnMapping:id"]
    assert can("delta-spark@2.0.0", using("(2,5)", mapped), "read").refused
    assert can("delta-spark@2.2.0", using("(2,5)", mapped), "read").ok
    assert can("delta-kernel-rs@0.20.0", using("(2,7|W: columnMapping)", mapped), "read").ok


def test_a_column_widened_to_long_is_refused_on_spark_3_5_where_one_widened_to_integer_is_read():
    protocol = Protocol.parse("(3,7|R: typeWidening|W: typeWidening)")
    on = {"delta.enableTypeWidening": "true"}
    to_integer = Terms.of(protocol, TableMetadata(on, widened_to=frozenset({"integer"})))
    to_long = Terms.of(protocol, TableMetadata(on, widened_to=frozenset({"integer", "long"})))
    assert can("delta-spark@3.3.2", to_integer, "read").ok
    assert can("delta-spark@3.3.2", to_long, "read").refused
    assert can("delta-spark@4.0.1", to_long, "read").ok


def test_release_that_asks_only_what_it_commits_deletes_nothing_from_mapped_columns_and_says_it_did():
    for protocol in ("(2,5)", "(2,7|W: columnMapping)"):
        mapped = using(protocol, ["columnMapping", "columnMapping:name"])
        assert can("delta-spark@1.1.0", mapped, "read").wrong
        assert can("delta-spark@1.1.0", mapped, "write.append").refused
        assert can("delta-spark@1.1.0", mapped, "write.delete").wrong


def test_table_of_a_catalog_is_refused_by_its_path_and_not_by_its_name():
    managed = "(3,7|R: catalogManaged,vacuumProtocolCheck|W: catalogManaged,inCommitTimestamp,vacuumProtocolCheck)"
    assert can("delta-spark@4.4.0", managed, "read.path").refused
    assert can("delta-spark@4.4.0", managed, "read").ok


def test_a_coarse_question_covers_finer_operations_that_go_wrong():
    verdict = can("deltalake@1.6.6", "(2,5)", "read")
    assert verdict.wrong
    assert "read.arrow" in str(verdict)
    # One that refuses is harmless and does not count.
    assert can("deltalake@1.6.6", VECTORS, "read").ok
    assert can("deltalake@1.6.6", VECTORS, "read.arrow").refused


# ---- the rule, on made-up products


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "unknown"], "unknown"),
        (["unknown", "wrong"], "wrong"),
        (["wrong", "ok"], "wrong"),
        (["wrong", "refused"], "refused"),
        (["unknown", "refused"], "refused"),
        (["wrong", "unknown", "refused"], "refused"),
    ],
)
def test_a_refusal_stops_everything_and_danger_outweighs_ignorance(tmp_path, answers, expected):
    names = ["columnMapping", "deletionVectors", "timestampNtz"][: len(answers)]
    facts = [("read", ["reader 3"], ["1.0"])]
    facts += [
        ("read", [name], ["1.0"], f'answer = "{answer}"', 'what = "this and that"')
        for name, answer in zip(names, answers, strict=True)
    ]
    knowledge = made(tmp_path, *facts)
    for order in itertools.permutations(names):
        listed = ",".join(order)
        verdict = can("thing@2.0", f"(3,7|R: {listed}|W: {listed})", "read", knowledge=knowledge)
        assert str(verdict.answer) == expected, verdict


def test_a_conditional_fact_counts_before_a_plain_one_and_a_finer_one_before_its_parent(tmp_path):
    knowledge = made(
        tmp_path,
        ("read", ["reader 1", "reader 3", "deletionVectors"], ["1.0"]),
        ("read", ["deletionVectors"], ["1.0"], 'when = "used"', 'answer = "refused"'),
        ("read.stream", ["reader 1"], ["1.0"], 'answer = "refused"'),
    )
    assert can("thing@2.0", using(VECTORS, []), "read", knowledge=knowledge).ok
    assert can("thing@2.0", using(VECTORS, ["deletionVectors"]), "read", knowledge=knowledge).refused
    assert can("thing@2.0", "(1,1)", "read", knowledge=knowledge).ok
    assert can("thing@2.0", "(1,1)", "read.stream", knowledge=knowledge).refused
    assert can("thing@2.0", "(1,1)", "read.changes", knowledge=knowledge).ok


def test_a_fact_about_everything_is_about_features_not_numbers(tmp_path):
    knowledge = made(tmp_path, ("read", ["*", "reader 3"], ["1.0"]))
    assert can("thing@2.0", "(3,7|R: shiny|W: shiny)", "read", knowledge=knowledge).ok
    assert can("thing@2.0", "(1,1)", "read", knowledge=knowledge).refused


def test_conditions_can_name_what_else_the_table_has(tmp_path):
    knowledge = made(
        tmp_path,
        ("read", ["reader 1"], ["1.0"]),
        (
            "read",
            ["reader 1"],
            ["1.0"],
            'with = ["writer 6"]',
            'without = ["using identityColumns"]',
            'answer = "refused"',
        ),
    )
    assert can("thing@2.0", "(1,2)", knowledge=knowledge).ok
    assert can("thing@2.0", using("(1,6)", []), knowledge=knowledge).refused
    assert can("thing@2.0", using("(1,6)", ["identityColumns"]), knowledge=knowledge).ok


def test_a_separate_operation_has_only_its_own_facts(tmp_path):
    facts = [("read", ["reader 1"], ["1.0"]), ("read.arrow", ["reader 2"], ["1.0"])]
    assert can("thing@2.0", "(1,1)", "read.arrow", knowledge=made(tmp_path, *facts)).ok
    assert can("thing@2.0", "(1,1)", "read.arrow", knowledge=made(tmp_path, *facts, separate=["read.arrow"])).refused


def test_the_quick_answer_and_the_answer_token_by_token_agree():
    """`can` has shortcuts for the common yes and no; here every token is asked one by one."""
    chance = random.Random(11)
    names = list(features("delta"))
    releases = [
        Release(product.name, bound)
        for product in Knowledge.load().products.values()
        if "delta" in product.formats
        for bound in product.boundaries("delta", "write")
    ]
    for _ in range(3000):
        release = chance.choice(releases)
        protocol = Protocol.of("delta", chance.sample(names, chance.randint(0, 4)))
        operation = chance.choice(["read", "write", "read.arrow", "write.append", "read.query"])
        in_use = frozenset(chance.sample(sorted(protocol.features), chance.randint(0, len(protocol.features))))
        support = support_of(release, "delta", operation)
        required = protocol.requires(operation, in_use)
        table = protocol.requires("write", in_use) | {f"using {name}" for name in in_use}
        found = {support.answer(token, token in in_use, table).answer for token in required}
        slow = Answer.REFUSED if Answer.REFUSED in found else Answer.loudest(found)
        quick = can(release, using(protocol, in_use), operation)
        if quick.wrong and slow is not Answer.WRONG:
            assert support.finer, f"{quick!r} is wrong although no token and no finer operation is"
        else:
            assert quick.answer is slow, f"{quick!r}, in use {sorted(in_use)}: token by token it is {slow}"


# ---- reasons and fixes


@pytest.mark.parametrize(
    ("release", "protocol", "operation", "reasons"),
    [
        ("trino@426", VECTORS, "read", ["reads deletionVectors from 427, wrongly before 469"]),
        ("trino@426", VECTORS, "read.scan", ["reads (scan) deletionVectors from 427"]),
        ("trino@427", VECTORS, "write", ["writes deletionVectors from 469, wrongly"]),
        ("delta-spark@2.4.0", "(1,6)", "write", ["accepts writer version 6 from 3.3.0"]),
        ("deltalake@1.6.6", "(3,7|R: vacuumProtocolCheck|W: vacuumProtocolCheck)", "read.query",
         ["reads (query) vacuumProtocolCheck only before 1.6.0"]),
        ("delta-spark@4.4.0", "(1,7|W: collations)", "write", ["no known release writes collations"]),
        ("deltalake@1.6.6", "(2,5)", "read.arrow", ["columnMapping: all mapped columns come back NULL"]),
        ("powerbi@2.131", "(1,2)", "read", ["nothing is known about powerbi"]),
        ("trno@426", "(1,2)", "read", ["nothing is known about trno; the nearest is trino"]),
        ("deltalake@1.7.0", "(1,2)", "read", ["nothing is known about deltalake 1.7.0: known are 0.5.8 to 1.6.6"]),
        ("trino@480", "hudi(6)", "read", ["nothing is known about trino and hudi tables"]),
        ("trino@<unknown>", "(1,2)", "read", ["<unknown> is no version of trino"]),
        ("databricks-runtime@11.3", "(1,7|W: rowTracking,domainMetadata)", "write",
         ["whether it writes domainMetadata is not known", "whether it writes rowTracking is not known",
          "whether it accepts writer version 7 is not known"]),
        ("delta-spark@4.0.0", "(1,2)", "write", []),
    ],
)  # fmt: skip
def test_reasons_say_feature_by_feature_what_is_the_matter(release, protocol, operation, reasons):
    assert [reason.text for reason in can(release, protocol, operation).reasons] == reasons


def test_a_refusal_that_depends_on_use_hides_no_danger_where_use_is_not_known():
    used = frozenset({"deletionVectors", "invariants"})
    assert can("trino@483", Terms(Protocol.parse(VECTORS), used), "write.optimize").refused
    assert can("trino@483", Terms(Protocol.parse(VECTORS), used - {"invariants"}), "write.optimize").wrong
    assert can("trino@483", VECTORS, "write.optimize").wrong


@pytest.mark.parametrize(
    "product", [name for name, each in Knowledge.load().products.items() if "delta" in each.formats]
)
def test_a_release_that_a_reason_names_is_not_silently_wrong_without_a_word(product):
    known, named = Knowledge.load().product(product), 0
    for operation, name in itertools.product(OPERATIONS, features("delta")):
        terms = Terms.using("delta", [name])
        for version in known.boundaries("delta", operation):
            for reason in can(Release(product, version), terms, operation).reasons:
                since = re.search(r" from (\S+?)(, wrongly.*)?$", reason.text)
                if since and reason.answer is Answer.REFUSED and "wrongly" not in reason.text:
                    named += 1
                    assert not can(f"{product}@{since[1]}", terms, operation).wrong, f"{version}: {reason.text}"
    assert (named > 0) == (product not in NAME_NO_RELEASE)


def test_reasons_carry_the_source_of_the_fact():
    (reason,) = can("deltalake@1.6.6", "(2,5)", "read.arrow").reasons
    assert (reason.feature, reason.answer, reason.source) == ("columnMapping", Answer.WRONG, "measured: make compat")


@pytest.mark.parametrize(
    ("release", "protocol", "operation", "fix"),
    [
        ("deltalake@1.0.2", VECTORS, "read", "upgrade to deltalake 1.3.2 or later, or drop deletionVectors"),
        ("trino@426", VECTORS, "read", "upgrade to trino 469 or later, or drop deletionVectors"),
        ("delta-spark@2.4.0", "(1,6)", "write", "upgrade to delta-spark 3.3.0 or later"),
        ("deltalake@1.6.0", "(3,7|R: v2Checkpoint|W: v2Checkpoint)", "read",
         "upgrade to deltalake 1.6.3 or later, or drop v2Checkpoint"),
        ("deltalake@1.0.2", "(3,7|R: v2Checkpoint|W: v2Checkpoint)", "read",
         "upgrade to deltalake 1.3.2, or drop v2Checkpoint"),
        ("deltalake@1.6.6", "(3,7|R: vacuumProtocolCheck|W: vacuumProtocolCheck)", "read",
         "only older releases work: deltalake from 1.3.2 and before 1.6.0, or drop vacuumProtocolCheck"),
        ("deltalake@1.6.6", "(1,7|W: checkpointProtection)", "write", "drop checkpointProtection"),
        ("delta-spark@4.0.1", "(3,7|R: catalogOwned-preview|W: catalogOwned-preview)", "read",
         "only older releases work: delta-spark from 4.0.0 and before 4.0.1"),
        ("deltalake@1.7.0", "(1,2)", "read", "known to work is deltalake from 0.5.8 on"),
        ("dbr@11.3", VECTORS, "read", "upgrade to databricks-runtime 12.2 or later, or drop deletionVectors"),
        ("deltalake@0.5.8", "(3,7|R: timestampNtz|W: checkpointProtection,timestampNtz)", "write",
         "upgrade to deltalake 0.16.0 or later and drop checkpointProtection"),
        ("deltalake@0.5.8", "(1,7|W: allowColumnDefaults,checkpointProtection)", "write",
         "upgrade to deltalake 0.24.0 and drop checkpointProtection"),
        ("delta-spark@4.4.0", "(1,7|W: collations)", "write", "None"),
        ("powerbi@2.131", "(1,2)", "read", "None"),
        ("delta-spark@4.0.0", "(1,2)", "write", "None"),
    ],
)  # fmt: skip
def test_the_nearest_fix_is_the_smallest_release_or_a_feature_that_can_go(release, protocol, operation, fix):
    assert str(can(release, protocol, operation).fix) == fix


def test_fix_of_a_feature_that_is_listed_and_not_in_use_yet_is_right_when_it_is():
    verdict = can("trino@426", Terms(Protocol.parse(VECTORS), frozenset()), "read")
    assert str(verdict) == "refused: reads deletionVectors from 427, wrongly before 469"
    assert str(verdict.fix) == "upgrade to trino 469 or later, or drop deletionVectors"
    assert can("trino@427", verdict.terms, "read").ok, "as long as there is no vector"


@pytest.mark.parametrize(
    "product", [name for name, each in Knowledge.load().products.items() if "delta" in each.formats]
)
def test_no_release_is_proposed_that_is_wrong_once_a_listed_feature_is_in_use(product):
    known, proposed = Knowledge.load().product(product), 0
    for operation, name in itertools.product(OPERATIONS, features("delta")):
        terms = Terms(Protocol.of("delta", [name, "rowTracking"]), frozenset())
        used = terms.with_use_of([name])
        for version in known.boundaries("delta", operation):
            verdict = can(Release(product, version), terms, operation)
            fix = verdict.fix
            for upgrade in filter(None, [fix and fix.upgrade]):
                proposed += 1
                assert not can(upgrade, used, operation).wrong, f"{verdict!r}: {fix}"
            for both in filter(None, [fix and fix.together]):
                assert name in both.drop or not can(both.upgrade, used, operation).wrong, f"{verdict!r}: {fix}"
    assert (proposed > 0) == (product not in NO_UPGRADES)


def test_a_proposed_fix_really_works():
    chance = random.Random(5)
    names = list(features("delta"))
    products = [each for each in Knowledge.load().products.values() if "delta" in each.formats]
    proposals = together = 0
    for _ in range(400):
        product = chance.choice(products)
        release = Release(product.name, chance.choice(product.boundaries("delta", "write")))
        protocol = Protocol.of("delta", chance.sample(names, chance.randint(1, 3)))
        verdict = can(release, protocol, "write")
        if verdict.ok or verdict.fix is None:
            continue
        if verdict.fix.upgrade:
            proposals += 1
            assert can(verdict.fix.upgrade, protocol, "write").ok, f"{verdict!r}: {verdict.fix}"
        if verdict.fix.drop:
            proposals += 1
            smaller = protocol
            for name in verdict.fix.drop:
                smaller = smaller.without_feature(name)
            assert can(release, smaller, "write").ok, f"{verdict!r}: {verdict.fix}"
        if (both := verdict.fix.together) is not None:
            proposals += 1
            together += 1
            smaller = protocol
            for name in both.drop:
                smaller = smaller.without_feature(name)
            assert can(both.upgrade, smaller, "write").ok, f"{verdict!r}: {verdict.fix}"
            assert not can(both.upgrade, protocol, "write").ok, f"the upgrade alone would do: {verdict.fix}"
            assert not can(release, smaller, "write").ok, f"the removal alone would do: {verdict.fix}"
    assert proposals > 50
    assert together > 5


def test_what_helps_only_together_is_told_with_the_command_and_to_programs():
    fix = can("deltalake@0.5.8", "(3,7|R: timestampNtz|W: checkpointProtection,timestampNtz)", "write").fix
    drop = "halocline plan lake/orders --drop checkpointProtection"
    assert fix.sentence("lake/orders") == f"Upgrade to deltalake 0.16.0 or later, and: {drop}"
    told = fix.to_dict()
    assert told["together"] == {"upgrade": "deltalake@0.16.0", "drop": ["checkpointProtection"]}
    assert (told["upgrade"], told["drop"]) == (None, []), "neither does by itself"


def test_dropping_is_proposed_also_where_only_a_number_stands_in_the_way():
    verdict = can("delta-spark@2.2.0", "(1,7|W: appendOnly,checkpointProtection,invariants)", "write")
    assert verdict.fix is not None
    assert verdict.fix.drop == ("checkpointProtection",)


# ---- as a value


def test_a_verdict_is_true_only_if_ok_and_equal_to_one_like_it():
    yes, no = can("trino@469", VECTORS), can("trino@426", VECTORS)
    assert yes
    assert not no
    assert (yes.ok, no.refused, no.wrong, no.unknown) == (True, True, False, False)
    assert no == can(Release.parse("trino@426"), Protocol.parse(VECTORS))
    assert len({yes, no, can("trino@426", VECTORS)}) == 2


def test_a_verdict_as_data_has_reasons_and_fix():
    assert can("trino@426", VECTORS).to_dict() == {
        "release": "trino@426",
        "protocol": VECTORS,
        "operation": "read",
        "answer": "refused",
        "evidence": "measured",
        "reasons": [
            {
                "feature": "deletionVectors",
                "answer": "refused",
                "text": "reads deletionVectors from 427, wrongly before 469",
            },
        ],
        "fix": {"upgrade": "trino@469", "older": None, "drop": ["deletionVectors"], "together": None},
    }


@pytest.mark.parametrize("operation", ["fly", "", "reading"])
def test_an_operation_that_does_not_exist_is_an_error(operation):
    with pytest.raises(InputError, match="no operation"):
        can("trino@426", VECTORS, operation)


# ---- the gate


def test_the_gate_lets_pass_what_may():
    assert check("deltalake@1.6.6", VECTORS, "write", subject="lake/orders") is None


def test_the_gate_refuses_with_both_sides_and_the_next_step():
    with pytest.raises(IncompatibleError) as caught:
        check("deltalake@1.0.2", VECTORS, "read", subject="lake/orders")
    assert str(caught.value) == (
        "READER_TOO_OLD: lake/orders requires reader feature deletionVectors.\n"
        "  table    (3,7)  readerFeatures: deletionVectors\n"
        "  you are  deltalake@1.0.2, which reads: timestampNtz\n"
        "Upgrade to deltalake 1.3.2 or later, or: "
        "halocline plan lake/orders --drop deletionVectors"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("release", "protocol", "operation", "condition", "message"),
    [
        ("deltalake@1.6.6", "(1,7|W: checkpointProtection)", "write", "WRITER_TOO_OLD",
         "lake/orders requires writer feature checkpointProtection."),
        ("delta-spark@0.7.0", "(1,4)", "write", "WRITER_TOO_OLD", "lake/orders requires writer version 4."),
        ("hudi@0.15.0", "hudi(8)", "read", "READER_TOO_OLD", "lake/orders requires table version 8."),
        ("halocline@0.1.0", "(3,7|R: a,b|W: a,b)", "read", "READER_TOO_OLD",
         "lake/orders requires reader features a, b."),
        ("deltalake@1.6.6", "(2,5)", "read.arrow", "READER_TOO_OLD",
         "deltalake@1.6.6 would read lake/orders wrongly. columnMapping: all mapped columns come back NULL."),
        ("powerbi@2.131", "(1,2)", "read", "RELEASE_UNKNOWN",
         "it is not known whether powerbi@2.131 may read lake/orders: nothing is known about powerbi."),
    ],
)  # fmt: skip
def test_the_gate_names_what_is_missing(release, protocol, operation, condition, message):
    with pytest.raises(IncompatibleError) as caught:
        check(release, protocol, operation, subject="lake/orders")
    assert (caught.value.condition, caught.value.message) == (condition, message)
    assert caught.value.next_step
    assert {"table", "you are"} <= caught.value.sides.keys()


# ---- how an answer is known


@pytest.mark.parametrize(
    ("release", "protocol", "answer", "evidence"),
    [
        ("trino@425", VECTORS, "refused", "from source"),
        ("trino@426", VECTORS, "refused", "measured"),
        ("trino@427", VECTORS, "wrong", "measured"),
        ("trino@482", VECTORS, "ok", "from source"),
        ("deltalake@1.6.6", VECTORS, "ok", "measured"),
        ("deltalake@1.0.2", VECTORS, "refused", "measured"),
        ("databricks-runtime@13.3", VECTORS, "ok", "said by the vendor"),
        ("trino@413", VECTORS, "wrong", "said by the vendor"),
        ("somebody@1.0", VECTORS, "unknown", None),
    ],
)
def test_every_answer_tells_how_it_is_known(release, protocol, answer, evidence):
    verdict = can(release, protocol)
    assert verdict.answer == answer
    assert verdict.evidence == evidence
    assert verdict.to_dict()["evidence"] == evidence


@reached.at_least(known=1_000)
def test_every_answer_about_every_known_release_tells_how_it_is_known():
    """Whatever is asked: an answer that is not `unknown` rests on something."""
    for product in Knowledge.load().products.values():
        for format in product.formats:
            for operation in OPERATIONS:
                for version in product.boundaries(format, operation):
                    for token in tokens_for(format, operation):
                        if is_number(token):
                            continue
                        verdict = can(Release(product.name, version), Terms.using(format, [token]), operation)
                        if not verdict.unknown:
                            reached("known")
                            assert verdict.evidence is not None, verdict


def test_a_trial_makes_an_answer_a_measured_one(tmp_path):
    known = made(tmp_path, ("read", ["reader 1"], ["1.0"]))
    assert can("thing@1.5", "(1,1)", knowledge=known).evidence == "from source"
    file = tmp_path / "thing.toml"
    file.write_text(file.read_text() + '\n[[trial]]\noperation = "read"\nreleases = ["1.5"]\ntokens = ["reader 1"]\n')
    known = Knowledge.load(tmp_path)
    assert can("thing@1.5", "(1,1)", knowledge=known).evidence == "measured"
    assert can("thing@1.4", "(1,1)", knowledge=known).evidence == "from source"


def test_latest_is_the_newest_release_that_is_known():
    assert can("trino@latest", "(1,2)").release == Release.parse("trino@483")
    assert Release.parse("DBR@Latest") == Release.parse(f"databricks-runtime@{Knowledge.load().product('dbr').last}")
    assert Release.parse("halocline@latest").version.known
    assert not Release.parse("somebody@latest").version.known


PROTOCOLS = {
    "delta": ["(1,2)", "(1,6)", "(2,5)", VECTORS],
    "hudi": ["hudi(6)", "hudi(8)", "hudi(9)"],
    "index": ["index(4,4)"],
}


@reached.at_least(ok=10, refused=10)
def test_every_answer_that_is_not_ok_has_a_reason_and_is_known_somehow():
    """Also if a finer operation goes wrong by a feature that may be in use."""
    for product in Knowledge.load().products.values():
        for format in product.formats:
            for protocol in PROTOCOLS[format]:
                for operation in ("read", "write"):
                    verdict = can(f"{product.name}@latest", protocol, operation)
                    reached("ok" if verdict.ok else "refused")
                    assert bool(verdict.reasons) is not verdict.ok, verdict
                    assert (verdict.evidence is None) is verdict.unknown, verdict
