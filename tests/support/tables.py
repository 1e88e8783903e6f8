"""For tests of tables: other readers beside our own, what lies on disk, and somebody who comes in between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq

from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.table import gatekeeper

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=lambda row: json.dumps(row, default=str))


def rows(table: Any, *columns: str, **arguments: Any) -> list[tuple[Any, ...]]:
    """The rows as we read them."""
    df = table.to_df(**arguments)
    return in_order((df.select(*columns) if columns else df).collect())


def rows_of(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as we read them, in the order of their values."""
    return sorted(rows(table, *columns))


def by_another_client(path: Path | str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as deltalake reads them, in the order of their values."""
    return sorted(their_rows(path, *columns))


def their_rows(path: Path | str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as deltalake reads them."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(path)))
    chosen = ", ".join(f'"{column}"' for column in columns) or "*"
    found = query.execute(f"SELECT {chosen} FROM t").read_all()
    lists = [found[name].to_pylist() for name in found.column_names]
    return in_order(zip(*lists, strict=True))


def info(path: Path | str, version: int | None = None) -> dict[str, Any]:
    """What a commit says about itself."""
    found = Snapshot.load(open_store(str(path)), version=version).commit_info
    assert found is not None, f"version {version} has no provenance"
    return dict(found.values)


def actions(path: Path, version: int, kind: str) -> list[dict[str, Any]]:
    """The actions of one kind in a commit, as they lie on disk."""
    lines = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [each[kind] for each in map(json.loads, lines) if kind in each]


def data_files(path: Path) -> set[str]:
    """Everything below a table but its log."""
    found = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    return {file for file in found if not file.startswith("_delta_log/")}


def live_files(path: Path) -> set[str]:
    return set(Snapshot.load(open_store(str(path))).files()["path"].to_pylist())


def footer(path: Path) -> Any:
    """The footer of one live file."""
    return pq.ParquetFile(path / sorted(live_files(path))[0]).metadata


class Untouched:
    """Makes sure that what happens inside neither commits nor leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._before = self._state()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            assert self._state() == self._before

    def _state(self) -> tuple[int, set[str]]:
        return Snapshot.load(open_store(str(self._path))).version, data_files(self._path)


@contextlib.contextmanager
def meanwhile(act: Callable[[], Any], *, times: int = 1) -> Iterator[None]:
    """Does something to the table after the next write has read it, and before it commits."""

    class Nosy(gatekeeper.Alone):
        left = times

        def note_use(self, table: str, operation: str) -> None:
            if operation.startswith("write") and self.left:
                self.left -= 1
                gatekeeper.install(gatekeeper.ALONE)
                try:
                    act()
                finally:
                    gatekeeper.install(self)

    before = gatekeeper.install(Nosy())
    try:
        yield
    finally:
        gatekeeper.install(before)
