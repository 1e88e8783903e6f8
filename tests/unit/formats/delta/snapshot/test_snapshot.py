import json

import pytest
from tests.support.log_builder import LogBuilder, add, schema_of, table

from halocline.errors import IncompatibleError, InputError, MalformedError, NotFoundError, UnsupportedError
from halocline.formats.delta.actions.action import (
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    encode_commit,
)
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.snapshot.detail import checksum_finding, detail_of
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot, version_at
from halocline.formats.log.gate import LegacyProtocolWarning
from halocline.formats.log.names import DELTA
from halocline.storage.base import ObjectMeta
from halocline.storage.memory import MemoryStore

MODE = "delta.columnMapping.mode"


def loaded(log: LogBuilder, **options) -> Snapshot:
    return Snapshot.load(log.store, **options)


def features(*names: str, reader: int = 3) -> ProtocolAction:
    return ProtocolAction(reader, 7, list(names) if reader == 3 else None, list(names))


class TestGate:
    @pytest.mark.parametrize(
        ("protocol", "named"),
        [
            (ProtocolAction(99, 7, [], []), "reader version 99"),
            (features("fromTheFuture"), "fromTheFuture"),
            (features("catalogManaged"), "catalogManaged"),
        ],
    )
    def test_a_table_of_a_newer_protocol_is_refused_by_name(self, protocol, named):
        with pytest.raises(IncompatibleError, match=named) as caught:
            loaded(LogBuilder().create(add("a"), protocol=protocol))
        assert caught.value.condition == "READER_TOO_OLD"
        assert {"table", "you are"} <= caught.value.sides.keys()

    def test_it_is_refused_before_file_actions_are_looked_at(self):
        log = LogBuilder().create(protocol=ProtocolAction(99, 7, [], []))
        log.put(f"{1:020d}.json", b'{"add":{"shape":"new"}}')
        with pytest.raises(IncompatibleError, match="reader version 99"):
            loaded(log)

    def test_the_protocol_of_the_version_counts(self):
        log = LogBuilder().create(add("a")).commit(features("fromTheFuture"))
        assert loaded(log, version=0).protocol.reader == 1
        with pytest.raises(IncompatibleError):
            loaded(log, version=1)

    def test_another_release_is_judged_by_what_it_can(self):
        log = LogBuilder().create(protocol=features("deletionVectors"))
        assert loaded(log).protocol.supports("deletionVectors")
        with pytest.raises(IncompatibleError, match="deletionVectors"):
            loaded(log, release="deltalake@1.0.2")

    def test_writing_asks_for_more_than_reading(self):
        log = LogBuilder().create(protocol=ProtocolAction(1, 7, None, ["fromTheFuture"]))
        snapshot = loaded(log)
        with pytest.raises(IncompatibleError, match="fromTheFuture") as caught:
            snapshot.reopened("write")
        assert caught.value.condition == "WRITER_TOO_OLD"
        with pytest.raises(IncompatibleError):
            loaded(log, operation="write")

    def test_a_header_can_be_had_of_any_table(self):
        header = read_header(LogBuilder().create(protocol=features("fromTheFuture")).store)
        assert header.protocol.supports("fromTheFuture")
        assert header.version == 0


