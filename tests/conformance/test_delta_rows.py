"""Tables that other implementations wrote, row for row.

The tables lie beside the project and are never copied into it; without them these tests skip.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.support.conformance import tables_of

from halocline.errors import HaloclineError
from halocline.table import Table

pytestmark = pytest.mark.spark

TABLES = tables_of("delta")
REFUSED = {
    "deltalog-invalid-protocol-version": "READER_TOO_OLD",
    "deltalog-state-reconstruction-without-protocol": "MALFORMED_LOG",
    "versions-not-contiguous": "MALFORMED_LOG",
}
DAT = sorted(path.parent for path in (TABLES / "dat").glob("*/expected/*/table_version_metadata.json"))
GOLDEN = sorted(path.parent for path in (TABLES / "golden").glob("*/delta") if path.parent.name not in REFUSED)
FEW = 10_000


def name_of(case: Path) -> str:
    return "-".join(case.relative_to(TABLES).parts[1:]).replace("-expected", "")


def rows(df) -> Counter[str]:
    return Counter(repr(row) for row in df.collect())


def assert_same_rows(found, expected) -> None:
    assert found.columns == expected.columns
    many = expected.count() > FEW
    if many:
        aggregate = f"sum(cast(xxhash64({', '.join(f'`{name}`' for name in expected.columns)}) as decimal(38)))"
        assert found.selectExpr("count(*)", aggregate).collect() == expected.selectExpr("count(*)", aggregate).collect()
    else:
        missing, extra = rows(expected) - rows(found), rows(found) - rows(expected)
        assert not missing, f"missing rows, e.g. {next(iter(missing))}; extra: {next(iter(extra), None)}"
        assert not extra, f"extra rows, e.g. {next(iter(extra))}"


@pytest.mark.parametrize("case", DAT, ids=name_of)
def test_dat_case_has_expected_rows_protocol_and_properties(case, spark):
    facts = json.loads((case / "table_version_metadata.json").read_text())
    table = Table.for_path(case.parents[1] / "delta", spark)
    snapshot = table.snapshot(version=facts["version"])
    assert (snapshot.protocol.reader, snapshot.protocol.writer) == (
        facts["min_reader_version"],
        facts["min_writer_version"],
    )
    assert dict(snapshot.properties) == facts["properties"]
    assert_same_rows(table.to_df(version=facts["version"]), spark.read.parquet(str(case / "table_content")))


@pytest.mark.parametrize("case", GOLDEN, ids=name_of)
def test_golden_table_has_expected_rows(case, spark):
    assert_same_rows(
        Table.for_path(case / "delta", spark).to_df(),
        spark.read.option("recursiveFileLookup", "true").parquet(str(case / "expected")),
    )


@pytest.mark.parametrize(("name", "condition"), REFUSED.items())
def test_golden_table_that_must_be_refused_is_refused_with_a_typed_error(name, condition, spark):
    with pytest.raises(HaloclineError) as refused:
        Table.for_path(TABLES / "golden" / name / "delta", spark)
    assert refused.value.condition == condition, str(refused.value)
