"""Linting protocols: what real writers left behind is found, and what is safe is repaired."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add
from tests.support.faulty_store import FaultyStore
from tests.support.log_builder import parquet_of

from halocline.compat.breaks import WRITING, Client
from halocline.compat.features import features
from halocline.compat.release import Release
from halocline.errors import ConflictError, IncompatibleError
from halocline.formats.delta.actions.action import CommitInfo, Metadata, ProtocolAction, encode_commit
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.maintain.lint import fix, lint
from halocline.formats.delta.maintain.lint_rules import HURTS
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore


def nobody_objects(before, after) -> str:
    return "nobody objects"


def info(operation="WRITE", engine="Apache-Spark/4.0.0 Delta-Lake/4.0.0", **parameters) -> CommitInfo:
    values = {"operation": operation, "timestamp": 1_700_000_000_000, "operationParameters": parameters}
    return CommitInfo({**values, "engineInfo": engine})


def metadata(*columns, **configuration) -> Metadata:
    properties = {f"delta.{key.replace('__', '.')}": value for key, value in configuration.items()}
    return Metadata("1", dump(schema(*(columns or ("id",)))), configuration=properties)


def table(*commits) -> MemoryStore:
    store = MemoryStore()
    for version, actions in enumerate(commits):
        store.put(DELTA.commit_path(version), encode_commit(actions))
    return store


def first(protocol, *columns, **configuration):
    action = protocol if isinstance(protocol, tuple) else (protocol,)
    return [info("CREATE TABLE"), *action, metadata(*columns, **configuration), add("one")]


def codes(store) -> list[str]:
    return [each.code for each in lint(store).findings]


def mapped(name="id", physical="id"):
    note = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical}
    return field(name, "long", metadata=note)


DELETION_VECTORS = (["deletionVectors"], ["appendOnly", "deletionVectors", "invariants"])

FOUND_AND_REPAIRED = {
    "reader features under reader version 1": (
        [first(ProtocolAction(1, 7, ["deletionVectors"], ["deletionVectors"]))],
        "CONTRADICTORY",
        "(3,7|R: deletionVectors|W: deletionVectors)",
    ),
    "a reader feature that readers are not told of": (
        [first(ProtocolAction(3, 7, [], ["v2Checkpoint"]))],
        "CONTRADICTORY",
        "(3,7|R: v2Checkpoint|W: v2Checkpoint)",
    ),
    "a list that is missing": (
        [first(ProtocolAction(1, 7))],
        "CONTRADICTORY",
        "(1,1)",
    ),
    "change data feed switched on but unlisted": (
        [first(ProtocolAction(1, 7, None, ["appendOnly", "invariants"]), enableChangeDataFeed="true")],
        "ENABLED_NOT_SUPPORTED",
        "(1,7|W: appendOnly,changeDataFeed,invariants)",
    ),
    "change data feed switched on below its version": (
        [first(ProtocolAction(1, 2), enableChangeDataFeed="true")],
        "ENABLED_NOT_SUPPORTED",
        "(1,7|W: appendOnly,changeDataFeed,invariants)",
    ),
    "a column without time zone and without its feature": (
        [first(ProtocolAction(1, 2), field("at", "timestamp_ntz"))],
        "ENABLED_NOT_SUPPORTED",
        "(3,7|R: timestampNtz|W: appendOnly,invariants,timestampNtz)",
    ),
    "the other name of timestampNtz": (
        [
            first(
                ProtocolAction(3, 7, ["timestampWithoutTimezone"], ["timestampWithoutTimezone"]),
                field("at", "timestamp_ntz"),
            )
        ],
        "ALIAS",
        "(3,7|R: timestampNtz|W: timestampNtz)",
    ),
    "a name in the wrong case": (
        [first(ProtocolAction(3, 7, ["deletionvectors"], ["deletionvectors"]), enableDeletionVectors="true")],
        "MISSPELT",
        "(3,7|R: deletionVectors|W: deletionVectors)",
    ),
    "row tracking without what it requires": (
        [first(ProtocolAction(1, 7, None, ["rowTracking"]))],
        "REQUIREMENT_MISSING",
        "(1,7|W: domainMetadata,rowTracking)",
    ),
    "lists that say no more than numbers": (
        [first(ProtocolAction(3, 7, [], ["appendOnly", "invariants"]))],
        "HIGHER_THAN_NEEDED",
        "(1,2)",
    ),
    "an odd pair": ([first(ProtocolAction(2, 3))], "HIGHER_THAN_NEEDED", "(1,3)"),
    "no protocol at all": ([first(())], "PROTOCOL_MISSING", "(1,1)"),
    "no protocol, but a feature in use": (
        [first((), appendOnly="true")],
        "PROTOCOL_MISSING",
        "(1,7|W: appendOnly)",
    ),
    "features lost in an upgrade": (
        [
            first(ProtocolAction(1, 2)),
            [info("ADD FEATURE", name='["changeDataFeed"]'), ProtocolAction(1, 7, None, ["changeDataFeed"])],
        ],
        "LOST_FEATURES",
        "(1,7|W: appendOnly,changeDataFeed,invariants)",
    ),
    "features lost by going back": (
        [first(ProtocolAction(3, 7, *DELETION_VECTORS)), [info("RESTORE", version="0"), ProtocolAction(1, 1)]],
        "LOST_FEATURES",
        None,
    ),
    "a feature that came along unasked": (
        [
            first(ProtocolAction(1, 2)),
            [
                info("SET TBLPROPERTIES", properties='{"delta.enableDeletionVectors":"true"}'),
                ProtocolAction(3, 7, ["deletionVectors", "variantType"], [*DELETION_VECTORS[1], "variantType"]),
                metadata(enableDeletionVectors="true"),
            ],
        ],
        "UNASKED_FEATURE",
        "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)",
    ),
    "a mapping that was never done": (
        [first(ProtocolAction(1, 2), columnMapping__mode="name")],
        "MAPPING_NOT_DONE",
        "(1,2)",
    ),
    "a mapping that was done and not listed": (
        [first(ProtocolAction(1, 2), mapped(), columnMapping__mode="name", columnMapping__maxColumnId="1")],
        "ENABLED_NOT_SUPPORTED",
        "(2,7|W: appendOnly,columnMapping,invariants)",
    ),
    "requests that were stored": (
        [first(ProtocolAction(1, 2), minWriterVersion="7", feature__rowTracking="supported")],
        "REQUEST_STORED",
        "(1,2)",
    ),
    "an unknown feature": ([first(ProtocolAction(1, 7, None, ["shiny"]))], "UNKNOWN_FEATURE", None),
    "a version from the future": ([first(ProtocolAction(99, 7, [], []))], "VERSION_UNKNOWN", None),
    "features that exclude each other": (
        [
            first(
                ProtocolAction(
                    3,
                    7,
                    ["columnMapping", "deletionVectors"],
                    ["columnMapping", "deletionVectors", "icebergCompatV1"],
                ),
                mapped(),
                enableIcebergCompatV1="true",
                columnMapping__mode="name",
                columnMapping__maxColumnId="1",
            )
        ],
        "EXCLUDED",
        None,
    ),
}


@pytest.mark.parametrize("scenario", FOUND_AND_REPAIRED)
def test_what_writers_left_behind_is_found(scenario):
    commits, code, repaired = FOUND_AND_REPAIRED[scenario]
    report = lint(table(*commits))
    finding = next((each for each in report.findings if each.code == code), None)
    assert finding is not None, f"found {[each.code for each in report.findings]}"
    assert finding.hurts == HURTS[code]
    assert finding.what
    assert finding.safe == (repaired is not None), finding.unsafe
    if repaired is not None:
        assert str(report.repaired) == repaired


@pytest.mark.parametrize("scenario", [name for name, case in FOUND_AND_REPAIRED.items() if case[2] is not None])
def test_what_is_safe_is_repaired_in_one_commit_and_reads_the_same(scenario):
    commits, code, repaired = FOUND_AND_REPAIRED[scenario]
    store = table(*commits)
    fixed = fix(store, nobody_objects)
    assert code in fixed.codes
    assert fixed.version == len(commits)
    header = read_header(store)
    assert (str(header.protocol), header.version) == (repaired, fixed.version)
    assert lint(store).clean, codes(store)
    assert Snapshot.load(store, operation="write").files()["path"].to_pylist() == ["one"]
    assert fix(store, nobody_objects).version is None, "a second repair has nothing to do"


def test_every_code_that_can_be_found_says_whom_it_hurts():
    found = {case[1] for case in FOUND_AND_REPAIRED.values()}
    assert HURTS.keys() - found == {"REQUIREMENT_NOT_ENABLED"}


@pytest.mark.parametrize(
    "commits",
    [
        [first(ProtocolAction(1, 2))],
        [first(ProtocolAction(3, 7, *DELETION_VECTORS))],
        [first(ProtocolAction(2, 7, None, ["appendOnly", "columnMapping", "invariants"]))],
        [first(ProtocolAction(3, 7, ["columnMapping"], ["columnMapping"]))],
        [
            first(ProtocolAction(3, 7, *DELETION_VECTORS)),
            [
                info("DROP FEATURE", featureName="deletionVectors", truncateHistory=True),
                ProtocolAction(1, 2),
            ],
        ],
        [
            first(ProtocolAction(3, 7, *DELETION_VECTORS)),
            [info("CREATE OR REPLACE TABLE"), ProtocolAction(1, 2), metadata()],
        ],
        [
            first(ProtocolAction(1, 2)),
            [
                info("UPGRADE PROTOCOL", newProtocol="3,7"),
                ProtocolAction(3, 7, ["deletionVectors", "variantType"], [*DELETION_VECTORS[1], "variantType"]),
            ],
        ],
    ],
    ids=["plain", "listed", "reader 2", "spelt out for readers", "dropped", "replaced", "raised on purpose"],
)
def test_what_is_right_is_left_alone(commits):
    store = table(*commits)
    assert codes(store) == []
    assert fix(store, nobody_objects).version is None
    assert read_header(store).version == len(commits) - 1


def test_an_unasked_feature_that_was_used_since_stays():
    commits, _, _ = FOUND_AND_REPAIRED["a feature that came along unasked"]
    variant = metadata("id", field("payload", "variant"), enableDeletionVectors="true")
    used = table(*commits, [info("ADD COLUMNS"), variant], [info("DROP COLUMNS"), commits[1][2]])
    assert codes(used) == []


def test_a_log_that_lost_its_beginning_is_not_given_a_protocol():
    store = MemoryStore()
    store.put(DELTA.commit_path(3), encode_commit([info(), metadata(), add("one")]))
    store.put(f"{DELTA.prefix(2)}.checkpoint.parquet", parquet_of([metadata()]))
    finding = lint(store).findings[0]
    assert (finding.code, finding.safe) == ("PROTOCOL_MISSING", False)
    assert "first commits are gone" in finding.unsafe


def test_a_repair_that_locks_a_writer_out_is_left_to_a_person():
    commits, _, _ = FOUND_AND_REPAIRED["a column without time zone and without its feature"]
    commits[0][0] = info("CREATE TABLE", "Apache-Spark/3.3.0 Delta-Lake/2.3.0")
    report = lint(table(*commits))
    assert [each.unsafe for each in report.findings] == ["delta-spark@2.3.0 would be locked out"]
    assert report.repaired == report.protocol


def test_numbers_are_preferred_where_lists_would_lock_a_writer_out():
    old = info("CREATE TABLE", "Apache-Spark/3.3.0 Delta-Lake/2.2.0")
    store = table([old, ProtocolAction(1, 2), metadata(enableChangeDataFeed="true")])
    assert str(lint(store).repaired) == "(1,4)"


def test_a_client_that_leaves_no_trace_can_be_named():
    store = table(first(ProtocolAction(1, 2), enableChangeDataFeed="true"))
    reader = Client(Release.parse("delta-spark@2.2.0"), WRITING)
    assert str(lint(store, clients=[reader]).repaired) == "(1,4)"


def test_nothing_is_repaired_if_somebody_objects():
    store = table(*FOUND_AND_REPAIRED["features lost in an upgrade"][0])

    def object_to(before, after):
        raise IncompatibleError(f"etl-nightly cannot follow from {before.protocol} to {after.protocol}")

    with pytest.raises(IncompatibleError, match=r"from \(1,7\|W: changeDataFeed\) to"):
        fix(store, object_to)
    assert read_header(store).version == 1


def test_a_protocol_that_changes_meanwhile_is_not_overwritten():
    commits = FOUND_AND_REPAIRED["features lost in an upgrade"][0]
    store = table(*commits)

    class Racing(FaultyStore):
        def put_if_absent(self, path, data):
            if not store.exists(path):
                store.put(
                    path, encode_commit([info("UPGRADE PROTOCOL"), ProtocolAction(1, 7, None, ["changeDataFeed"])])
                )
            return super().put_if_absent(path, data)

    with pytest.raises(ConflictError) as lost:
        fix(Racing(store), nobody_objects)
    assert lost.value.condition == "CONCURRENT_PROTOCOL_CHANGE"


def test_stored_requests_go_and_other_properties_stay():
    store = table(first(ProtocolAction(1, 2), minWriterVersion="101", appendOnly="true"))
    fixed = fix(store, nobody_objects)
    assert fixed.unset == ("delta.minWriterVersion",)
    assert fixed.checked == "", "a protocol that stays needs nobody's leave"
    assert dict(read_header(store).metadata.configuration) == {"delta.appendOnly": "true"}


def test_the_repair_is_told_in_the_log():
    store = table(*FOUND_AND_REPAIRED["features lost in an upgrade"][0])
    fix(store, nobody_objects)
    told = json.loads(store.get(DELTA.commit_path(2)).splitlines()[0])["commitInfo"]
    assert told["operation"] == "REPAIR PROTOCOL"
    assert json.loads(told["operationParameters"]["findings"]) == ["LOST_FEATURES"]


def test_every_feature_name_in_any_case_is_recognised():
    wrong = [name.upper() for name in features("delta") if name != name.upper()]
    store = table(first(ProtocolAction(3, 7, [], wrong)))
    assert len([code for code in codes(store) if code == "MISSPELT"]) == len(wrong)
    assert "UNKNOWN_FEATURE" not in codes(store)


# ---------------------------------------------------------------------- what deltalake really writes


@pytest.fixture
def orders(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "orders", pa.table({"id": [1, 2]}))
    return tmp_path / "orders"


def test_deltalake_switching_vectors_on_is_cleaned_of_what_nobody_asked_for(orders):
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(orders).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    store = open_store(str(orders))
    report = lint(store)
    assert [(each.code, each.safe) for each in report.findings] == [("UNASKED_FEATURE", True)]
    assert "delta-rs:py-" in report.findings[0].what
    fixed = fix(store, nobody_objects)
    assert str(fixed.after) == "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"
    deltalake.write_deltalake(orders, pa.table({"id": [3]}), mode="append")
    assert deltalake.DeltaTable(orders).version() == 3


def test_deltalake_adding_a_feature_gets_back_what_it_lost(orders):
    deltalake = pytest.importorskip("deltalake")
    feature = deltalake.TableFeatures.ChangeDataFeed
    deltalake.DeltaTable(orders).alter.add_feature(feature, allow_protocol_versions_increase=True)
    store = open_store(str(orders))
    assert str(lint(store).protocol) == "(1,7|W: changeDataFeed)"
    assert str(fix(store, nobody_objects).after) == "(1,7|W: appendOnly,changeDataFeed,invariants)"
    deltalake.write_deltalake(orders, pa.table({"id": [3]}), mode="append")
    assert sorted(deltalake.DeltaTable(orders).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]


def test_deltalake_tables_without_such_changes_are_clean(orders):
    assert lint(open_store(str(orders))).clean
