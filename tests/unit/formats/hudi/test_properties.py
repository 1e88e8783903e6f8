"""`hoodie.properties` is read as Java reads it."""

import pytest

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.properties import parse, properties, table_version
from halocline.storage.memory import MemoryStore


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("#Properties saved on 2025\n!old\n\n  a = 1 ", {"a": "1"}),
        (r"schema={\"type\"\:\"record\"}", {"schema": '{"type":"record"}'}),
        ("a=one \\\n   two\nb=2", {"a": "one two", "b": "2"}),
        (r"k\=x=\u0041\t", {"k=x": "A\t"}),
        ("path=s3://lake/x=1", {"path": "s3://lake/x=1"}),
        ("", {}),
    ],
)
def test_pairs_are_read_as_java_reads_them(text, expected):
    assert parse(text) == expected


def test_the_backup_stands_in_while_the_file_is_being_replaced():
    store = MemoryStore("hudi-backup")
    store.put(".hoodie/hoodie.properties.backup", b"hoodie.table.version=6")
    assert table_version(properties(store), store.root) == 6
    store.put(".hoodie/hoodie.properties", b"")
    assert table_version(properties(store), store.root) == 6
    store.put(".hoodie/hoodie.properties", b"hoodie.table.version=8")
    assert table_version(properties(store), store.root) == 8


def test_no_table_and_no_version_are_different_errors():
    store = MemoryStore("hudi-none")
    with pytest.raises(NotFoundError, match="no Hudi table"):
        properties(store)
    store.put(".hoodie/hoodie.properties", b"\xff\xfe")
    with pytest.raises(MalformedError, match="not text"):
        properties(store)
    for text in ("", "six", "-1", "٦"):
        with pytest.raises(MalformedError, match="name no table version"):
            table_version({"hoodie.table.version": text}, "t")
