"""Every public way to a table's rows or log passes the gate.

The methods of `Table`, and of the class under Delta's names, are found by looking; each must be listed here with a way
to call it, or among those that touch nothing. A method that is new fails the first test until somebody has decided.

Each is tried on a table that was fine when it was opened and requires too much now. It must be refused, and not a byte
below the table may change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.support.columns import field

from halocline.cli.commands import COMMANDS
from halocline.cli.main import run
from halocline.delta.tables import DeltaTable
from halocline.errors import HaloclineError
from halocline.formats.delta.actions.action import CommitInfo, ProtocolAction, encode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store
from halocline.table import DeltaLakeTable, Table

BREAKERS = {
    "reader version 99": ProtocolAction(99, 99),
    "unknown reader-writer feature": ProtocolAction(3, 7, ("glow",), ("glow",)),
    "unknown writer feature": ProtocolAction(1, 7, None, ("glow",)),
}
FOR_WRITERS = "unknown writer feature"
CODES_FOR_WRITERS = {
    how: ("WRITER_TOO_OLD",) if how == FOR_WRITERS else ("READER_TOO_OLD", "WRITER_TOO_OLD") for how in BREAKERS
}

TOUCHES_NOTHING = {
    "can": "judges others by the protocol alone, which is what tells them that they may not",
    "features": "shows the protocol",
    "format": "a constant",
    "header": "shows the protocol and metadata",
    "is_table": "looks for a log",
    "protocol": "shows the protocol",
    "spark": "the session",
    "store": "where it lies",
    "terms": "shows the protocol, and what is in use",
    "url": "where it lies",
    "version": "the number of the newest version",
}


@dataclass
class Ground:
    """A table that was fine when it was opened."""

    path: str
    table: Table
    spark: Any
    elsewhere: Path

    @property
    def df(self) -> Any:
        return self.spark.sql("SELECT 1L AS id, 'x' AS t")

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(max(path.stat().st_mtime for path in Path(self.path).rglob("*.json")), UTC)

    def shim(self) -> Any:
        return DeltaTable(self.table)


Call = Callable[[Ground], Any]

READS: Mapping[str, Call] = {
    "changes": lambda g: g.table.changes(0),
    "count": lambda g: g.table.count(),
    "deep_clone": lambda g: g.table.deep_clone(g.elsewhere / "clone"),
    "detail": lambda g: g.table.detail(),
    "generate": lambda g: g.table.generate(),
    "for_path": lambda g: Table.for_path(g.path, g.spark),
    "history": lambda g: g.table.history(),
    "register_view": lambda g: g.table.register_view("entry_point"),
    "schema": lambda g: g.table.schema,
    "shallow_clone": lambda g: g.table.shallow_clone(g.elsewhere / "clone"),
    "snapshot": lambda g: g.table.snapshot(),
    "to_arrow": lambda g: g.table.to_arrow(),
    "to_df": lambda g: g.table.to_df(),
    "to_pandas": lambda g: g.table.to_pandas(),
    "to_polars": lambda g: g.table.to_polars(),
}
WRITES: Mapping[str, Call] = {
    "add_columns": lambda g: g.table.add_columns([field("more", "long")]),
    "add_constraint": lambda g: g.table.add_constraint("positive", "id > 0"),
    "add_feature_support": lambda g: g.table.add_feature_support("deletionVectors"),
    "allow_nulls": lambda g: g.table.allow_nulls("id"),
    "append": lambda g: g.table.append(g.df),
    "append_arrow": lambda g: g.table.append_arrow(pa.table({"id": [1]})),
    "append_batch": lambda g: g.table.append_batch(g.df, 1, app_id="entry"),
    "cluster_by": lambda g: g.table.cluster_by("id"),
    "create": lambda g: Table.create(g.path, "id BIGINT", g.spark, exist_ok=True),
    "deep_clone (in place of it)": lambda g: Table.for_path(_fine(g.elsewhere / "fine")).deep_clone(
        g.path, replace=True
    ),
    "delete": lambda g: g.table.delete("id = 1"),
    "downgrade": lambda g: g.table.downgrade("deletionVectors"),
    "drop_column": lambda g: g.table.drop_column("t"),
    "drop_constraint": lambda g: g.table.drop_constraint("positive", if_exists=True),
    "drop_feature_support": lambda g: g.table.drop_feature_support("deletionVectors"),
    "merge": lambda g: g.table.merge(g.df, "t.id = s.id").when_not_matched_insert_all().execute(),
    "move_column": lambda g: g.table.move_column("t"),
    "optimize": lambda g: g.table.optimize().execute_compaction(),
    "optimize (purging)": lambda g: g.table.optimize().execute_purge(),
    "optimize (in another order)": lambda g: g.table.optimize().execute_z_order_by("id"),
    "overwrite": lambda g: g.table.overwrite(g.df),
    "plan_drop": lambda g: g.table.plan_drop("deletionVectors"),
    "rename_column": lambda g: g.table.rename_column("t", "u"),
    "replace_columns": lambda g: g.table.replace_columns([field("id", "long"), field("t", "string")]),
    "replace": lambda g: Table.replace(g.path, "id BIGINT", g.spark),
    "restore": lambda g: g.table.restore(0),
    "set_comment": lambda g: g.table.set_comment("about orders"),
    "set_default": lambda g: g.table.set_default("t", "'x'"),
    "set_properties": lambda g: g.table.set_properties({"delta.appendOnly": "true"}),
    "sync_identity": lambda g: g.table.sync_identity("id"),
    "unset_properties": lambda g: g.table.unset_properties(["delta.appendOnly"], if_exists=True),
    "update": lambda g: g.table.update({"t": "'y'"}, "id = 1"),
    "upgrade": lambda g: g.table.upgrade("deletionVectors"),
    "upgrade_table_protocol": lambda g: g.table.upgrade_table_protocol(1, 4),
    "vacuum": lambda g: g.table.vacuum(0, dry_run=False, enforce_retention=False),
    "vacuum (lite)": lambda g: g.table.vacuum(0, dry_run=False, enforce_retention=False, lite=True),
    "vacuum (looking only)": lambda g: g.table.vacuum(),
    "widen_column": lambda g: g.table.widen_column("id", "decimal(38,0)"),
}
OTHER_READS: Mapping[str, Call] = {
    "read.format": lambda g: g.spark.read.format("halocline").load(g.path).collect(),
    "read.format with a schema": lambda g: g.spark.read.format("halocline").schema("id long").load(g.path).collect(),
    "read.format of changes": lambda g: (
        g.spark.read.format("halocline").options(readChangeFeed="true", startingVersion="0").load(g.path).collect()
    ),
    "readStream.format": lambda g: _streamed(g),
}
OTHER_WRITES: Mapping[str, Call] = {
    "halocline lint --fix": lambda g: _command("lint", g.path, "--fix"),
    "write.format append": lambda g: g.df.write.format("halocline").mode("append").save(g.path),
    "write.format overwrite": lambda g: g.df.write.format("halocline").mode("overwrite").save(g.path),
    "writeStream.format": lambda g: _written_as_stream(g),
}
REFUSED_FOR_BEING_THERE: Mapping[str, Call] = {
    "convert_to_delta": lambda g: Table.convert_to_delta(g.path, g.spark),
    "create (new)": lambda g: Table.create(g.path, "id BIGINT", g.spark),
    "shallow_clone (onto it)": lambda g: Table.for_path(_fine(g.elsewhere / "fine")).shallow_clone(g.path),
}

COMMANDS_THAT_TOUCH_NOTHING = {
    "apply": "moves tables by the verbs of Table",
    "plan": "judges by the protocol",
    "quickstart": "makes a lake of its own",
    "rollback": "moves tables by the verbs of Table",
    "sql": "does everything by the verbs of Table",
    "status": "shows the journal of a rollout",
    "survey": "shows the protocol and metadata, also of tables that may not be read",
    "check": "judges by the protocol",
    "demo": "works on a lake of its own",
    "features": "shows records",
    "fleet": "talks to the fleet",
    "history": "shows histories of products",
    "inspect": "shows the protocol and metadata, also of tables that may not be read",
    "log": "shows who did what, by Table.history",
    "matrix": "shows knowledge",
    "move": "moves Hudi tables by the verbs of Table, and refuses Delta tables",
    "search": "searches index tables, and refuses Delta tables",
    "serve": "runs the fleet",
    "who": "shows who is known to use a table",
}

SHIM_TOUCHES_NOTHING = {"alias", "forName", "isDeltaTable", "name", "table"}
SHIM_READS = {
    "clone",
    "cloneAtTimestamp",
    "cloneAtVersion",
    "createIfNotExists",
    "detail",
    "forPath",
    "generate",
    "history",
    "toDF",
}
SHIM: Mapping[str, Call] = {
    "addFeatureSupport": lambda g: g.shim().addFeatureSupport("deletionVectors"),
    "clone": lambda g: g.shim().clone(str(g.elsewhere / "clone"), True),
    "cloneAtTimestamp": lambda g: g.shim().cloneAtTimestamp(str(g.now), str(g.elsewhere / "clone"), True),
    "cloneAtVersion": lambda g: g.shim().cloneAtVersion(2, str(g.elsewhere / "clone"), True),
    "create": lambda g: DeltaTable.create(g.spark).location(g.path).addColumn("id", "BIGINT").execute(),
    "createIfNotExists": lambda g: (
        DeltaTable.createIfNotExists(g.spark).location(g.path).addColumn("id", "BIGINT").execute()
    ),
    "createOrReplace": lambda g: (
        DeltaTable.createOrReplace(g.spark).location(g.path).addColumn("id", "BIGINT").execute()
    ),
    "replace": lambda g: DeltaTable.replace(g.spark).location(g.path).addColumn("id", "BIGINT").execute(),
    "convertToDelta": lambda g: DeltaTable.convertToDelta(g.spark, f"parquet.`{g.path}`"),
    "delete": lambda g: g.shim().delete("id = 1"),
    "detail": lambda g: g.shim().detail(),
    "dropFeatureSupport": lambda g: g.shim().dropFeatureSupport("deletionVectors"),
    "forPath": lambda g: DeltaTable.forPath(g.spark, g.path),
    "generate": lambda g: g.shim().generate("symlink_format_manifest"),
    "history": lambda g: g.shim().history(),
    "merge": lambda g: g.shim().merge(g.df, "id = 1").whenMatchedDelete().execute(),
    "optimize": lambda g: g.shim().optimize().executeCompaction(),
    "restoreToTimestamp": lambda g: g.shim().restoreToTimestamp(str(g.now)),
    "restoreToVersion": lambda g: g.shim().restoreToVersion(0),
    "toDF": lambda g: g.shim().toDF(),
    "update": lambda g: g.shim().update("id = 1", {"t": "'y'"}),
    "upgradeTableProtocol": lambda g: g.shim().upgradeTableProtocol(1, 4),
    "vacuum": lambda g: g.shim().vacuum(),
}


def _fine(path: Path) -> str:
    write_deltalake(str(path), pa.table({"id": pa.array([1], pa.int64())}))
    return str(path)


def _streamed(g: Ground) -> None:
    checkpoint, target = str(g.elsewhere / "checkpoint"), str(g.elsewhere / "target")
    read = g.spark.readStream.format("halocline").load(g.path)
    write = read.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    write.trigger(availableNow=True).start(target).awaitTermination()


def _written_as_stream(g: Ground) -> None:
    source = g.elsewhere / "source"
    write_deltalake(str(source), pa.table({"id": pa.array([1], pa.int64()), "t": ["x"]}))
    read = g.spark.readStream.format("halocline").load(str(source))
    write = read.writeStream.format("halocline").option("checkpointLocation", str(g.elsewhere / "checkpoint"))
    write.trigger(availableNow=True).start(g.path).awaitTermination()


def _command(*line: str) -> None:
    """Runs a command; its words go to the terminal, its refusal is the exit code."""
    raise RuntimeError(f"exit code {run(line)}")


def listing(root: str) -> dict[str, tuple[int, int]]:
    found = {}
    for above, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(above, name)
            found[os.path.relpath(path, root)] = (os.stat(path).st_size, os.stat(path).st_mtime_ns)
    return found


@pytest.fixture
def ground(tmp_path, spark) -> Ground:
    path = str(tmp_path / "orders")
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "t": ["a", "b"]})
    write_deltalake(path, rows, configuration=feed)
    write_deltalake(path, rows, mode="append")
    (tmp_path / "orders/abandoned.parquet").write_bytes(b"nobody needs this")
    return Ground(path, Table.for_path(path, spark), spark, tmp_path)


def broken(ground: Ground, how: str) -> dict[str, tuple[int, int]]:
    """Makes the table require too much, and lists what lies below it."""
    commit = encode_commit([CommitInfo({"operation": "UPGRADE PROTOCOL"}), BREAKERS[how]])
    open_store(ground.path).put_if_absent(DELTA.commit_path(2), commit)
    return listing(ground.path)


def refusal(call: Call, ground: Ground) -> str:
    try:
        call(ground)
    except HaloclineError as error:
        return error.condition
    except Exception as error:  # Spark's classes differ between classic sessions and Connect
        return str(error)
    return "nothing was refused"


def outcome(call: Call, ground: Ground, how: str, codes: tuple[str, ...]) -> str:
    """With which of the codes a call is refused; anything else if it is not, or if something was touched."""
    before = broken(ground, how)
    said = refusal(call, ground)
    if listing(ground.path) != before:
        return f"something below the table was touched: {said[:2000]}"
    return next((code for code in codes if code in said), said[:2000])


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


# ---------------------------------------------------------------- nobody is forgotten


def test_every_public_member_of_table_is_tried_or_touches_nothing():
    listed = {name.partition(" ")[0] for name in (*READS, *WRITES, *REFUSED_FOR_BEING_THERE)} | TOUCHES_NOTHING.keys()
    unknown = public(DeltaLakeTable) - listed
    assert not unknown, f"say in READS, WRITES or TOUCHES_NOTHING how the gate is passed: {sorted(unknown)}"


def test_every_command_is_tried_or_touches_nothing():
    listed = {name.split(" ")[1] for name in OTHER_WRITES if name.startswith("halocline ")}
    unknown = COMMANDS.keys() - listed - COMMANDS_THAT_TOUCH_NOTHING.keys()
    assert not unknown, f"say in OTHER_WRITES or COMMANDS_THAT_TOUCH_NOTHING: {sorted(unknown)}"


def test_every_public_member_under_deltas_names_is_tried_or_touches_nothing():
    unknown = public(DeltaTable) - SHIM.keys() - SHIM_TOUCHES_NOTHING
    assert not unknown, f"say in SHIM or SHIM_TOUCHES_NOTHING how the gate is passed: {sorted(unknown)}"


# ---------------------------------------------------------------- nobody gets through


@pytest.mark.parametrize("how", [how for how in BREAKERS if how != FOR_WRITERS])
@pytest.mark.parametrize("name", READS)
def test_readers_are_refused(ground, name, how):
    assert outcome(READS[name], ground, how, ("READER_TOO_OLD",)) == "READER_TOO_OLD"


@pytest.mark.parametrize("name", OTHER_READS)
def test_readers_through_spark_are_refused(ground, name):
    """Once each: every try starts Python processes, and what is judged is judged in the same place."""
    assert outcome(OTHER_READS[name], ground, "unknown reader-writer feature", ("READER_TOO_OLD",)) == "READER_TOO_OLD"


@pytest.mark.parametrize("how", BREAKERS)
@pytest.mark.parametrize("name", WRITES)
def test_writers_are_refused(ground, name, how):
    if name == "create" and how == FOR_WRITERS:
        pytest.skip("it opens the table that is there for reading, which this protocol allows")
    assert outcome(WRITES[name], ground, how, CODES_FOR_WRITERS[how]) in CODES_FOR_WRITERS[how]


@pytest.mark.parametrize("name", [name for name in OTHER_WRITES if name != "halocline lint --fix"])
def test_writers_through_spark_are_refused(ground, name):
    assert outcome(OTHER_WRITES[name], ground, FOR_WRITERS, ("WRITER_TOO_OLD",)) == "WRITER_TOO_OLD"


@pytest.mark.parametrize("how", BREAKERS)
def test_commands_that_write_change_nothing(ground, how):
    assert outcome(OTHER_WRITES["halocline lint --fix"], ground, how, ("exit code 2",)) == "exit code 2"


@pytest.mark.parametrize("how", BREAKERS)
@pytest.mark.parametrize("name", REFUSED_FOR_BEING_THERE)
def test_what_wants_an_empty_place_leaves_a_table_alone(ground, name, how):
    assert outcome(REFUSED_FOR_BEING_THERE[name], ground, how, ("ALREADY_EXISTS",)) == "ALREADY_EXISTS"


@pytest.mark.parametrize("how", BREAKERS)
@pytest.mark.parametrize("name", SHIM)
def test_what_has_deltas_names_is_refused_as_well(ground, name, how):
    if how == FOR_WRITERS and name in {*SHIM_READS, "convertToDelta"}:
        pytest.skip("readers may go on; a table that is one already is found, and left as it is")
    codes = ("READER_TOO_OLD", "WRITER_TOO_OLD", "ALREADY_EXISTS")
    assert outcome(SHIM[name], ground, how, codes) in codes
