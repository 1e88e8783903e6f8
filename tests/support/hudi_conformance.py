"""Hudi tables that other writers wrote, and the rows that those writers read from them.

The tables lie beside the project and are never copied into it. Where engines disagree about a table, the rule is named
at the case.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from halocline.formats.hudi import configuration as keys
from tests.support.conformance import FOLDER, tables_of

SPARK = FOLDER / "hudi-jvm"
QUERY, BEGIN, END = (
    f"hoodie.datasource.{key}" for key in ("query.type", "read.begin.instanttime", "read.end.instanttime")
)
FORMAT = "hoodie.datasource.query.incremental.format"
AS_OF = "as.of.instant"
EXPECTED: dict[str, Any] = {path.stem: json.loads(path.read_text()) for path in sorted(SPARK.glob("v*.json"))}
OURS = {keys.WATERMARK, keys.COPIED_TIMELINE}
"""Properties of a table that only our moves write."""
_SHOWN = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")


def unpack(archive: Path, folder: Path) -> Path:
    """The table of an archive, unpacked into a folder."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    (found,) = (path.parent for path in folder.glob("*/.hoodie") if "__MACOSX" not in path.parts)
    return found


def original(name: str, folder: Path) -> Path:
    """A table as it was, with the times at which its files were written; without the tables, the test is skipped."""
    tables = tables_of("hudi-jvm")
    table = unpack(tables / f"{name}.zip", folder)
    for path, moment in json.loads((tables / f"{name}.json").read_text())["mtimes_ns"].items():
        if (table / path).exists():
            os.utime(table / path, ns=(moment, moment))
    return table


def plain(value: Any) -> Any:
    """A value as it stands in the expected rows."""
    match value:
        case Decimal():
            return str(value)
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case bytes():
            return f"0x{value.hex()}"
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
    return value


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    found = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict"))
    return ordered(
        {name: plain(value) for name, value in row.items() if not name.startswith("_hoodie_") or name in _SHOWN}
        for row in found
    )


def ordered(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def partition_values_as_stored(name: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """What the files hold. For timestamp generators 0.15 shows the path in place of the value, 1.2 shows it as text."""
    said = query["rows"]
    if "timestamp_kg" not in name or not said or isinstance(said[0]["ts"], int):
        return said
    stored = {row["_hoodie_record_key"]: 1700000000000 + int(row["id"][1:]) * 3600000 for row in said}
    if name.startswith("v6_"):
        assert all(row["ts"] == row["_hoodie_partition_path"] for row in said)
    else:
        assert all(row["ts"] == str(stored[row["_hoodie_record_key"]]) for row in said)
    return [{**row, "ts": stored[row["_hoodie_record_key"]]} for row in said]


def begin_of(name: str, query: dict[str, Any]) -> str | None:
    """The begin of a range. 1.0.2 counts the begin in, which no release before or after it does, and no reader here."""
    begin = query["options"].get(BEGIN)
    return str(int(begin) - 1) if name.startswith("v8_") else begin


def decoded_change(row: dict[str, Any]) -> dict[str, Any]:
    """A change as Spark shows it: images are texts in the JSON of Avro."""
    return {**row, "before": decoded_image(row["before"]), "after": decoded_image(row["after"])}


def decoded_image(text: str) -> dict[str, Any] | None:
    image = json.loads(text)
    if image is None:
        return None
    unscaled = int.from_bytes(bytes(each % 256 for each in image["amount"]), "big", signed=True)
    return {
        **image,
        "amount": str(Decimal(unscaled).scaleb(-2)),
        "d": date.fromordinal(date(1970, 1, 1).toordinal() + image["d"]).isoformat(),
        "t": plain(datetime(1970, 1, 1) + timedelta(microseconds=image["t"])),
        "bin": f"0x{image['bin'].encode('latin-1').hex()}",
    }
