"""Hudi tables that Apache Hudi wrote, row for row, through `Table` on Spark.

Some tables of every kind are read with every query; `HALOCLINE_TEST_TABLES=all` reads all of them, in some minutes.
The tables lie beside the project; without them these tests skip.
"""

from __future__ import annotations

import os
import warnings

import pytest
from tests.support.conformance import tables_of
from tests.support.hudi_conformance import (
    AS_OF,
    BEGIN,
    END,
    EXPECTED,
    FORMAT,
    QUERY,
    SPARK,
    begin_of,
    decoded_change,
    ordered,
    partition_values_as_stored,
    rows,
    unpack,
)

from halocline.errors import NotFoundError
from halocline.spark.scan import slice_frames
from halocline.table import HudiTable, Table
from halocline.table.hudi.read import IncompleteRangeWarning

tables_of("hudi-jvm")

SOME = (
    "v6_cow_cdc",
    "v6_cow_clustered",
    "v6_cow_timestamp_kg",
    "v6_mor_archived",
    "v6_mor_commit",
    "v6_mor_evolved",
    "v6_mor_pending",
    "v8_cow_hive_mdt",
    "v8_mor_bucket_logonly",
    "v8by120_mor_logs",
    "v9_cow_archived",
    "v9_cow_complex2",
    "v9_mor_partial",
    "v9_mor_payload_partial",
)
CHOSEN = tuple(EXPECTED) if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else SOME


def found(table: HudiTable, name: str, query: dict) -> list[dict]:
    options = query["options"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteRangeWarning)  # Apache Hudi leaves out archived writes without a word
        if options.get(FORMAT) == "cdc":
            df = table.changes(options[BEGIN])
        elif options[QUERY] == "incremental":
            df = table.incremental(begin_of(name, query), options.get(END))
        else:
            df = table.to_df(query=options[QUERY], version=options.get(AS_OF))
    return rows(df.toArrow().to_batches())


@pytest.mark.parametrize("here", [True, False], ids=["by the driver", "by workers"])
def test_base_files_that_spark_reads_are_corrected_by_log_files(spark, tmp_path, monkeypatch, here):
    """However large the logs are: rows that do not hold any more are taken out by position, and what holds is added."""
    monkeypatch.setattr(slice_frames, "_SMALL_SHARE", 0)
    some = ("v6_mor_commit", "v6_mor_pending", "v9_mor_payload_partial")[: 3 if here else 1]
    if not here:
        monkeypatch.setattr(slice_frames, "_KEYS_HERE", 0)
        monkeypatch.setattr(slice_frames, "_ROWS_HERE", 0)
    for name in CHOSEN if len(CHOSEN) > len(SOME) else some:
        if "mor" in name:
            assert wrong_queries(spark, tmp_path / name, name) == [], name


@pytest.mark.parametrize("name", CHOSEN)
def test_every_query_returns_what_the_writer_returned(spark, tmp_path, name):
    assert wrong_queries(spark, tmp_path, name) == []


def wrong_queries(spark, folder, name: str) -> list[dict]:
    """The queries of a table that return other rows than its writer returned, with what they return."""
    table = Table.for_path(unpack(SPARK / f"{name}.zip", folder), spark)
    wrong = []
    for query in EXPECTED[name]["queries"]:
        if "error" in query:
            with pytest.raises(NotFoundError, match="have been cleaned"):
                table.to_df(version=query["options"][AS_OF])
            continue
        is_change = query["options"].get(FORMAT) == "cdc"
        said = map(decoded_change, query["rows"]) if is_change else partition_values_as_stored(name, query)
        here, expected = found(table, name, query), ordered(said)
        if here != expected:
            wrong.append({"query": query["id"], "found": here, "expected": expected})
    return wrong


def test_a_range_whose_first_writes_have_left_the_timeline_is_told_of(spark, tmp_path):
    table = Table.for_path(unpack(SPARK / "v6_cow_archived.zip", tmp_path), spark)
    with pytest.warns(IncompleteRangeWarning, match="have left its timeline"):
        assert table.incremental("0").count() == 8
    assert table.to_df().count() == 13
