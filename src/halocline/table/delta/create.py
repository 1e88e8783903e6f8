"""Creating tables, empty or with rows, and replacing them.

A table begins with one commit: its protocol, its metadata and, if it is made from rows, these. The protocol
is the least one that the declaration needs, and the gatekeeper is asked before it is written. Replacing keeps the
history: the new columns and rows are the next version, and whatever the old protocol required is still required;
deletion vectors and row tracking stay on unless the new properties say otherwise. As with every write, the protocol
gains what the declaration asks for by name, by a property or by an expression, and nothing because of a type.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.errors import NotFoundError, UnsupportedError
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.actions.action import Action, DomainMetadata
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import clustering, column_mapping
from halocline.formats.delta.configuration.column_mapping import MAX_ID, MODE
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.arrow_input import table_batches
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.spark.types import char_types, input_schema
from halocline.spark.write.arrow_rules import ArrowRules
from halocline.spark.write.row_plan import plan_rows
from halocline.table.delta.new_table import TableDeclaration
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import removed
from halocline.table.delta.rows.counts import figures
from halocline.table.delta.rows.files import RowFiles
from halocline.table.record_batches import arrow_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT_UNLESS_SAID: Final = (MODE, "delta.enableDeletionVectors", row_ids.ENABLED)
"""Ways to write that nobody sees in the rows: Delta Spark leaves the last two on as well."""

_KEPT_ON_REPLACE: Final = (MAX_ID, "delta.rowTracking", "delta.requireCheckpointProtectionBeforeVersion")


def create_table(
    path: str | os.PathLike[str],
    what: Any,
    spark: SparkSession | None = None,
    *,
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    name: str | None = None,
    exist_ok: bool = False,
    options: Mapping[str, str] | None = None,
) -> Opened:
    """Creates a table where none is, empty or with rows.

    Args:
        path: Where it is to be.
        what: Rows, as a DataFrame or in Arrow's form (see `append_arrow`); or columns: a Spark or Arrow schema, text
            such as `id BIGINT NOT NULL, day DATE`, or a list made with `halocline.table.delta.new_table.column`.
        spark: The session. Not needed for rows, nor for columns without expressions and text.
        partition_by: Names of the partition columns, in order.
        cluster_by: Names of the clustering columns.
        properties: Properties, requests such as `delta.feature.deletionVectors=supported` included.
        comment: A description for people.
        name: A name for people.
        exist_ok: Open the table that is there rather than fail.
        options: Settings, and options of the store.

    Raises:
        AlreadyExistsError: There is a table, or a folder with files of no table.
        SchemaError: The columns, or the partitions, do not fit together.
        InputError: Properties or expressions cannot be used.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        IncompatibleError: Somebody known could not use such a table.

    Example:
        >>> Table.create("lake/orders", df, partition_by="day").version  # doctest: +SKIP
        0
    """
    what = _rows_or_columns(what)
    table = Opened.at(path, _session(what, spark), options)
    declaration = TableDeclaration(_columns(what), partition_by, cluster_by, properties, comment, name)
    if table.is_taken(TableFormat.DELTA, exist_ok=exist_ok):
        return table.found()
    return _created(table, what, declaration, "CREATE TABLE")


def replace_table(
    path: str | os.PathLike[str],
    what: Any,
    spark: SparkSession | None = None,
    *,
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    name: str | None = None,
    or_create: bool = False,
    options: Mapping[str, str] | None = None,
) -> Opened:
    """Gives a table other columns, properties and rows, as its next version.

    The arguments are those of `create_table`; and `or_create`, to create the table if there is none. The properties
    that it had are gone, but deletion vectors and row tracking stay on unless `properties` say otherwise.

    Raises:
        NotFoundError: There is no table, unless `or_create`.
        InputError: The table only takes new rows, properties cannot be used, or columns need a feature that the table
            lacks and that was not asked for.
    """
    what = _rows_or_columns(what)
    table = Opened.at(path, _session(what, spark), options)
    declaration = TableDeclaration(_columns(what), partition_by, cluster_by, properties, comment, name)
    operation = "CREATE OR REPLACE TABLE" if or_create else "REPLACE TABLE"
    taken = formats_at(table.store)
    if not taken and or_create:
        table.check_free()
        return _created(table, what, declaration, operation)
    if not taken:
        raise NotFoundError(
            f"no table at {table.url}",
            condition="TABLE_NOT_FOUND",
            sides={"asked for": "to replace it"},
            next_step="Create it, or pass or_create=True.",
        )
    if taken != (TableFormat.DELTA,):
        raise UnsupportedError(f"{table.url} is a {taken[0]} table, which cannot be replaced")
    with table.operation("replace"):
        before = table.snapshot("write")
        state = _replacing(before, declaration.state(table.session, table.url, in_place=True))
        asked = None if table.settings.auto_upgrade else declaration.asked(before.protocol)
        approve_change(before.configuration, state, table.approve, asked=asked)
        _commit(table.transaction(before), what, state, declaration, operation)
    return table


def _created(table: Opened, what: Any, declaration: TableDeclaration, operation: str) -> Opened:
    with table.operation("create"):
        state = declaration.state(table.session, table.url)
        approve_change(None, state, table.approve)
        _commit(table.transaction(), what, state, declaration, operation)
    return table


def _session(what: Any, spark: SparkSession | None) -> SparkSession | None:
    return what.sparkSession if input_schema.is_frame(what) else spark


def _rows_or_columns(what: Any) -> Any:
    """A DataFrame, a stream of Arrow batches, or columns."""
    is_arrow = hasattr(what, "__arrow_c_stream__") and not input_schema.is_frame(what)
    return arrow_reader(what) if is_arrow else what


def _columns(what: Any) -> Struct:
    if isinstance(what, pa.RecordBatchReader):
        return input_schema.declared(what.schema)
    if input_schema.is_frame(what):
        return char_types.stored(nullable(input_schema.columns_of(what)))
    return input_schema.declared(what)


def _commit(
    transaction: Transaction, what: Any, state: TableConfiguration, declaration: TableDeclaration, operation: str
) -> None:
    """The commit of a new or replaced table, with rows if there are any."""
    before, parameters = transaction.snapshot, declaration.parameters(state)
    gone = [] if before is None else removed(transaction.files())
    actions: list[Action] = [*_domains(declaration, state, before), *gone]
    with RowFiles(transaction.store, state, is_first=before is None) as files:
        if isinstance(what, pa.RecordBatchReader):
            columns = _columns(what)
            rules = ArrowRules.of(state, columns, transaction.store.root, "UTC")
            adds = files.write_arrow(columns, map(rules.checked, table_batches(what)))
        elif input_schema.is_frame(what):
            adds = files.write(plan_rows(what, input_schema.columns_of(what), state, table=transaction.store.root))
        else:
            files.commit(transaction, actions, CommitDescription(operation, parameters, {}))
            return
        metrics = figures(adds)
        if before is not None:
            metrics |= {"numRemovedFiles": len(gone), "numRemovedBytes": sum(each.size or 0 for each in gone)}
        said = CommitDescription(f"{operation} AS SELECT", parameters, metrics)
        files.commit(transaction, [*actions, *adds], said)


def _domains(declaration: TableDeclaration, state: TableConfiguration, before: Snapshot | None) -> list[DomainMetadata]:
    own = list(declaration.domains(state))
    if before is not None and not own and clustering.DOMAIN in before.domains:
        own = [DomainMetadata(clustering.DOMAIN, before.domains[clustering.DOMAIN].configuration, removed=True)]
    return own


def _replacing(before: Snapshot, new: TableConfiguration) -> TableConfiguration:
    """The new state as the next one of the table: same id, ids of columns never given out twice."""
    configuration = {key: before.properties[key] for key in _KEPT_UNLESS_SAID if key in before.properties}
    configuration |= new.metadata.configuration
    configuration |= {key: value for key, value in before.properties.items() if key.startswith(_KEPT_ON_REPLACE)}
    if row_ids.ENABLED in new.metadata.configuration and "delta.rowTrackingSuspended" in configuration:
        del configuration["delta.rowTrackingSuspended"]
    schema = new.metadata.schema
    if configuration.get(MODE, "none").lower() != "none":
        bare = input_schema.declared(new.schema)
        schema, configuration = column_mapping.mapped(bare, configuration, column_mapping.random_name)
    metadata = replace(new.metadata.with_schema(schema), id=before.metadata.id, configuration=configuration)
    return TableConfiguration(before.protocol.merged(new.protocol), metadata, new.reasons)
