"""The protocol lifecycle of index tables: the tests, the matrix and the success criteria of the design document."""

import json
import pickle

import pytest
from tests.support.faulty_store import FaultyStore
from tests.support.index_logs import IndexLog, add, entry, metadata, protocol

from halocline.compat.protocol import Protocol
from halocline.compat.verdict import can
from halocline.errors import IncompatibleError
from halocline.formats.index.log.actions import SplitAdd, SplitRemove, SplitSkip
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import OWN, needed_by
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.gate import UNCHECKED, LegacyProtocolWarning, UncheckedWarning
from halocline.formats.log.names import INDEX
from halocline.schema.json_edge import parse
from halocline.storage.memory import MemoryStore

SKIP = SplitSkip("a.split", 5, "the footer is damaged", "merge")
BUNDLE = SplitAdd("a.split", {}, 10, 1, True, num_records=1)
SPLIT = SplitAdd("a.split.parquet", {}, 10, 1, True, num_records=1)


def table(reader: int = 1, writer: int = 1, **lists) -> MemoryStore:
    return IndexLog().commit(0, protocol(reader, writer, **lists), metadata()).store


def legacy() -> MemoryStore:
    return IndexLog().commit(0, metadata()).commit(1, add("old.split")).store


def written(store, *actions, **options) -> IndexSnapshot:
    IndexTransaction(IndexSnapshot.load(store, operation="write"), **options).commit(actions, "TEST")
    return IndexSnapshot.load(store)


def lines(store, version):
    return [json.loads(line) for line in store.get(INDEX.commit_path(version)).splitlines()]


# ---------------------------------------------------------------- 8.1 of the design


def test_a_reader_is_refused_when_the_reader_version_is_too_high():
    with pytest.raises(IncompatibleError) as refused:
        IndexSnapshot.load(table(999, 1))
    assert refused.value.condition == "READER_TOO_OLD"


def test_a_writer_is_refused_when_the_writer_version_is_too_high_and_may_still_read():
    store = table(1, 999)
    assert not IndexSnapshot.load(store).files
    with pytest.raises(IncompatibleError) as refused:
        IndexSnapshot.load(store, operation="write")
    assert refused.value.condition == "WRITER_TOO_OLD"
    assert refused.value.sides["still possible"] == "reading it"
    with pytest.raises(IncompatibleError):
        IndexTransaction(IndexSnapshot.load(store))
    assert IndexReplay.open(store).version == 0, "the check comes before anything is written"


def test_a_table_without_a_protocol_reads_as_version_one_with_a_warning():
    with pytest.warns(LegacyProtocolWarning, match=r"index\(1,1\)"):
        snapshot = IndexSnapshot.load(legacy())
    assert (snapshot.protocol, snapshot.files.keys()) == (Protocol.index(1, 1), {"old.split"})


@pytest.mark.parametrize(("action", "expected"), [(BUNDLE, "index(1,1)"), (SKIP, "index(2,2)"), (SPLIT, str(OWN))])
@pytest.mark.filterwarnings("ignore::halocline.formats.log.gate.LegacyProtocolWarning")
def test_the_first_write_to_a_legacy_table_records_the_least_protocol(action, expected):
    store = legacy()
    snapshot = written(store, action)
    assert str(snapshot.protocol) == expected
    assert "protocol" in lines(store, 2)[0]
    snapshot = written(store, SplitRemove("old.split"))
    assert not any("protocol" in line for line in lines(store, 3)), "once is enough"


def test_using_a_feature_raises_the_protocol_to_the_least_that_has_it():
    store = table(1, 1)
    assert str(written(store, SKIP).protocol) == "index(2,2)"
    assert list(lines(store, 1)[0]) == ["protocol"]
    assert str(written(store, SPLIT).protocol) == str(OWN)


# ---------------------------------------------------------------- 8.2 of the design


@pytest.mark.parametrize(("release", "reads"), [("0.3.0", 2), ("0.4.0", 3), ("0.4.5", 4), ("0.5.5", 4)])
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_an_old_release_reads_and_writes_up_to_its_version(release, reads, version):
    store = table(version, version)
    for operation in ("read", "write"):
        if version <= reads:
            IndexSnapshot.load(store, release=f"indextables4spark@{release}", operation=operation)
        else:
            with pytest.raises(IncompatibleError, match="newer version of indextables4spark"):
                IndexSnapshot.load(store, release=f"indextables4spark@{release}", operation=operation)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_this_release_reads_every_version(version):
    assert IndexSnapshot.load(table(version, version)).protocol.reader == version


def test_a_checkpoint_includes_the_protocol():
    store = table(2, 3)
    IndexSnapshot.load(store).write_checkpoint()
    first = json.loads(store.get(f"{INDEX.prefix(0)}.checkpoint.json").splitlines()[0])
    assert first == protocol(2, 3)


# ---------------------------------------------------------------- appendix B


MATRIX = [(1, 1, True), (1, 2, False), (2, 1, True), (2, 2, True)]


@pytest.mark.parametrize(("client", "needs", "allowed"), MATRIX)
def test_the_compatibility_matrix_holds(client, needs, allowed):
    """A client of version 1 is one that knows numbers up to 1; the knowledge of a product says so."""
    knows = {f"{side} {number}" for side in ("reader", "writer") for number in range(1, client + 1)}
    for operation in ("read", "write"):
        assert (Protocol.index(needs, needs).requires(operation) <= knows) is allowed


def test_a_version_two_writer_raises_a_version_one_table_only_for_a_new_feature():
    store = table(1, 1)
    assert str(written(store, BUNDLE).protocol) == "index(1,1)"
    assert str(written(store, SKIP).protocol) == "index(2,2)"


