"""Data blocks give their rows, delete blocks their keys; damage and other forms are errors with a name."""

import io
import json
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, schemaless_writer

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.blocks.content import encode_avro_rows, rows_of
from halocline.formats.hudi.blocks.deletes import DeletedKey, deleted_keys, encode_deletes
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block, read_blocks

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}


def block(type: BlockType, content: bytes, schema: str = json.dumps(SCHEMA)):
    (found,) = read_blocks(encode_block(type, {HeaderKey.SCHEMA: schema}, content), "f.log")
    return found


def avro(*values: str | None) -> bytes:
    rows = []
    for value in values:
        out = io.BytesIO()
        schemaless_writer(out, parse_schema(SCHEMA), {"a": value})
        rows.append(out.getvalue())
    return encode_avro_rows(rows)


@pytest.mark.parametrize("type", [BlockType.AVRO_DATA, BlockType.CHANGE_DATA])
def test_avro_rows_are_read_with_the_schema_of_the_block(type):
    assert rows_of(block(type, avro("x", None, "ä"))).to_pydict() == {"a": ["x", None, "ä"]}


def test_a_block_may_hold_no_rows():
    assert rows_of(block(BlockType.AVRO_DATA, avro())).num_rows == 0


def test_parquet_rows_are_read():
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    assert rows_of(block(BlockType.PARQUET_DATA, out.getvalue())).to_pydict() == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("type", "content"),
    [
        (BlockType.AVRO_DATA, b""),
        (BlockType.AVRO_DATA, avro("x")[:-1]),
        (BlockType.AVRO_DATA, avro("x") + b"\0"),
        (BlockType.AVRO_DATA, struct.pack(">ii", 3, 2) + avro("x")[8:]),
        (BlockType.AVRO_DATA, struct.pack(">ii", 3, 0) + avro("x")[8:]),
        (BlockType.AVRO_DATA, struct.pack(">ii", 3, -1)),
        (BlockType.AVRO_DATA, struct.pack(">iii", 3, 1, -4)),
        (BlockType.AVRO_DATA, struct.pack(">iii", 3, 1, 1) + b"\x02"),
        (BlockType.PARQUET_DATA, b"PAR1 and nothing else PAR1"),
        (BlockType.PARQUET_DATA, b""),
    ],
)
def test_damaged_rows_are_malformed(type, content):
    with pytest.raises(MalformedError, match=r"f\.log is damaged"):
        rows_of(block(type, content))


def test_rows_without_a_readable_schema_are_malformed():
    with pytest.raises(MalformedError, match="schema in the avro data block at byte 0"):
        rows_of(block(BlockType.AVRO_DATA, avro("x"), schema="{"))


def test_forms_that_are_not_read_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="hfile data block"):
        rows_of(block(BlockType.HFILE_DATA, b"TRABLK"))
    with pytest.raises(UnsupportedError, match="content version 9"):
        rows_of(block(BlockType.AVRO_DATA, struct.pack(">ii", 9, 0)))
    with pytest.raises(UnsupportedError, match="content version 2"):
        deleted_keys(block(BlockType.DELETE, struct.pack(">ii", 2, 0)))


@pytest.mark.parametrize(
    "ordering", [None, 5, 0, -1, 2.5, "x", True, b"\x01", Decimal("1.5"), (1, "x", None), (), 2**40]
)
def test_deleted_keys_come_back_with_their_ordering(ordering):
    keys = [DeletedKey("a", "p=1", ordering), DeletedKey("b", None, ordering)]
    assert deleted_keys(block(BlockType.DELETE, encode_deletes(keys))) == keys


def test_a_delete_without_ordering_is_written_as_apache_hudi_writes_it():
    # Taken from a log file of Apache Hudi 1.2.0: the wrapper of a short number, 0.
    written = bytes.fromhex("000000030000000e0202086b30303302046575040000")
    assert deleted_keys(block(BlockType.DELETE, written)) == [DeletedKey("k003", "eu")]
    assert encode_deletes([DeletedKey("k003", "eu")]) == written


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0\3",
        struct.pack(">ii", 3, 5) + b"\0",
        struct.pack(">ii", 3, 3) + b"\2\2\6",
        encode_deletes([DeletedKey("a")]) + b"\0",
    ],
)
def test_damaged_deletes_are_malformed(content):
    with pytest.raises(MalformedError, match=r"delete block at byte 0 of f\.log is damaged"):
        deleted_keys(block(BlockType.DELETE, content))
