"""A small lake of real tables to try things on, made without Spark.

It has three Delta tables, `orders` with a history and a change feed, `items` with deletion vectors, `clicks` in parts
by day, and a `lake.toml` that names who else uses them. What the documentation shows is tried on this lake.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa

from halocline.errors import AlreadyExistsError
from halocline.table import Table

_DAY: Final = dt.date(2026, 11, 1)
_FILE: Final = """\
# The tables of this folder, and who uses them without leaving a trace in their logs.
[tables]
orders = "orders"
items = "items"
clicks = "clicks"

[[clients]]
name = "dashboard"
release = "trino@426"
reads = ["orders", "clicks"]
"""


def make_lake(folder: Path) -> Path:
    """Makes the lake, and gives its `lake.toml`.

    Raises:
        AlreadyExistsError: There is something at that place.
    """
    if folder.exists() and any(folder.iterdir()):
        raise AlreadyExistsError(
            f"{folder} is not empty",
            sides={"asked for": "a new lake there"},
            next_step="Choose another folder: halocline quickstart FOLDER",
        )
    orders = Table.create(folder / "orders", _rows(range(10)), properties={"delta.enableChangeDataFeed": "true"})
    for day in range(3):
        orders.append_arrow(_rows(range(10 * (day + 1), 10 * (day + 1) + 5)))
    Table.create(folder / "items", _rows(range(20)), properties={"delta.enableDeletionVectors": "true"})
    Table.create(folder / "clicks", _rows(range(100)), partition_by="day")
    (folder / "lake.toml").write_text(_FILE)
    return folder / "lake.toml"


def next_commands(folder: str) -> list[str]:
    """What to try first, in this order; each works as it stands, whether the environment is activated or not."""
    halocline, orders = _called("halocline"), f"{folder}/orders"
    target = ["--enable", "deletionVectors"]
    rows = f"hc.Table.for_path({json.dumps(orders)}).to_arrow().read_all()"
    words = [
        [halocline, "inspect", orders],
        [halocline, "log", orders],
        [halocline, "check", orders, *target, "--client", "trino@426", "--client", "deltalake@1.6.6"],
        [halocline, "survey", f"{folder}/lake.toml", *target],
        [_called("python"), "-c", f"import halocline as hc; print({rows})"],
    ]
    return [shlex.join(each) for each in words]


def _called(name: str) -> str:
    """How a shell calls a program of this environment: by its name alone if that is the one that it finds."""
    here = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if not here.exists() or (found is not None and Path(found).absolute().parent == here.parent):
        return name
    return here.as_posix()


def _rows(ids: range) -> pa.Table:
    countries = ("at", "nz", "pt")
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [_DAY + dt.timedelta(each % 5) for each in ids],
            "country": [countries[each % 3] for each in ids],
            "amount": pa.array([each * 100 for each in ids], pa.int64()),
        }
    )
