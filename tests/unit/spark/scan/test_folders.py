"""Folders count only where they say what the log says; no session is needed to decide that."""

from __future__ import annotations

import pyarrow as pa
import pytest

from halocline.schema import Primitive
from halocline.spark.scan import folders
from halocline.spark.scan.folders import layouts
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues


def values(*rows: dict[str, str | None], **types: str) -> PartitionValues:
    maps = pa.array([list(row.items()) for row in rows], pa.map_(pa.string(), pa.string()))
    columns = [PartitionColumn(name, name, Primitive(type)) for name, type in types.items()]
    return PartitionValues(pa.table({"partition_values": maps}), columns)


def divided(known: PartitionValues, *paths: str, reserved: tuple[str, ...] = ("id",)) -> tuple[list, list[int]]:
    found, rest = layouts([(n, f"file:///lake/t/{path}") for n, path in enumerate(paths)], known, reserved)
    return [(layout.names, layout.files) for layout in found], rest


def test_agreeing_folders_are_one_layout():
    known = values({"p": "a/b"}, {"p": None}, {"p": ""}, p="string")

    found = divided(known, "p=a%2Fb/1", "p=__HIVE_DEFAULT_PARTITION__/2", "p=__HIVE_DEFAULT_PARTITION__/3")

    assert found == ([(("p",), [0, 1, 2])], [])


@pytest.mark.parametrize(
    ("path", "text", "type"),
    [
        ("p=b/1", "a", "string"),
        ("p=__HIVE_DEFAULT_PARTITION__/1", "a", "string"),
        ("p=a/1", None, "string"),
        ("P=a/1", "a", "string"),
        ("p=/1", None, "string"),
        ("p=a/deeper/1", "a", "string"),
        ("1", "a", "string"),
        ("p=07/1", "7", "integer"),
        ("p=07/1", "07", "integer"),
        ("p=2020-1-1/1", "2020-1-1", "date"),
        ("p=1.50/1", "1.50", "decimal(5,2)"),
        ("p=2020-01-01 00%3A00%3A00/1", "2020-01-01 00:00:00", "timestamp"),
        ("p=a/p=a/1", "a", "string"),
        ("id=x/p=a/1", "a", "string"),
        ("q=/p=a/1", "a", "string"),
    ],
)
def test_folder_that_differs_from_the_log_does_not_count(path, text, type):
    assert divided(values({"p": text}, p=type), path) == ([], [0])


def test_files_below_different_folders_are_different_layouts():
    known = values(*[{"p": "a"}] * 5, p="string")

    found = divided(known, "x/p=a/1", "x/p=a/2", "y/p=a/3", "z=1/p=a/4", "5")

    assert found == ([(("p",), [0, 1]), (("p",), [2]), (("z", "p"), [3])], [4])


def test_order_of_folders_is_free_and_that_of_columns_stays():
    known = values({"p": "1", "q": "x"}, p="integer", q="string")

    assert divided(known, "q=x/p=1/f") == ([(("q", "p"), [0])], [])


def test_too_many_layouts_or_folders_are_left_to_the_log(monkeypatch):
    known = values(*[{"p": str(n)} for n in range(6)], p="integer")

    assert len(divided(known, *(f"{n}/p={n}/f" for n in range(6)))[0]) == folders.MOST_LAYOUTS
    monkeypatch.setattr(folders, "MOST_FOLDERS", 5)
    assert divided(known, *(f"p={n}/f" for n in range(6))) == ([], list(range(6)))
