"""A survey of many tables on local disk: 10,000 within a minute.

    python bench/survey.py [--tables 10000]

The lake is made by copying small logs: Delta tables of several protocols and numbers of commits, Hudi tables, and a few
damaged ones. Printed: seconds to find the tables and to survey them, tables per second, and the target.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
ENGINES = ["Apache-Spark/3.5.0 Delta-Lake/3.2.0", "delta-rs:py-0.25.5", "Apache-Spark/4.0.0 Delta-Lake/4.0.0"]
PROTOCOLS = [
    ({"minReaderVersion": 1, "minWriterVersion": 2}, {}),
    ({"minReaderVersion": 1, "minWriterVersion": 4}, {"delta.enableChangeDataFeed": "true"}),
    (
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors"],
        },
        {"delta.enableDeletionVectors": "true"},
    ),
]


def make_log(folder: Path, number: int) -> None:
    """A log of two to six commits."""
    protocol, configuration = PROTOCOLS[number % len(PROTOCOLS)]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    metadata = {
        "id": f"5fba94ed-9794-4965-ba6e-{number:012d}",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": 1700000000000,
    }
    for version in range(2 + number % 5):
        info = {"timestamp": 1700000000000 + version * 1000, "operation": "WRITE", "engineInfo": ENGINES[number % 3]}
        add = {
            "path": f"part-{version}.parquet",
            "partitionValues": {},
            "size": 1000 + number,
            "modificationTime": 1700000000000,
            "dataChange": True,
            "stats": '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":3},"nullCount":{"id":0}}',
        }
        lines = [{"commitInfo": info}, {"add": add}]
        if version == 0:
            lines += [{"protocol": protocol}, {"metaData": metadata}]
        (log / f"{version:020}.json").write_text("".join(json.dumps(each) + "\n" for each in lines))


def make_lake(folder: Path, tables: int) -> None:
    """Schemas of a hundred tables each; one table in a thousand is torn."""
    templates = folder / "templates"
    for number in range(15):
        make_log(templates / str(number), number)
    for number in range(tables):
        place = folder / "lake" / f"schema_{number // 100:03}" / f"table_{number:05}"
        shutil.copytree(templates / str(number % 15), place)
        if number % 1000 == 500:
            (place / "_delta_log" / f"{0:020}.json").write_text('{"commitInfo":{"ti')
    shutil.rmtree(templates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=10_000)
    asked = parser.parse_args()
    from halocline import Lake

    with tempfile.TemporaryDirectory() as folder:
        make_lake(Path(folder), asked.tables)
        before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        start = time.perf_counter()
        lake = Lake.discover(Path(folder) / "lake")
        found = time.perf_counter() - start
        survey = lake.survey()
        surveyed = time.perf_counter() - start - found
        spent = (
            sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) - before
        )
        start = time.perf_counter()
        page = len(survey.to_html())
        made = time.perf_counter() - start
    damaged = sum(each.damage is not None for each in survey.tables)
    total = found + surveyed
    print(f"{len(lake):,} tables, {damaged} damaged: found in {found:.1f} s, surveyed in {surveyed:.1f} s", flush=True)
    print(f"{spent:.1f} s of processor time over {min(4, os.cpu_count() or 1)} processes, for a look at a busy machine")
    print(f"page of {page / 1e6:.1f} MB made in {made:.1f} s")
    target = 60 * asked.tables / 10_000
    print(f"{len(lake) / total:,.0f} tables/s  target {target:.0f} s  {'ok' if total <= target else 'MISSED'}")


if __name__ == "__main__":
    main()
