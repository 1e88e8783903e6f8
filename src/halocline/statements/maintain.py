"""OPTIMIZE, REORG, GENERATE, VACUUM, RESTORE, TRUNCATE, DESCRIBE and SHOW: upkeep, and what a table tells of itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from halocline.delta.tables import checks_retention
from halocline.errors import InputError, nearest
from halocline.formats.delta.actions.folders import folder_name
from halocline.formats.delta.configuration.properties import KNOWN
from halocline.schema import Struct
from halocline.schema.json_edge import struct_from_json, to_json
from halocline.spark.types.file_layout import FileLayout
from halocline.statements.declaration import create_statement, protocol_properties
from halocline.statements.references import moment
from halocline.statements.target import StatementTarget, Translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.formats.delta.snapshot.snapshot import Snapshot
    from halocline.table import Table


def optimize(target: StatementTarget) -> DataFrame | None:
    """`OPTIMIZE table | 'path' [FULL] [WHERE condition] [ZORDER BY (columns)]`."""
    reader = target.reader
    reader.expect("OPTIMIZE")
    table = target.own_table()
    full = reader.accept("FULL")
    builder = target.delta(table).table.optimize()
    if reader.accept("WHERE"):
        builder = builder.where(reader.until("ZORDER"))
    columns: list[str] = []
    if reader.accept("ZORDER", "BY"):
        bracketed = reader.word() == "("
        names = reader.parenthesised(reader.name) if bracketed else reader.listed(reader.name)
        columns = [".".join(each) for each in names]
    if full and columns:
        reader.refuse("FULL clusters rows by the table's own columns, and ZORDER BY sorts them by others")
    reader.end()
    done = builder.execute_z_order_by(*columns) if columns else builder.execute_compaction(full=full)
    figures = {name: done.metrics.get(name, 0) for name in ("numAddedFiles", "numRemovedFiles")}
    return target.told(path=table.url, version=done.version, **figures)


def reorg(target: StatementTarget) -> DataFrame | None:
    """`REORG TABLE table [WHERE condition] APPLY (PURGE)`."""
    reader = target.reader
    reader.expect("REORG", "TABLE")
    table = target.own_table()
    builder = target.delta(table).table.optimize()
    if reader.accept("WHERE"):
        builder = builder.where(reader.until("APPLY"))
    reader.expect("APPLY", "(", "PURGE", ")")
    reader.end()
    done = builder.execute_purge()
    figures = {name: done.metrics.get(name, 0) for name in ("numAddedFiles", "numRemovedFiles")}
    return target.told(path=table.url, version=done.version, **figures)


def generate(target: StatementTarget) -> DataFrame | None:
    """`GENERATE symlink_format_manifest FOR TABLE table`."""
    reader = target.reader
    reader.expect("GENERATE")
    mode = reader.identifier()
    reader.expect("FOR", "TABLE")
    table = target.own_table()
    reader.end()
    return target.told(path=table.url, numManifests=len(target.delta(table).table.generate(mode)))


def vacuum(target: StatementTarget) -> DataFrame | None:
    """`VACUUM table | 'path' [LITE | FULL] [RETAIN number HOURS] [DRY RUN]`, these three in any order."""
    reader = target.reader
    reader.expect("VACUUM")
    table = target.own_table()
    kind, dry = "", False
    hours: float | None = None
    while not reader.is_done:
        if not kind and (reader.starts("LITE") or reader.starts("FULL")):
            kind = reader.identifier().upper()
        elif hours is None and reader.accept("RETAIN"):
            hours = reader.number()
            if not reader.accept("HOURS"):
                reader.expect("HOUR")
        elif not dry and reader.accept("DRY", "RUN"):
            dry = True
        else:
            reader.end()
    looked = target.delta(table).table.vacuum(
        hours, dry, enforce_retention=checks_retention(target.spark), lite=kind == "LITE"
    )
    if not dry:
        return target.listed(["path"], [[table.url]])
    return target.listed(["path"], [[f"{table.url}/{each.path}"] for each in looked.files])


def restore(target: StatementTarget) -> DataFrame | None:
    """`RESTORE [TABLE] table TO VERSION AS OF number | TIMESTAMP AS OF time`."""
    reader = target.reader
    reader.expect("RESTORE")
    reader.accept("TABLE")
    table = target.own_table()
    reader.accept("TO")
    at = moment(target.spark, reader)
    reader.end()
    found = target.delta(table)
    if "version" in at:
        return found.restoreToVersion(at["version"])
    return found.restoreToTimestamp(datetime.fromtimestamp(at["timestamp"] / 1000, UTC).isoformat())


def truncate(target: StatementTarget) -> DataFrame | None:
    """`TRUNCATE TABLE table`."""
    reader = target.reader
    reader.expect("TRUNCATE", "TABLE")
    table = target.table()
    reader.end()
    return target.delta(table).delete()


def describe(target: StatementTarget) -> DataFrame | None:
    """`DESCRIBE HISTORY table | 'path' [LIMIT number]`, `DESCRIBE DETAIL table | 'path'`, and tables and columns.

    These are `DESCRIBE [TABLE] [EXTENDED] table [column]`.
    """
    reader = target.reader
    if not reader.accept("DESCRIBE"):
        reader.expect("DESC")
    what = reader.word() if reader.word() in ("HISTORY", "DETAIL", "TABLE") and reader.word(1) != "." else ""
    if what:
        reader.at += 1
    if reader.word() in ("FUNCTION", "DATABASE", "SCHEMA", "CATALOG", "QUERY", "SELECT", "WITH"):
        return None
    is_long = what in ("", "TABLE") and reader.word() in ("EXTENDED", "FORMATTED") and reader.word(1) != "."
    reader.at += is_long
    table = target.own_table() if what in ("HISTORY", "DETAIL") else target.table()
    limit = reader.whole_number() if what == "HISTORY" and reader.accept("LIMIT") else None
    column = reader.name() if what in ("", "TABLE") and not is_long and not reader.is_done else ()
    reader.end()
    if what == "DETAIL":
        return target.delta(table).detail()
    if what == "HISTORY":
        return target.delta(table).history(limit)
    if column:
        return _column(target, table, column)
    fields = StructType.fromJson(table.schema).fields
    told = [(each.name, each.dataType.simpleString(), each.metadata.get("comment")) for each in fields]
    if is_long:
        detail = table.detail()
        figures = [(name, str(value), "") for name, value in detail.items() if value not in (None, "", [], {})]
        told += [("", "", ""), ("# Detailed Table Information", "", ""), *figures]
    return target.listed(["col_name", "data_type", "comment"], told)


def _column(target: StatementTarget, table: Table, column: tuple[str, ...]) -> DataFrame:
    """What a column is, as Spark tells it."""
    path, found = struct_from_json(table.schema).find(column)
    type = StructType.fromJson(to_json(Struct([found]))).fields[0].dataType.simpleString()
    told = {"col_name": ".".join(path), "data_type": type, "comment": found.metadata.get("comment", "NULL")}
    return target.listed(["info_name", "info_value"], list(told.items()))


def show(target: StatementTarget) -> DataFrame | None:
    """`SHOW TABLES [IN name] [LIKE 'pattern']`; a table's `TBLPROPERTIES`, `COLUMNS`, `PARTITIONS`, `CREATE TABLE`."""
    reader = target.reader
    reader.expect("SHOW")
    if reader.accept("TABLES"):
        return _tables(target)
    if reader.accept("COLUMNS"):
        if not reader.accept("IN"):
            reader.expect("FROM")
        table = target.table()
        reader.end()
        return target.listed(["col_name"], [[each["name"]] for each in table.schema["fields"]])
    if reader.accept("CREATE", "TABLE"):
        found = target.delta(target.table()).table
        reader.end()
        told = create_statement(target.spark, found.snapshot(), target.parts)
        return target.listed(["createtab_stmt"], [[told]])
    if reader.accept("PARTITIONS"):
        return _partitions(target)
    if not reader.accept("TBLPROPERTIES"):
        return None
    table = target.table()
    keys = reader.parenthesised(reader.property_key) if reader.word() == "(" else None
    reader.end()
    shown = target.delta(table).table.snapshot()
    values = {**shown.metadata.configuration, **protocol_properties(shown)}
    wanted = sorted(values) if keys is None else keys
    return target.listed(
        ["key", "value"], [[key, values[key] if key in values else _absent(key, values, target)] for key in wanted]
    )


