"""Tables that other implementations wrote, read without Spark: row for row what is expected, and what Spark gives.

The first compares with the rows that come with the tables and needs no JVM. The second compares with Spark's own rows,
`to_df().toArrow()`, for some tables, or for all of them with `HALOCLINE_TEST_TABLES=all`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.conformance import tables_of

from halocline.table import Table

TABLES = tables_of("delta")
REFUSED = (
    "deltalog-invalid-protocol-version",
    "deltalog-state-reconstruction-without-protocol",
    "versions-not-contiguous",
)
DAT = sorted(path.parent for path in (TABLES / "dat").glob("*/expected/*/table_version_metadata.json"))
GOLDEN = sorted(path.parent for path in (TABLES / "golden").glob("*/delta") if path.parent.name not in REFUSED)
CASES = [
    *((case.parents[1] / "delta", case / "table_content", case) for case in DAT),
    *((case / "delta", case / "expected", None) for case in GOLDEN),
]
EVERY = 1 if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else 12


def name_of(case: object) -> str:
    return "-".join(case.relative_to(TABLES).parts) if isinstance(case, Path) else ""


def version_of(case: Path | None) -> int | None:
    return None if case is None else json.loads((case / "table_version_metadata.json").read_text())["version"]


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def expected_rows(folder: Path, like: pa.Schema) -> pa.Table:
    """The rows as other implementations have them, in the types of the table."""
    found = [pq.ParquetFile(path).read() for path in sorted(folder.rglob("*.parquet"))]
    return pa.concat_tables(table.cast(like) for table in found)


@pytest.mark.parametrize(("table", "content", "case"), CASES, ids=name_of)
def test_rows_are_the_expected_ones(table, content, case):
    found = Table.for_path(table).to_arrow(version=version_of(case)).read_all()
    assert rows(found) == rows(expected_rows(content, found.schema))


@pytest.mark.spark
@pytest.mark.parametrize(("table", "content", "case"), CASES[::EVERY], ids=name_of)
def test_rows_and_types_are_those_of_spark(table, content, case, spark):
    opened, version = Table.for_path(table, spark), version_of(case)
    found, theirs = opened.to_arrow(version=version).read_all(), opened.to_df(version=version).toArrow()
    assert [str(field.type) for field in found.schema] == [
        str(field.type).replace(" not null", "") for field in theirs.schema
    ]
    assert rows(found) == rows(theirs.cast(found.schema))