# ---------------------------------------------------------------- upgrades are one way and keep what there is


def test_an_upgrade_keeps_features_and_the_higher_number():
    lists = {"readerFeatures": ["footerOffsets"], "writerFeatures": ["footerOffsets", "optimizeWrite"]}
    after = written(table(3, 4, **lists), SPLIT).protocol
    assert (after.reader, after.writer) == (5, 5)
    assert after.writer_features == {"footerOffsets", "optimizeWrite", *OWN.writer_features}
    assert after.reader_features == {"footerOffsets", *OWN.reader_features}


def test_a_commit_never_lowers_the_protocol():
    assert str(written(table(4, 5), SKIP).protocol) == "index(4,5)"


@pytest.mark.parametrize("action", [SKIP, SPLIT])
def test_with_upgrades_off_a_commit_that_needs_more_is_refused_before_writing(action):
    store = table(1, 1)
    with pytest.raises(IncompatibleError) as refused:
        written(store, action, auto_upgrade=False)
    assert refused.value.condition == "PROTOCOL_TOO_LOW"
    assert IndexReplay.open(store).version == 0
    assert written(store, BUNDLE, auto_upgrade=False).version == 1


def test_the_newest_protocol_counts_and_not_the_first():
    log = IndexLog().commit(0, protocol(1, 1), metadata()).commit(1, protocol(999, 999)).commit(2, add("a.split"))
    with pytest.raises(IncompatibleError):
        IndexSnapshot.load(log.store)
    assert IndexSnapshot.load(log.store, version=0).protocol.reader == 1


# ---------------------------------------------------------------- the gate


def test_an_unknown_reader_feature_is_refused_by_name():
    with pytest.raises(IncompatibleError, match="reader features shiny"):
        IndexSnapshot.load(table(4, 4, readerFeatures=["shiny"], writerFeatures=["shiny"]))


def test_an_unknown_writer_feature_leaves_reading_possible():
    store = table(4, 4, writerFeatures=["shiny"])
    assert IndexSnapshot.load(store).version == 0
    with pytest.raises(IncompatibleError, match="writer features shiny"):
        IndexSnapshot.load(store, operation="write")


def test_a_refusal_tells_both_sides_in_full():
    with pytest.raises(IncompatibleError) as refused:
        IndexSnapshot.load(table(999, 998))
    text = str(refused.value)
    for part in (
        "memory://",
        "minReaderVersion = 999, minWriterVersion = 998",
        "readerVersion = 5, writerVersion = 5",
        "newer version of halocline",
    ):
        assert part in text
    assert pickle.loads(pickle.dumps(refused.value)).sides == refused.value.sides


def test_without_the_check_everything_passes_with_a_warning():
    with pytest.warns(UncheckedWarning):
        assert IndexSnapshot.load(table(999, 999), release=UNCHECKED).protocol.reader == 999


def test_splits_that_cannot_be_read_do_not_keep_a_newer_table_from_being_refused_by_name():
    log = IndexLog().commit(0, protocol(999, 999), metadata()).commit(1, {"add": {"of": "another kind"}})
    with pytest.raises(IncompatibleError):
        IndexSnapshot.load(log.store)


def test_a_table_with_an_avro_state_is_read_and_not_written():
    log = IndexLog().commit(0, protocol(4, 4), metadata()).state(1, {"manifests/m.avro": [entry("a.split")]})
    assert IndexSnapshot.load(log.store).files.keys() == {"a.split"}
    with pytest.raises(IncompatibleError, match="avroState"):
        IndexSnapshot.load(log.store, operation="write")
    assert IndexSnapshot.load(table(4, 4), operation="write").version == 0, "the number alone does not matter"


# ---------------------------------------------------------------- what needs what


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (BUNDLE, "index(1,1)"),
        (SKIP, "index(2,2)"),
        (SplitAdd("a.split", {}, 1, 1, True, has_footer_offsets=True, footer_start_offset=0), "index(2,2)"),
        (SplitAdd("a.split", {}, 1, 1, True, doc_mapping_json="[]"), "index(2,2)"),
        (SplitAdd("a.split", {}, 1, 1, True, doc_mapping_ref="abc"), "index(3,3)"),
        (SPLIT, str(OWN)),
    ],
)
def test_each_action_needs_no_more_than_it_must(action, expected):
    assert str(needed_by([action])) == expected


@pytest.mark.parametrize("release", ["0.3.0", "0.4.0", "0.4.5", "0.5.4", "0.5.5"])
def test_no_release_of_indextables4spark_touches_a_table_with_our_splits(release):
    for operation in ("read", "write"):
        assert can(f"indextables4spark@{release}", OWN, operation).refused


def test_a_new_table_has_its_protocol_and_its_metadata_in_version_zero():
    store = MemoryStore()
    columns = parse(metadata()["metaData"]["schemaString"])
    IndexTransaction.create(store, columns, partition_columns=["id"]).commit([SPLIT], "CREATE TABLE")
    assert [next(iter(line)) for line in lines(store, 0)] == ["protocol", "metaData", "add", "commitInfo"]
    snapshot = IndexSnapshot.load(store)
    assert (snapshot.protocol, snapshot.schema) == (OWN, columns)
    assert snapshot.metadata.partition_columns == ("id",)


def test_the_protocol_costs_nothing_while_it_stays():
    """One listing and the commits: neither the header nor the gate reads anything again."""
    store = FaultyStore(table(2, 2))
    IndexSnapshot.load(store)
    reads = [call.path for call in store.operations if call.name != "list"]
    assert sorted(reads) == [INDEX.commit_path(0), INDEX.pointer_path]
