"""Many writers on one table: every row once, no version missing, whoever writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import deltalake
import pytest
from tests.support.columns import field, schema

from halocline.formats.delta.actions.action import decode_commit
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.log.checksum import read_summary
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import complete_checkpoints, list_files
from halocline.storage.local import LocalStore

WORKER = Path(__file__).with_name("commit_worker.py")


def created(folder) -> LocalStore:
    store = LocalStore(folder, sync=False)
    columns = schema(field("writer", "string"), "number")
    Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(columns))
    return store


def run(store: LocalStore, writers: dict[str, tuple[str, int]]) -> dict[str, dict]:
    """Runs writers at the same time: name to kind and number of commits."""
    started = {
        name: subprocess.Popen(
            [sys.executable, str(WORKER), kind, store.folder, name, str(commits)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, (kind, commits) in writers.items()
    }
    results = {}
    for name, process in started.items():
        out, errors = process.communicate(timeout=240)
        assert process.returncode == 0, f"{name}: {errors[-2000:]}"
        results[name] = json.loads(out)
    return results


def assert_whole(store: LocalStore, writers: dict[str, tuple[str, int]]) -> None:
    total = sum(commits for _, commits in writers.values())
    snapshot = Snapshot.load(store)
    files = list_files(store, DELTA)
    commits = [file.version for file in files if file.kind is FileKind.COMMIT]
    assert commits == list(range(total + 1)), "the log has gaps or versions too many"
    added = Counter(
        add.path
        for version in commits
        for add in decode_commit(store.get(DELTA.commit_path(version)), str(version)).adds
    )
    assert set(added.values()) == {1}
    assert sorted(snapshot.files()["path"].to_pylist()) == sorted(added)
    rows = deltalake.DeltaTable(store.folder).to_pyarrow_table().to_pydict()
    found = Counter(zip(rows["writer"], rows["number"], strict=True))
    wanted = {(name, number) for name, (_, commits) in writers.items() for number in range(commits)}
    assert set(found) == wanted
    assert set(found.values()) == {1}, "a row is there twice"
    for checkpoint in complete_checkpoints(files):
        batches = Checkpoint(store, DELTA, checkpoint).adds(["path"])
        assert sum(len(batch["path"]) for batch in batches) == checkpoint.version
    for file in files:
        if file.kind is FileKind.CHECKSUM:
            assert read_summary(store, file.version).table_size.files == file.version


@pytest.mark.slow
def test_eight_processes_with_two_hundred_commits_each_lose_nothing(tmp_path):
    store = created(tmp_path / "table")
    writers = {f"writer{number}": ("halocline", 200) for number in range(8)}
    results = run(store, writers)
    assert [result["problems"] for result in results.values()] == [[]] * 8
    assert sum(result["losses"] for result in results.values()) > 0, "nobody ever met"
    assert_whole(store, writers)
    checkpoints = [file.version for file in list_files(store, DELTA) if file.kind is FileKind.CHECKPOINT]
    assert checkpoints == list(range(10, 1601, 10))


def test_halocline_and_deltalake_append_side_by_side(tmp_path):
    store = created(tmp_path / "table")
    writers = {"ours": ("halocline", 20), "theirs": ("deltalake", 12), "also ours": ("halocline", 20)}
    run(store, writers)
    assert_whole(store, writers)