def _absent(key: str, values: Collection[str], target: StatementTarget) -> str:
    """What is shown for a property that a table does not have, as Spark shows it, with the nearest that there is."""
    near = nearest(key, {*values, *KNOWN}) if key not in KNOWN else ""
    told = f"Table {'.'.join(target.parts)} does not have property: {key}"
    return f"{told}. Did you mean {near}?" if near else told


def _partitions(target: StatementTarget) -> DataFrame:
    """The partitions that have files, in the words of Spark's catalog: `day=2026-11-01/country=at`."""
    table = target.delta(target.table()).table
    target.reader.end()
    snapshot = table.snapshot()
    if not snapshot.partition_columns:
        raise InputError(
            f"{table.url} has no partitions to be shown",
            sides={"table": "is not partitioned", "statement": target.reader.text[:200]},
        )
    keys = [each.key for each in FileLayout.of(snapshot.configuration).partition_keys]
    found = {tuple(dict(values or ()).get(key) for key in keys) for values in _partition_values(snapshot)}
    texts = ("/".join(map(folder_name, snapshot.partition_columns, values)) for values in found)
    return target.listed(["partition"], [[text] for text in sorted(texts)])


def _partition_values(snapshot: Snapshot) -> Iterator[Any]:
    for chunk in snapshot.files(columns=["partition_values"])["partition_values"].chunks:
        yield from chunk.to_pylist()


def _tables(target: StatementTarget) -> DataFrame | None:
    """The tables of a lake, and those that Spark knows by temporary names or in its catalog."""
    reader, names = target.reader, target.names.known()
    within = ".".join(reader.name()) if reader.accept("IN") or reader.accept("FROM") else None
    mine = [name for name in names if within is None or name.rpartition(".")[0].casefold() == within.casefold()]
    if not mine:
        return None
    pattern = reader.string() if reader.accept("LIKE") or not reader.is_done else "*"
    reader.end()
    # As Spark has it: a star stands for any characters, a bar separates patterns.
    like = re.compile(
        "|".join(".*".join(map(re.escape, each.split("*"))) for each in pattern.split("|")), re.IGNORECASE
    )
    shown = [(*name.rpartition(".")[::2], False) for name in mine if like.fullmatch(name.rpartition(".")[2])]
    ours = target.spark.createDataFrame(shown, "namespace STRING, tableName STRING, isTemporary BOOLEAN")
    if within is not None:
        return ours
    return ours.unionAll(target.spark.sql("SHOW TABLES LIKE :pattern", {"pattern": pattern}))


STATEMENTS: Final[dict[str, Translate]] = {
    "OPTIMIZE": optimize,
    "REORG": reorg,
    "GENERATE": generate,
    "VACUUM": vacuum,
    "RESTORE": restore,
    "TRUNCATE": truncate,
    "DESCRIBE": describe,
    "DESC": describe,
    "SHOW": show,
}