class TestProtocolAgainstMetadata:
    def test_an_active_reader_feature_that_is_not_listed_is_refused(self):
        log = LogBuilder().create(protocol=features(), metadata=Metadata("1", schema_of(at="timestamp_ntz")))
        with pytest.raises(MalformedError, match="timestampNtz is not supported") as caught:
            loaded(log)
        assert caught.value.condition == "MALFORMED_PROTOCOL"
        assert "ENABLED_NOT_SUPPORTED" in [finding.code for finding in read_header(log.store).findings()]

    def test_an_active_writer_feature_that_is_not_listed_stops_writers_only(self):
        log = LogBuilder().create(protocol=features(), metadata=table(**{"delta.enableChangeDataFeed": "true"}))
        assert loaded(log).version == 0
        with pytest.raises(MalformedError, match="changeDataFeed is not supported"):
            loaded(log, operation="write")

    def test_a_mapping_mode_without_mapping_reads_as_no_mapping(self):
        log = LogBuilder().create(metadata=table(**{MODE: "name"}))
        assert loaded(log).columns.find("id").physical == ("id",)

    def test_mapped_names_without_the_feature_are_refused(self):
        column = {"name": "a", "type": "long", "metadata": {"delta.columnMapping.physicalName": "col-1"}}
        schema = json.dumps({"type": "struct", "fields": [column]})
        log = LogBuilder().create(metadata=Metadata("1", schema, configuration={MODE: "name"}))
        with pytest.raises(MalformedError, match="columnMapping is not supported"):
            loaded(log)

    def test_mapping_implied_by_the_numbers_counts(self):
        metadata = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1}
        schema = json.dumps({"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": metadata}]})
        log = LogBuilder().create(
            protocol=ProtocolAction(2, 5), metadata=Metadata("1", schema, configuration={MODE: "id"})
        )
        assert loaded(log).columns.find("a").physical == ("col-1",)

    def test_contradictory_lists_are_damage(self):
        with pytest.raises(MalformedError) as caught:
            loaded(LogBuilder().create(protocol=ProtocolAction(3, 7, ["deletionVectors"], [])))
        assert caught.value.condition == "MALFORMED_PROTOCOL"


class TestMissingParts:
    def test_no_protocol_is_refused(self):
        log = LogBuilder().commit(table(), add("a"))
        with pytest.raises(MalformedError, match="has no protocol") as caught:
            loaded(log)
        assert "legacy_protocol" in str(caught.value)
        assert [finding.code for finding in read_header(log.store).findings()] == ["PROTOCOL_MISSING"]

    def test_no_protocol_is_the_oldest_one_for_those_who_ask(self):
        log = LogBuilder().commit(table(), add("a"))
        with pytest.warns(LegacyProtocolWarning, match="taken as"):
            snapshot = loaded(log, legacy_protocol=True)
        assert (str(snapshot.protocol), snapshot.protocol_action) == ("(1,1)", None)
        assert snapshot.files().num_rows == 1

    def test_no_metadata_is_damage(self):
        with pytest.raises(MalformedError, match="has no metadata"):
            loaded(LogBuilder().commit(ProtocolAction(1, 2), add("a")))

    def test_a_partition_column_that_is_not_in_the_schema_is_damage(self):
        with pytest.raises(MalformedError, match="partition column 'p'"):
            loaded(LogBuilder().create(metadata=Metadata("1", schema_of(a="long"), partition_columns=("p",))))

    def test_a_type_of_the_future_is_refused(self):
        with pytest.raises(UnsupportedError, match="column a has type 'time'"):
            loaded(LogBuilder().create(metadata=Metadata("1", schema_of(a="time"))))


class TestContent:
    def test_a_snapshot_shows_what_the_log_says(self):
        log = LogBuilder().create(add("a"), Txn("app", 3), DomainMetadata("d", "{}"), metadata=table(k="v"))
        snapshot = loaded(log)
        assert (snapshot.version, str(snapshot.protocol), dict(snapshot.properties)) == (0, "(1,2)", {"k": "v"})
        assert snapshot.schema.names == ("id", "day")
        assert snapshot.partition_columns == ("day",)
        assert snapshot.txns["app"].version == 3
        assert list(snapshot.domains) == ["d"]
        assert snapshot.commit_info is not None
        assert snapshot.commit_info.operation == "CREATE TABLE"
        assert snapshot.totals == (1, 100)

    def test_columns_that_a_file_list_does_not_have_are_refused(self):
        with pytest.raises(InputError, match="no column 'rows'"):
            loaded(LogBuilder().create()).files(columns=["rows"])

    def test_an_empty_table_has_no_files_and_no_bytes(self):
        assert loaded(LogBuilder().create()).totals == (0, 0)

    def test_a_version_and_a_time_together_are_refused(self):
        with pytest.raises(InputError, match="not both"):
            loaded(LogBuilder().create(), version=0, timestamp_ms=0)


