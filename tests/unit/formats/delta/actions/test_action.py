import pytest

from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import (
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Remove,
    Txn,
    decode_commit,
    encode_commit,
)

LINES = {
    "add with vector": b'{"add":{"path":"a","partitionValues":{"p":null},"size":1,"modificationTime":2,'
    b'"dataChange":true,"stats":"{}","deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":3,'
    b'"cardinality":4},"baseRowId":7,"defaultRowCommitVersion":8,"clusteringProvider":"liquid"}}',
    "remove": b'{"remove":{"path":"a","deletionTimestamp":1,"dataChange":false,"extendedFileMetadata":true,'
    b'"partitionValues":{},"size":1}}',
    "legacy protocol": b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    "feature protocol": b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],'
    b'"writerFeatures":["a"]}}',
    "metadata": b'{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}",'
    b'"partitionColumns":["p"],"configuration":{"k":"v"},"createdTime":5}}',
    "metadata of a newer release": b'{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},'
    b'"schemaString":"{}","partitionColumns":[],"configuration":{},"future":{"a":[1]}}}',
    "change data": b'{"cdc":{"path":"_change_data/c","partitionValues":{},"size":1,"dataChange":false}}',
    "transaction": b'{"txn":{"appId":"a","version":3,"lastUpdated":9}}',
    "domain": b'{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}',
    "provenance": b'{"commitInfo":{"zebra":1,"apple":{"b":[true,null]},"timestamp":3}}',
    "sidecar": b'{"sidecar":{"path":"s.parquet","sizeInBytes":1,"modificationTime":2}}',
    "checkpoint mark": b'{"checkpointMetadata":{"version":3}}',
    "unknown action": b'{"fromTheFuture":{"a":[1,2.5]}}',
    "text beyond ascii": '{"txn":{"appId":"Zürich/ø","version":1}}'.encode(),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_line_comes_back_byte_for_byte(line):
    assert encode_commit(decode_commit(line, "x.json").actions) == line + b"\n"


def test_null_fields_count_as_absent():
    commit = decode_commit(
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true,"stats":null},"remove":null}',
        "x",
    )
    assert commit.actions == (Add("a", {}, 1, 2, True),)


def test_fields_old_writers_left_out_have_their_defaults():
    commit = decode_commit(
        b'{"remove":{"path":"a"}}\n{"metaData":{"id":"1"}}\n{"domainMetadata":{"domain":"d","configuration":""}}', "x"
    )
    remove, metadata, domain = commit.actions
    assert isinstance(remove, Remove)
    assert remove.data_change
    assert metadata == Metadata("1")
    assert domain == DomainMetadata("d", "")


def test_properties_without_a_value_are_dropped():
    commit = decode_commit(b'{"metaData":{"id":"1","schemaString":"{}","configuration":{"a":null,"b":"c"}}}', "x")
    assert commit.metadata is not None
    assert commit.metadata.configuration == {"b": "c"}


def test_unknown_actions_are_kept_in_order():
    commit = decode_commit(b'{"x":{}}\n{"txn":{"appId":"a","version":1}}\n{"x":{"y":1}}\n', "x.json")
    assert [type(action).__name__ for action in commit.actions] == ["UnknownAction", "Txn", "UnknownAction"]


def test_blank_lines_and_windows_line_ends_are_fine():
    assert decode_commit(b'\r\n{"txn":{"appId":"a","version":1}}\r\n\n', "x").txns == [Txn("a", 1)]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b'{"txn":{"appId":"a","version":1}}\n{"txn":{"appId":"a","ver', "line 2"),
        (b'{"add":{"path":"a","partitionValues":{},"size":-1,"modificationTime":2,"dataChange":true}}', "size"),
        (b'{"add":{"path":"a","partitionValues":{},"size":1e40,"modificationTime":2,"dataChange":true}}', "size"),
        (
            b'{"add":{"path":"a","partitionValues":{},"size":99999999999999999999,"modificationTime":2,"dataChange":true}}',
            "size",
        ),
        (b'{"add":{"partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}', "path"),
        (b'{"add":[]}', "add"),
        (b'{"add":{"path":"\xff","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}', "line 1"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "x.json"),
        (b"\x00\x01PAR1", "line 1"),
        (b'"add"', "line 1"),
        (b'{"metaData":{"id":7}}', "metaData"),
        (b'{"commitInfo":[]}', "commitInfo"),
        (b'{"txn":{"appId":"a","version":1},"remove":{"path":"b"}}', "more than one action"),
    ],
)
def test_damage_is_a_typed_error_that_says_where(data, names):
    with pytest.raises(MalformedError, match=names) as caught:
        decode_commit(data, "x.json")
    assert caught.value.condition == "MALFORMED_LOG"
    assert "x.json" in str(caught.value)


@pytest.mark.parametrize("values", [{"inCommitTimestamp": "soon"}, {"inCommitTimestamp": True}, {}])
def test_provenance_of_the_wrong_type_reads_as_missing(values):
    assert CommitInfo(values).in_commit_timestamp is None
