"""A Delta table, as a user holds it: one line for every verb, which stands in the module of its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from halocline.compat.terms import Terms
from halocline.formats.base import TableFormat
from halocline.formats.delta.log.header import TableHeader, read_header
from halocline.formats.delta.snapshot.detail import detail_of
from halocline.formats.delta.snapshot.history import HistoryEntry, history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.html import Entries
from halocline.schema.json_edge import to_json
from halocline.table.delta import append as adding
from halocline.table.delta import clone, columns, constraints, properties
from halocline.table.delta import features as requirements
from halocline.table.delta.convert import convert_folder
from halocline.table.delta.create import create_table, replace_table
from halocline.table.delta.delete import delete_rows
from halocline.table.delta.layout.optimize import begin_optimize
from halocline.table.delta.manifests import generate_manifests
from halocline.table.delta.merge.builder import begin_merge
from halocline.table.delta.opened import Opened
from halocline.table.delta.overwrite import overwrite_rows
from halocline.table.delta.read import count_rows, read_arrow, read_changes, read_rows
from halocline.table.delta.restore import restore_version
from halocline.table.delta.update import update_rows
from halocline.table.delta.vacuum import vacuum_files
from halocline.table.opening import Moment
from halocline.table.table import Table, verb


class DeltaLakeTable(Table, format=TableFormat.DELTA):
    """A table in the format of Delta Lake.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> orders.merge(df, "t.id = s.id").when_matched_update_all().execute()  # doctest: +SKIP
    """

    opened: Opened
    _opens = Opened
    _create = staticmethod(create_table)
    _replace = staticmethod(replace_table)
    _convert = staticmethod(convert_folder)

    # ------------------------------------------------------------------ what it is

    @property
    def header(self) -> TableHeader:
        """The newest protocol and metadata. Needs no right to read: it is how others are judged."""
        return read_header(self.store)

    @property
    def version(self) -> int:
        """The newest version."""
        return self.header.version

    @property
    def terms(self) -> Terms:
        """See `Table.terms`."""
        header = self.header
        protocol = header.protocol_or_legacy() if self.opened.settings.allow_missing_protocol else header.protocol
        return Terms.of(protocol, header.facts)

    def snapshot(
        self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None
    ) -> Snapshot:
        """A version of the table, behind the gate; see `halocline.table.opening`."""
        return self.opened.snapshot(operation, version=version, timestamp=timestamp)

    @property
    def schema(self) -> dict[str, Any]:
        """The newest schema, as parsed JSON; `pyspark.sql.types.StructType.fromJson` takes it."""
        return dict(to_json(self.snapshot().schema))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Who did what, newest version first."""
        return Entries(history(self.snapshot(), limit))

    def detail(self) -> dict[str, Any]:
        """What the table is, under the names that Delta's `DESCRIBE DETAIL` uses."""
        return detail_of(self.snapshot()).to_dict()

    # ------------------------------------------------------------------ rows

    to_df = verb(read_rows)
    to_arrow = verb(read_arrow)
    count = verb(count_rows)
    changes = verb(read_changes)
    append = verb(adding.append_rows)
    append_arrow = verb(adding.append_arrow)
    append_batch = verb(adding.append_batch)
    overwrite = verb(overwrite_rows)
    delete = verb(delete_rows)
    update = verb(update_rows)
    merge = verb(begin_merge)

    # ------------------------------------------------------------------ maintenance

    optimize = verb(begin_optimize)
    vacuum = verb(vacuum_files)
    restore = verb(restore_version)
    generate = verb(generate_manifests)

    def shallow_clone(
        self,
        path: str | os.PathLike[str],
        *,
        replace: bool = False,
        version: int | None = None,
        timestamp: Moment | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DeltaLakeTable:
        """A table that refers to the files of this one; see `halocline.table.delta.clone.CloneRequest`."""
        asked = clone.CloneRequest(False, replace, version, timestamp, properties, options)
        return DeltaLakeTable(clone.clone(self.opened, path, asked))

    def deep_clone(
        self,
        path: str | os.PathLike[str],
        *,
        replace: bool = False,
        version: int | None = None,
        timestamp: Moment | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DeltaLakeTable:
        """A table with copies of the files of this one; see `halocline.table.delta.clone.CloneRequest`."""
        asked = clone.CloneRequest(True, replace, version, timestamp, properties, options)
        return DeltaLakeTable(clone.clone(self.opened, path, asked))

    # ------------------------------------------------------------------ what it requires, and has

    upgrade = verb(requirements.upgrade)
    downgrade = verb(requirements.downgrade)
    add_feature_support = verb(requirements.add_feature_support)
    upgrade_table_protocol = verb(requirements.upgrade_table_protocol)
    drop_feature_support = verb(requirements.drop_feature_support)
    plan_drop = verb(requirements.plan_drop)
    set_properties = verb(properties.set_properties)
    unset_properties = verb(properties.unset_properties)
    set_comment = verb(properties.set_comment)
    add_constraint = verb(constraints.add_constraint)
    drop_constraint = verb(constraints.drop_constraint)
    add_columns = verb(columns.add_columns)
    move_column = verb(columns.move_column)
    replace_columns = verb(columns.replace_columns)
    set_default = verb(columns.set_default)
    sync_identity = verb(columns.sync_identity)
    cluster_by = verb(columns.cluster_by)
    rename_column = verb(columns.rename_column)
    drop_column = verb(columns.drop_column)
    widen_column = verb(columns.widen_column)
    allow_nulls = verb(columns.allow_nulls)