def timed(**at: int) -> LogBuilder:
    """Versions by name (`v0`) with the times of their files."""
    log = LogBuilder()
    for name, modified in at.items():
        version = int(name[1:])
        log.create() if version == 0 else log.commit(add(f"f{version}"), version=version)
        touch(log, version, modified)
    return log


class TimedStore(MemoryStore):
    times: dict[str, int]

    def list(self, prefix="", *, start_after=None, follow_links=True):
        for meta in super().list(prefix, start_after=start_after):
            yield ObjectMeta(meta.path, meta.size, self.times.get(meta.path, meta.modified_ms), meta.etag)


def touch(log: LogBuilder, version: int, modified: int) -> None:
    if not isinstance(log.store, TimedStore):
        store = TimedStore()
        store.times = {}
        for meta in log.store.list():
            store.put(meta.path, log.store.get(meta.path))
        log.store = store
    log.store.times[DELTA.commit_path(version)] = modified


def stamped(*stamps: int, since: tuple[int, int] | None = None, modified: tuple[int, ...] = ()) -> LogBuilder:
    """Versions with in-commit timestamps, all of them or since a version."""
    log = LogBuilder()
    enabled = {"delta.enableInCommitTimestamps": "true"}
    protocol = ProtocolAction(1, 7, None, ["inCommitTimestamp"])
    if since is not None:
        enabled["delta.inCommitTimestampEnablementVersion"] = str(since[0])
        enabled["delta.inCommitTimestampEnablementTimestamp"] = str(since[1])
    first = since[0] if since else 0
    for version, stamp in enumerate(stamps):
        info = CommitInfo({"inCommitTimestamp": stamp} if version >= first else {"timestamp": 1})
        header = (
            [protocol, table(**enabled)] if version == first else [ProtocolAction(1, 2), table()] if not version else []
        )
        log.commit(info, *header)
    for version, at in enumerate(modified):
        touch(log, version, at)
    return log


class TestTime:
    @pytest.mark.parametrize(("at", "version"), [(100, 0), (150, 0), (200, 1), (299, 1), (300, 2)])
    def test_the_newest_version_not_after_the_time_is_meant(self, at, version):
        assert version_at(timed(v0=100, v1=200, v2=300).store, at) == version

    @pytest.mark.parametrize(("at", "version"), [(200, 0), (201, 1), (202, 2), (300, 3)])
    def test_times_of_files_are_made_to_increase(self, at, version):
        assert version_at(timed(v0=200, v1=100, v2=150, v3=300).store, at) == version

    @pytest.mark.parametrize(
        ("at", "available"), [(99, "from 1970-01-01T00:00:00.100Z"), (301, "up to 1970-01-01T00:00:00.300Z")]
    )
    def test_a_time_outside_the_log_says_what_there_is(self, at, available):
        with pytest.raises(NotFoundError) as caught:
            version_at(timed(v0=100, v1=300).store, at)
        assert caught.value.condition == "VERSION_NOT_FOUND"
        assert available in caught.value.sides["available"]

    def test_a_snapshot_at_a_time_is_that_version(self):
        log = timed(v0=100, v1=200, v2=300)
        snapshot = loaded(log, timestamp_ms=250)
        assert (snapshot.version, snapshot.timestamp_ms) == (1, 200)

    def test_versions_that_cannot_be_read_any_more_do_not_count(self):
        log = timed(v0=100, v1=200, v2=300, v3=400)
        log.checkpoint(2, ProtocolAction(1, 2), table())
        log.store.delete(DELTA.commit_path(0))
        with pytest.raises(NotFoundError, match="VERSION_NOT_FOUND"):
            version_at(log.store, 250)
        assert version_at(log.store, 300) == 2

    @pytest.mark.parametrize(("at", "version"), [(10, 0), (19, 0), (20, 1), (49, 3), (50, 4)])
    def test_in_commit_timestamps_count_where_enabled(self, at, version):
        log = stamped(10, 20, 30, 40, 50, modified=(900, 800, 700, 600, 500))
        assert version_at(log.store, at) == version

    @pytest.mark.parametrize(("at", "version"), [(100, 0), (250, 1), (1999, 1), (2000, 2), (2100, 3)])
    def test_enabling_them_later_splits_the_log(self, at, version):
        log = stamped(0, 0, 2000, 2100, since=(2, 2000), modified=(100, 200, 99, 98))
        assert version_at(log.store, at) == version

    @pytest.mark.parametrize("at", [9, 51])
    def test_a_time_outside_of_in_commit_timestamps_is_not_found(self, at):
        with pytest.raises(NotFoundError, match="VERSION_NOT_FOUND"):
            version_at(stamped(10, 20, 50).store, at)

    def test_a_commit_that_lost_its_timestamp_is_damage(self):
        log = stamped(10, 20, 30).commit(CommitInfo({"timestamp": 5}))
        with pytest.raises(MalformedError, match="no in-commit timestamp"):
            version_at(log.store, 15)

    def test_a_snapshots_own_time_is_its_in_commit_timestamp(self):
        assert loaded(stamped(10, 20, 30, modified=(1, 2, 3))).timestamp_ms == 30

    def test_a_version_whose_commit_is_gone_has_the_time_of_its_checkpoint(self):
        log = LogBuilder().checkpoint(4, ProtocolAction(1, 2), table())
        snapshot = loaded(log)
        assert snapshot.commit_info is None
        assert snapshot.timestamp_ms > 0

    def test_a_checksum_still_knows_the_in_commit_timestamp(self):
        enabled = {"delta.enableInCommitTimestamps": "true"}
        protocol = ProtocolAction(1, 7, None, ["inCommitTimestamp"])
        log = LogBuilder().checkpoint(4, protocol, table(**enabled))
        content = {"tableSizeBytes": 0, "numFiles": 0, "inCommitTimestampOpt": 77, "metadata": table().to_json()}
        body = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
        log.put(f"{4:020d}.crc", json.dumps(content | {"protocol": body}).encode())
        assert loaded(log).timestamp_ms == 77


