"""Containers of one record: those that begin like one that was read before are read as others are."""

from __future__ import annotations

import io

import pytest
from fastavro import writer
from tests.support.hudi_tables import HudiTableMaker

from halocline.errors import MalformedError
from halocline.formats.hudi.avro import containers
from halocline.formats.hudi.avro.containers import read_record, write_record
from halocline.formats.hudi.configuration import TableType
from halocline.storage.memory import MemoryStore

SCHEMA = {
    "type": "record",
    "name": "a.b",
    "fields": [{"name": "x", "type": ["null", "int"]}, {"name": "y", "type": {"type": "map", "values": "string"}}],
}
RECORDS = [{"x": 1, "y": {}}, {"x": None, "y": {"k": "v" * 300}}, {"x": -5, "y": {"a": "", "b": "\0" * 40}}]


@pytest.mark.parametrize("sync", [bytes(16), bytes(range(16))], ids=["zeros", "others"])
def test_records_of_a_schema_are_read_alike_the_first_time_and_later(sync):
    for record in (*RECORDS, *RECORDS):
        assert read_record(write_record(SCHEMA, record, sync)) == ("a.b", record)
    assert any(each.name == "a.b" for each in containers._READ), "the schema was kept"


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_containers_of_several_records_or_none_are_refused_whatever_was_read_before(codec):
    read_record(write_record(SCHEMA, RECORDS[0]))
    for records in ([], RECORDS):
        out = io.BytesIO()
        writer(out, SCHEMA, records, codec=codec, sync_marker=bytes(16))
        with pytest.raises(MalformedError, match=f"{len(records)} records"):
            read_record(out.getvalue())
    out = io.BytesIO()
    writer(out, SCHEMA, RECORDS[:1], codec=codec)
    assert read_record(out.getvalue()) == ("a.b", RECORDS[0])


def test_whatever_is_cut_off_or_appended_is_damage_also_when_the_schema_is_known():
    whole = write_record(SCHEMA, RECORDS[1], bytes(range(16)))
    assert read_record(whole) == read_record(whole)
    for end in range(len(whole)):
        with pytest.raises(MalformedError):
            read_record(whole[:end])
    with pytest.raises(MalformedError):
        read_record(whole + b"x")


def test_a_timeline_has_few_schemas():
    table = HudiTableMaker.create(MemoryStore(), 9, TableType.COPY_ON_WRITE)
    for number in range(3):
        table.upsert([number], 100 + number, "a")
    assert len(table.snapshot.timeline.metadata_of_writes()) == 3
    assert len(containers._READ) <= containers._BEGINNINGS
