"""Small parts that the commit tests share: schemas, actions, intents and winners."""

from __future__ import annotations

import json
from typing import Any

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import Action, Add, Commit, CommitInfo, DeletionVector, Metadata, Remove
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.commit.conflicts import Ground, WinningCommit
from halocline.formats.delta.commit.intent import Intent, Reads, isolation_for
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema.json_edge import dump
from tests.support.columns import field, schema

NO_METADATA = object()


def metadata(*, partitions: tuple[str, ...] = (), columns: Any = None, **configuration: str) -> Metadata:
    columns = schema("id", *(field(name, "string") for name in partitions)) if columns is None else columns
    return Metadata(
        id="11111111-2222-3333-4444-555555555555",
        schema_string=dump(columns),
        partition_columns=partitions,
        configuration={f"delta.{key.replace('__', '.')}": value for key, value in configuration.items()},
        created_time=1,
    )


def vector(id: str = "v", cardinality: int = 1) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=id, offset=1, size_in_bytes=34, cardinality=cardinality)


def add(path: str, *, data_change: bool = True, rows: int = 10, day: str | None = None, **more: Any) -> Add:
    values = {} if day is None else {"day": day}
    return Add(path, values, 100, 1, data_change, stats=json.dumps({"numRecords": rows}), **more)


def remove(path: str, *, data_change: bool = True, day: str | None = None, **more: Any) -> Remove:
    values = {} if day is None else {"day": day}
    return Remove(path, 2, data_change, True, values, 100, **more)


def intent(
    *actions: Action,
    operation: str = "WRITE",
    reads: Reads | None = None,
    protocol: Protocol | None = None,
    table: Metadata | None = None,
    mark: int = -1,
    **info: Any,
) -> Intent:
    """An intent on version 5 of a table."""
    table = metadata() if table is None else table
    after = next((each for each in actions if isinstance(each, Metadata)), table)
    return Intent(
        read_version=5,
        operation=operation,
        actions=actions,
        info={"timestamp": 1000, "operation": operation, **info},
        configuration=TableConfiguration(protocol or Protocol.delta(1, 2), after),
        reads=reads or Reads(),
        isolation=isolation_for(actions, operation, TableProperties(table.configuration)),
        row_id_mark=mark,
    )


def winner(
    *actions: Action, operation: str = "WRITE", blind: bool | None = None, version: int = 6, **info: Any
) -> WinningCommit:
    values = {"operation": operation, "engineInfo": "Other/1.0", **info}
    if blind is not None:
        values["isBlindAppend"] = blind
    return WinningCommit(version, Commit(f"{version}.json", (CommitInfo(values), *actions)), 5000)


def match_day(predicate: str, candidates: Any) -> Add | None:
    """The first file of the partition that the predicate names as `day = '...'`; any file if it names none."""
    if "day = " not in predicate:
        return candidates[0]
    wanted = predicate.partition("day = '")[2].partition("'")[0]
    return next((each for each in candidates if each.partition_values.get("day") == wanted), None)


def ground(
    *, protocol: Protocol | None = None, table: Metadata | None = None, check_access: Any = None, **more: Any
) -> Ground:
    return Ground(
        table="lake/orders",
        locations=Locations("memory://lake/orders"),
        read=TableConfiguration(protocol or Protocol.delta(1, 2), metadata() if table is None else table),
        check_access=check_access or (lambda terms: None),
        first_match=match_day,
        **more,
    )