class TestHistory:
    def test_every_commit_has_an_entry_newest_first(self):
        log = timed(v0=100, v1=50, v2=300)
        entries = history(loaded(log))
        assert [(entry.version, entry.timestamp_ms, entry.operation) for entry in entries] == [
            (2, 300, None),
            (1, 101, None),
            (0, 100, "CREATE TABLE"),
        ]
        assert entries[0].to_dict() == {"version": 2, "timestamp": "1970-01-01T00:00:00.300Z"}
        assert entries[2].to_dict()["operation"] == "CREATE TABLE"

    def test_a_limit_takes_the_newest(self):
        assert [entry.version for entry in history(loaded(timed(v0=1, v1=2, v2=3)), limit=2)] == [2, 1]

    def test_an_old_snapshot_has_no_future(self):
        assert [entry.version for entry in history(loaded(timed(v0=1, v1=2), version=0))] == [0]

    def test_in_commit_timestamps_count_since_they_were_enabled(self):
        log = stamped(0, 0, 2000, since=(2, 2000), modified=(100, 200, 99))
        assert [entry.timestamp_ms for entry in history(loaded(log))] == [2000, 200, 100]


class TestDetail:
    def test_the_facts_have_deltas_names(self):
        log = LogBuilder().create(add("a"), add("b"), metadata=Metadata("id", schema_of(a="long"), created_time=0))
        detail = detail_of(loaded(log))
        assert detail.counted_from == "log"
        assert detail.to_dict() | {"lastModified": 0} == {
            "format": "delta",
            "id": "id",
            "name": None,
            "description": None,
            "location": log.store.root,
            "createdAt": "1970-01-01T00:00:00.000Z",
            "lastModified": 0,
            "version": 0,
            "partitionColumns": [],
            "clusteringColumns": [],
            "numFiles": 2,
            "sizeInBytes": 200,
            "properties": {},
            "minReaderVersion": 1,
            "minWriterVersion": 2,
            "tableFeatures": ["appendOnly", "invariants"],
        }

    @pytest.mark.parametrize(
        ("columns", "shown"), [([["a"], ["b", "c"]], ["a", "b.c"]), (["a"], ["a"]), (None, []), ("x", [])]
    )
    def test_clustering_columns_show_however_they_are_stored(self, columns, shown):
        domain = DomainMetadata("delta.clustering", json.dumps({"clusteringColumns": columns}))
        assert detail_of(loaded(LogBuilder().create(domain))).clustering_columns == shown

    def test_clustering_columns_of_a_mapped_table_show_by_their_logical_names(self):
        def mapped(name, physical, type="long"):
            identity = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": len(physical)}
            return {"name": name, "type": type, "nullable": True, "metadata": identity}

        inner = {"type": "struct", "fields": [mapped("day", "c-44")]}
        schema = {"type": "struct", "fields": [mapped("country", "c-1"), mapped("sent", "c-22", inner)]}
        domain = DomainMetadata("delta.clustering", '{"clusteringColumns":[["c-22","c-44"],["c-1"],["c-gone"]]}')
        metadata = Metadata("1", json.dumps(schema), configuration={"delta.columnMapping.mode": "name"})
        log = LogBuilder().create(domain, protocol=ProtocolAction(2, 5), metadata=metadata)
        assert detail_of(loaded(log)).clustering_columns == ["sent.day", "country", "c-gone"]

    def crc(self, log: LogBuilder, **change):
        snapshot = loaded(log)
        assert snapshot.protocol_action is not None
        content = {
            "tableSizeBytes": 100,
            "numFiles": 1,
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": snapshot.metadata.to_json(),
            "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
        }
        log.put(f"{0:020d}.crc", json.dumps(content | change).encode())
        return loaded(log)

    def test_a_checksum_that_agrees_saves_counting(self):
        snapshot = self.crc(LogBuilder().create(add("a")))
        assert detail_of(snapshot).counted_from == "checksum"
        assert checksum_finding(snapshot) is None

    def test_a_checksum_that_contradicts_the_log_is_not_believed(self):
        wrong = {"minReaderVersion": 1, "minWriterVersion": 3}
        snapshot = self.crc(LogBuilder().create(add("a")), protocol=wrong, numFiles=7)
        detail = detail_of(snapshot)
        assert (detail.counted_from, detail.files) == ("log", 1)
        assert "contradicts the log" in str(checksum_finding(snapshot))

    def test_a_wrong_number_of_files_is_found(self):
        assert "number or size of files" in str(checksum_finding(self.crc(LogBuilder().create(add("a")), numFiles=2)))

    def test_a_checksum_never_decides_what_may_be_read(self):
        log = LogBuilder().create(add("a"), protocol=features("fromTheFuture"))
        content = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "metadata": table().to_json()}
        log.put(f"{0:020d}.crc", json.dumps(content | {"numFiles": 1, "tableSizeBytes": 1}).encode())
        with pytest.raises(IncompatibleError):
            loaded(log)


def test_remove_and_add_of_another_table_are_not_confused():
    log = LogBuilder().create(Add("s3://other/a", {"day": None}, 1, 1, True)).commit(Remove("a"))
    assert loaded(log).files()["path"].to_pylist() == ["s3://other/a"]


@pytest.mark.parametrize("operation", ["read", "write", "read.changes", "write.metadata"])
@pytest.mark.parametrize("key", ["commitCoordinator-preview", "tableConf-preview", "commitCoordinator"])
def test_table_whose_commits_a_coordinator_may_hold_is_refused_whatever_its_protocol_lists(operation, key):
    store = MemoryStore()
    held = Metadata("1", configuration={f"delta.coordinatedCommits.{key}": "dynamodb"})
    store.put(DELTA.commit_path(0), encode_commit([ProtocolAction(1, 2), held]))
    with pytest.raises(IncompatibleError, match="coordinatedCommits-preview") as refused:
        Snapshot.load(store, operation=operation)
    assert refused.value.condition == ("WRITER_TOO_OLD" if operation.startswith("write") else "READER_TOO_OLD")
