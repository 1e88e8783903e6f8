"""`hoodie.properties` is read as Java reads it, and written as Java writes it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.properties import checksum, encode, parse, properties, read_properties, table_version
from halocline.storage.memory import MemoryStore

NOW = datetime(2026, 11, 5, 1, 2, 3, 456000, tzinfo=UTC)
WHOLE = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6"}


def store_with(*, main: dict | bytes | None = None, backup: dict | bytes | None = None) -> MemoryStore:
    store = MemoryStore()
    for name, content in (("hoodie.properties", main), ("hoodie.properties.backup", backup)):
        if content is not None:
            store.put(f".hoodie/{name}", encode(content, NOW) if isinstance(content, dict) else content)
    return store


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("#Properties saved on 2025\n!old\n\n  a = 1 ", {"a": "1 "}),
        (r"schema={\"type\"\:\"record\"}", {"schema": '{"type":"record"}'}),
        ("a=one \\\n   two\nb=2", {"a": "one two", "b": "2"}),
        (r"k\=x=\u0041\t", {"k=x": "A\t"}),
        ("path=s3://lake/x=1", {"path": "s3://lake/x=1"}),
        ("a=\nb=2", {"a": "", "b": "2"}),
        ("", {}),
    ],
)
def test_pairs_are_read_as_java_reads_them(text, expected):
    assert parse(text) == expected


def test_a_file_is_written_as_java_writes_it():
    pairs = {"hoodie.table.create.schema": '{"a":[1]}', "x y": " =#! \\\t", "name": "größe 😀"}
    assert encode(pairs, NOW, created=True).decode() == (
        "#Properties saved on 2026-11-05T01:02:03.456000Z\n"
        "#Thu Nov 05 01:02:03 UTC 2026\n"
        'hoodie.table.create.schema={"a"\\:[1]}\n'
        "x\\ y=\\ \\=\\#\\! \\\\\\t\n"
        "name=gr\\u00F6\\u00DFe \\uD83D\\uDE00\n"
    )


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    )
)
def test_what_is_written_is_read_again_in_order(pairs):
    assert list(parse(encode(pairs, NOW).decode()).items()) == list(pairs.items())


def test_the_checksum_is_that_of_database_and_name():
    # Both as Apache Hudi wrote them.
    assert checksum({"hoodie.table.name": "mor_event"}) == "1834617195"
    assert checksum({"hoodie.table.name": "v8_nonpartitioned", "hoodie.database.name": "default"}) == "1908876706"


def test_the_backup_stands_in_while_the_file_is_being_replaced():
    newer = {**WHOLE, "hoodie.table.version": "8"}
    torn = encode({**newer, "hoodie.table.checksum": checksum(newer)}, NOW)
    for main in (None, b"", torn[:90], b"\xff\xfe", {**newer, "hoodie.table.checksum": "1"}):
        found = read_properties(store_with(main=main, backup=WHOLE))
        assert (found.pairs, found.path) == (WHOLE, ".hoodie/hoodie.properties.backup"), main
    assert table_version(properties(store_with(main=newer, backup=WHOLE)), "t") == 8


def test_no_table_and_a_damaged_one_are_different_errors():
    with pytest.raises(NotFoundError, match="no Hudi table"):
        properties(store_with())
    for main in (b"", b"\xff\xfe", {}, {**WHOLE, "hoodie.table.checksum": "5"}, {**WHOLE, "hoodie.table.name": " "}):
        with pytest.raises(MalformedError, match="cannot be used") as caught:
            properties(store_with(main=main))
        assert "hoodie.properties" in caught.value.sides


def test_a_version_that_is_no_number_is_malformed():
    for text in ("", "six", "-1", "٦"):
        with pytest.raises(MalformedError, match="name no table version"):
            table_version({"hoodie.table.version": text}, "t")
