"""Partition paths made of times, as Apache Hudi's timestamp key generator makes them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from halocline.errors import ConstraintError, UnsupportedError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.partition_paths import partition_paths, partition_values
from halocline.formats.hudi.timestamp_paths import path_of_time

PREFIX = "hoodie.keygen.timebased."


def settings(**pairs: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "."): value for key, value in pairs.items()}


@pytest.mark.parametrize(
    ("pairs", "value", "expected"),
    [
        ({"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/MM/dd/HH"}, 1700003600000, "2023/11/14/23"),
        ({"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyyMMdd"}, 1700003600, "20231114"),
        ({"timestamp_type": "EPOCHMICROSECONDS", "output_dateformat": "yyyy-MM-dd"}, 1700003600000000, "2023-11-14"),
        (
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": "yyyy-MM-dd'T'HH:mm:ss",
                "output_dateformat": "'y'yyyy",
            },
            "2023-11-14T23:00:00",
            "y2023",
        ),
        (
            {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "dd HH", "timezone": "Europe/Vienna"},
            1700003600000,
            "15 00",
        ),
        (
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": "yyyy-MM-dd HH:mm",
                "input_timezone": "America/New_York",
                "output_dateformat": "dd HH",
                "output_timezone": "Asia/Tokyo",
            },
            "2023-11-14 23:00",
            "15 13",
        ),
        ({"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "HHmmss.SSS"}, 1700003600123, "231320.123"),
        ({"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy"}, None, "1970"),
        (
            {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/DDD"},
            datetime(2024, 2, 1, tzinfo=UTC),
            "2024/032",
        ),
        ({"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/MM"}, date(2024, 2, 1), "2024/02"),
    ],
)
def test_values_become_paths(pairs, value, expected):
    assert path_of_time(settings(**pairs), "t")(value) == expected


@pytest.mark.parametrize(
    "pairs",
    [
        {"output_dateformat": "yyyy"},
        {"timestamp_type": "EPOCHMILLISECONDS"},
        {"timestamp_type": "SCALAR", "output_dateformat": "yyyy"},
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy EEE"},
        {"timestamp_type": "DATE_STRING", "output_dateformat": "yyyy"},
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy", "timezone": "Europe/Wien"},
    ],
)
def test_what_is_not_known_is_refused(pairs):
    with pytest.raises(UnsupportedError, match="made of times in a way"):
        path_of_time(settings(**pairs), "t")


def test_a_text_that_is_no_time_breaks_the_write():
    pairs = settings(timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd", output_dateformat="yyyy")
    with pytest.raises(ConstraintError, match="'soon' is no time"):
        path_of_time(pairs, "t")("soon")


def test_a_custom_generator_joins_values_and_times():
    pairs = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "8",
        "hoodie.table.keygenerator.type": "CUSTOM",
        "hoodie.table.partition.fields": "region:SIMPLE,ts:TIMESTAMP",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    pairs |= settings(timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyyMMdd")
    config = HudiTableConfig.parse(pairs, "t")
    rows = pa.table({"region": ["eu", None], "ts": [1700003600000, 0]})
    made = partition_paths(rows, config)
    assert made == ["region=eu/ts=20231114", "region=__HIVE_DEFAULT_PARTITION__/ts=19700101"]
    assert [partition_values(each, config) for each in made] == [{"region": "eu"}, {}], "a path tells no time"
