"""A writer in a process of its own: appends small files to a table, one commit each, through the public API.

Usage: python commit_worker.py halocline|deltalake TABLE NAME COMMITS
"""

from __future__ import annotations

import json
import sys
import uuid

import pyarrow as pa


def append_with_halocline(folder: str, name: str, commits: int) -> dict:
    import pyarrow.parquet as pq

    from halocline.formats.delta.actions.action import Add
    from halocline.formats.delta.commit.transaction import Transaction
    from halocline.formats.delta.snapshot.snapshot import Snapshot
    from halocline.storage.local import LocalStore

    store = LocalStore(folder, sync=False)
    losses, problems = 0, []
    for number in range(commits):
        path = f"part-{uuid.uuid4()}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"writer": [name], "number": [number]}), sink)
        data = sink.getvalue().to_pybytes()
        store.put(path, data)
        stats = {"numRecords": 1, "minValues": {"number": number}, "maxValues": {"number": number}}
        file = Add(path, {}, len(data), 1, True, stats=json.dumps(stats | {"nullCount": {"number": 0}}))
        transaction = Transaction(Snapshot.load(store, operation="write"))
        transaction.commit([file], "WRITE")
        losses += transaction.outcome.losses
        problems += transaction.outcome.problems
    return {"losses": losses, "problems": problems}


def append_with_deltalake(folder: str, name: str, commits: int) -> dict:
    import deltalake

    for number in range(commits):
        deltalake.write_deltalake(folder, pa.table({"writer": [name], "number": [number]}), mode="append")
    return {"losses": 0, "problems": []}


if __name__ == "__main__":
    kind, table, who, many = sys.argv[1:]
    act = append_with_halocline if kind == "halocline" else append_with_deltalake
    json.dump(act(table, who, int(many)), sys.stdout)
