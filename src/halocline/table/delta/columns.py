"""The columns of a table: new ones, other names and places, wider types, defaults, numbers, clustering, comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halocline.errors import SchemaError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.configuration import alter as change
from halocline.formats.delta.configuration import clustering, column_mapping
from halocline.formats.delta.configuration.alter import ColumnPosition
from halocline.formats.delta.configuration.identity import identity_columns, identity_of, with_marks
from halocline.formats.delta.configuration.replace_columns import replace_columns as declare_anew
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import support
from halocline.formats.delta.features.approval import approve_change
from halocline.schema import Field, Path, Struct
from halocline.schema.char_types import without_lengths
from halocline.schema.json_edge import field_from_json, to_json
from halocline.schema.visitor import map_fields
from halocline.spark.scan.frames import frame_of
from halocline.spark.types.char_types import lengthened, stored
from halocline.spark.types.columns import quoted
from halocline.spark.types.input_schema import declared_type
from halocline.spark.write.expressions import check_expressions
from halocline.table.delta.alter import Altered, ColumnPath, alter, path_of
from halocline.table.delta.new_table import check_clustering, clustering_paths
from halocline.table.delta.opened import Opened
from halocline.table.opening import as_operation


def add_columns(
    table: Opened,
    columns: Sequence[Field | Mapping[str, Any]],
    parent: ColumnPath = (),
    *,
    positions: Sequence[ColumnPosition | None] = (),
) -> Altered:
    """Adds nullable columns at the end of the table or of a struct, or each at a position.

    A column whose type needs a feature that the table lacks is refused: add the feature first, or allow writes to
    raise the protocol with `halocline.protocol.autoUpgrade`.
    """
    where = path_of(parent)
    new = _given(columns) if where else _fields(columns)

    def grown(state: TableConfiguration) -> TableConfiguration:
        future = state.metadata.schema.with_fields([*state.metadata.schema.fields, *new])
        ready = support.prepared_for(state, future, auto_upgrade=table.settings.auto_upgrade, table=table.url)
        after = change.add_columns(ready, new, where)
        for each, position in zip(new, positions, strict=False):
            after = after if position is None else change.move_column(after, (*where, each.name), position)
        return after

    added = [{"column": field} for field in to_json(Struct(new))["fields"]]
    for told, position in zip(added, positions, strict=False):
        told |= {} if position is None else {"position": str(position)}
    asked = None if table.settings.auto_upgrade else frozenset[str]()
    return alter(table, grown, "ADD COLUMNS", {"columns": added}, asked=asked)


@as_operation
def replace_columns(table: Opened, columns: Sequence[Field | Mapping[str, Any]]) -> Altered:
    """Declares all columns anew, in their order; those that the table has keep their data.

    Columns come in at any place, get comments and wider types, and allow nulls; one that is not declared is dropped,
    which takes column mapping. See `halocline.formats.delta.configuration.replace_columns`.

    Raises:
        SchemaError: A column would be dropped without column mapping, change its type otherwise than by widening,
            become NOT NULL, or is one that the table cannot do without; or columns are dropped and added at once.

    Example:
        >>> id, note = {"name": "id", "type": "long"}, {"name": "note", "type": "string"}
        >>> Table.for_path("lake/orders").replace_columns([note, id])  # doctest: +SKIP
    """
    new, snapshot = Struct(_fields(columns)), table.snapshot("write")
    upgrade = table.settings.auto_upgrade
    state = support.prepared_for(snapshot.configuration, new, auto_upgrade=upgrade, table=table.url)
    after = declare_anew(state, new, version=snapshot.version + 1)
    clustering.check_clustering_kept(after.schema, snapshot.domains.get(clustering.DOMAIN), table.url)
    asked = None if upgrade else frozenset[str]()
    told = {"columns": to_json(new)["fields"]}
    return alter(table, lambda _: after, "REPLACE COLUMNS", told, snapshot, asked=asked)


def _fields(columns: Sequence[Field | Mapping[str, Any]]) -> Sequence[Field]:
    """Columns of the table as a caller gives them, text of limited length as it is stored."""
    return stored(Struct(_given(columns))).fields


def _given(columns: Sequence[Field | Mapping[str, Any]]) -> list[Field]:
    fields = [each if isinstance(each, Field) else field_from_json(each) for each in columns]
    # Ids and physical names of columns of another table, or of one that was dropped, would lead to other data.
    return list(column_mapping.unmapped(Struct(fields)).fields)


@as_operation
def move_column(table: Opened, column: ColumnPath, *, after: str | None = None) -> Altered:
    """Puts a column first, or behind another one of the same table or struct. Files stay as they are.

    Example:
        >>> Table.for_path("lake/orders").move_column("country", after="id")  # doctest: +SKIP
    """
    path, position, snapshot = path_of(column), ColumnPosition(after), table.snapshot("write")
    told = {"column": _told(snapshot.schema, path), "position": str(position)}
    return alter(table, lambda state: change.move_column(state, path, position), "CHANGE COLUMN", told, snapshot)


@as_operation
def set_default(table: Opened, column: ColumnPath, expression: str | None) -> Altered:
    """Gives a column a default for later writes; None takes it away. Rows that are there stay as they are.

    Raises:
        SchemaError: The table lacks `allowColumnDefaults`, or the column cannot have one.
        InputError: Spark cannot evaluate the expression.

    Example:
        >>> Table.for_path("lake/orders", spark).set_default("country", "'at'")  # doctest: +SKIP
    """
    path, snapshot = path_of(column), table.snapshot("write")
    after = change.set_default(snapshot.configuration, path, expression)
    if expression is not None:
        check_expressions(table.spark, Struct([after.schema.find(path)[1]]), {}, table.url)
    told = {"column": _told(after.schema, path)}
    return alter(table, lambda _: after, "CHANGE COLUMN", told, snapshot)


@as_operation
def sync_identity(table: Opened, column: ColumnPath) -> Altered:
    """Moves an identity column on, behind every value that rows have brought themselves. It never moves back.

    Raises:
        SchemaError: It is no identity column.
        ConflictError: Rows came in meanwhile.

    Example:
        >>> Table.for_path("lake/orders", spark).sync_identity("number")  # doctest: +SKIP
    """
    snapshot = table.snapshot("write")
    path, field = snapshot.schema.find(path_of(column))
    found = identity_of(field) if len(path) == 1 else None
    if found is None:
        raise SchemaError(
            f"column {'.'.join(path)} is no identity column",
            sides={"column": str(field)[:80], "identity": ", ".join(c.name for c in identity_columns(snapshot.schema))},
        )
    best = "max" if found.step > 0 else "min"
    rows = frame_of(table.spark, snapshot, columns=[field.name])
    value = rows.selectExpr(f"{best}({quoted(field.name)}) AS furthest").collect()[0]["furthest"]
    marks = {} if value is None else found.mark_for(int(value))
    told = {"column": _told(snapshot.schema, path)}

    def moved(state: TableConfiguration) -> TableConfiguration:
        return state.with_metadata(with_marks(state.metadata, marks))

    return alter(table, moved, "CHANGE COLUMN", told, snapshot, depends_on_rows=True)


@as_operation
def cluster_by(table: Opened, *columns: str) -> Altered:
    """Brings rows together by other columns from now on; without any, by none. Rows that are there stay as they are.

    Raises:
        InputError: Rows cannot be clustered by these columns.
        SchemaError: The table is partitioned.
        IncompatibleError: Somebody known would break.

    Example:
        >>> Table.for_path("lake/orders").cluster_by("day", "country")  # doctest: +SKIP
    """
    snapshot = table.snapshot("write")
    state = snapshot.configuration
    paths = clustering_paths(state.schema, columns)
    names = [".".join(path) for path in paths]
    if state.partition_columns and names:
        raise SchemaError(
            f"{table.url} is partitioned, and rows are either partitioned or clustered",
            sides={"partitioned by": ", ".join(state.partition_columns), "asked for": ", ".join(names)},
        )
    if names:
        check_clustering(state, paths)
        state = support.with_feature(state, clustering.FEATURE)
    before = snapshot.domains.get(clustering.DOMAIN)
    old = clustering.clustering_columns(before, snapshot.columns)
    approval = approve_change(snapshot.configuration, state, table.approve, asked=frozenset({clustering.FEATURE}))
    if names == old:
        return Altered(snapshot.version, False, approval)
    domain = clustering.clustered_by(state.schema, paths)
    told = {"oldClusteringColumns": ",".join(old), "newClusteringColumns": ",".join(names)}
    said = CommitDescription("CLUSTER BY", told)
    return Altered(table.transaction(snapshot).commit([domain], said, configuration=state), True, approval)


def _told(schema: Struct, path: Sequence[str]) -> dict[str, Any]:
    """A column as the history has it."""
    here, field = schema.find(path)
    found: dict[str, Any] = to_json(Struct([field]))["fields"][0]
    return {**found, "name": ".".join(here)}


def rename_column(table: Opened, column: ColumnPath, name: str) -> Altered:
    """Gives a column another name; needs column mapping."""
    path = path_of(column)
    told = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], name))}
    return alter(table, lambda state: change.rename_column(state, path, name), "RENAME COLUMN", told)


@as_operation
def drop_column(table: Opened, *columns: ColumnPath) -> Altered:
    """Takes columns away; needs column mapping. Their data stays in the files until those are written again."""
    paths, snapshot = [path_of(each) for each in columns], table.snapshot("write")
    left = change.drop_columns(snapshot.configuration, paths)
    clustering.check_clustering_kept(left.schema, snapshot.domains.get(clustering.DOMAIN), table.url)
    told = {"columns": [".".join(path) for path in paths]}
    return alter(table, lambda _: left, "DROP COLUMNS", told, snapshot)


@as_operation
def widen_column(table: Opened, column: ColumnPath, type: Any) -> Altered:
    """Gives a column a wider type: `"bigint"`, `"long"` or a type of Spark.

    It needs type widening, but for text: that of a varchar or a char can become a longer varchar, or a string, in any
    table, since files hold text of any length.

    Raises:
        SchemaError: The table does not allow it, or values that are there do not fit the type.

    Example:
        >>> Table.for_path("lake/orders").widen_column("name", "varchar(40)")  # doctest: +SKIP
    """
    path, wide = path_of(column), declared_type(type)
    snapshot = table.snapshot("write")
    state = snapshot.configuration
    state = state.evolved(schema=lengthened(state.schema, path, wide))
    wider = change.change_type(state, path, without_lengths(wide), version=snapshot.version + 1)
    told = {"column": {"name": ".".join(path), "type": to_json(wide)}}
    return alter(table, lambda _: wider, "CHANGE COLUMN", told, snapshot)


def allow_nulls(table: Opened, column: ColumnPath) -> Altered:
    """Takes NOT NULL from a column."""
    path = path_of(column)
    told = {"column": {"name": ".".join(path), "nullable": True}}
    return alter(table, lambda state: change.allow_nulls(state, path), "CHANGE COLUMN", told)


def comment_column(table: Opened, column: ColumnPath, comment: str | None) -> Altered:
    """Describes a column for people; None takes the description away."""
    path = path_of(column)
    told = {"column": {"name": ".".join(path), "metadata": {"comment": comment}}}
    return alter(table, lambda state: _commented(state, path, comment), "CHANGE COLUMN", told)


def _commented(state: TableConfiguration, path: Path, comment: str | None) -> TableConfiguration:
    here, _ = state.schema.find(path)
    return state.evolved(
        schema=map_fields(state.schema, lambda at, field: field.annotated("comment", comment) if at == here else field)
    )
