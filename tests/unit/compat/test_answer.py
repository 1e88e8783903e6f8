"""Reasons in one line."""

import pytest

from halocline.compat.answer import in_one_line
from halocline.compat.verdict import can


@pytest.mark.parametrize(
    ("release", "operation", "text"),
    [
        ("athena@3", "write", "reader version 1, writer version 2: reads Delta tables and does not write them"),
        ("polars@2.1.0", "write", "the deltalake that is installed beside it writes"),
        ("redshift@latest", "write", "whether it accepts reader version 1, writer version 2 is not known"),
        ("trino@426", "read", ""),
    ],
)
def test_what_holds_for_several_features_is_said_once(release, operation, text):
    verdict = can(release, "(1,2)", operation)
    assert in_one_line(verdict.reasons) == text
    assert str(verdict) == (f"{verdict.answer}: {text}" if text else "ok")


def test_different_reasons_stand_side_by_side():
    verdict = can("delta-flink@3.3.2", "(1,7|W: appendOnly,changeDataFeed)", "write")
    assert in_one_line(verdict.reasons) == (
        "no known release writes changeDataFeed; writer version 7: stands on Delta Standalone, which knows (1,2)"
    )
