"""CREATE [OR REPLACE] TABLE, with columns or from a query, clones, and CONVERT TO DELTA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, NotFoundError, UnsupportedError
from halocline.statements.columns import SqlColumn, take_column
from halocline.statements.declaration import SqlDeclaration, create_statement
from halocline.statements.references import FORMATS, moment, path_of
from halocline.statements.target import StatementTarget, Translate
from halocline.statements.text import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.table import Table

_OURS: Final = ("DELTA", "HALOCLINE")


def create(target: StatementTarget) -> DataFrame | None:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table …`, and `REPLACE TABLE table …`."""
    reader = target.reader
    made = reader.accept("CREATE")
    replaces = reader.accept("OR", "REPLACE") if made else reader.accept("REPLACE")
    external = reader.accept("EXTERNAL")
    if not reader.accept("TABLE"):
        return None
    exist_ok = reader.accept("IF", "NOT", "EXISTS")
    target.parts = reader.name()
    if exist_ok and replaces:
        reader.refuse("IF NOT EXISTS and OR REPLACE contradict each other")
    if reader.word() in ("SHALLOW", "DEEP", "CLONE"):
        return _cloned(target, replaces, exist_ok)
    model = _model(target)
    said = SqlDeclaration.taken(reader)
    place = _place(target, said)
    if place is None:
        return None
    if external:
        reader.refuse("EXTERNAL belongs to Hive: a table of ours lies where its name or LOCATION says")
    if reader.starts("CLUSTERED"):
        reader.refuse("tables have no buckets: use CLUSTER BY")
    if model is not None:
        if said.columns or said.partition_by or said.cluster_by:
            reader.refuse("a table LIKE another has its columns, and what belongs to them")
        said = said.filled(model)
    query = None
    if not reader.is_done:
        reader.accept("AS")
        query = reader.until()
    reader.end()
    what = _what(target, said, query)
    declared: dict[str, Any] = {**said.arguments, "options": target.options()}
    from halocline.table import DeltaLakeTable

    if replaces:
        table = DeltaLakeTable.replace(place, what, target.spark, or_create=made, **declared)
    else:
        table = DeltaLakeTable.create(place, what, target.spark, exist_ok=exist_ok, **declared)
    return _told(target, table)


def _model(target: StatementTarget) -> SqlDeclaration | None:
    """Takes `LIKE table`, and gives what a statement would say of that table; None if it is not there."""
    reader = target.reader
    if reader.word() != "LIKE" or target.names.place(target.parts, None) is None:
        return None
    reader.expect("LIKE")
    parts = reader.name()
    found = target.find(parts)
    if found is None:
        raise target.names.missing(parts)
    said = Reader(create_statement(target.spark, target.delta(found).table.snapshot(), target.parts))
    said.expect("CREATE", "TABLE")
    said.name()
    return SqlDeclaration.taken(said)


def _what(target: StatementTarget, said: SqlDeclaration, query: str | None) -> Any:
    if query is not None:
        if said.columns or said.constraints:
            target.reader.refuse("a table from a query has the columns of the query, and none can be declared")
        return target.rows(query)
    if not said.columns:
        target.reader.refuse("a table needs columns, or a query")
    return [each.field for each in said.columns]


def _place(target: StatementTarget, said: SqlDeclaration) -> str | None:
    """Where the table is to be; None if it is Spark's to make."""
    if said.provider and said.provider not in _OURS:
        unknown = said.provider.lower() not in FORMATS
        if path_of(target.parts) is None and (unknown or target.names.place(target.parts, None) is None):
            return None
        raise UnsupportedError(
            f"{'.'.join(target.parts)} would be a table USING {said.provider.lower()}, which SQL does not make here",
            sides={"asked for": said.provider.lower(), "possible": "delta"},
            next_step="Use Table.create with format=…, which knows what such a table needs.",
        )
    place = target.names.place(target.parts, said.location)
    if place is None and said.provider:
        raise UnsupportedError(
            f"{'.'.join(target.parts)} is a name, and there is no lake that knows where its tables lie",
            sides={"given": f"USING {said.provider.lower()}", "needed": "a place"},
            next_step=f"CREATE TABLE delta.`{said.location or 'path'}` …, or use Lake.sql.",
        )
    if place is not None and said.location is not None and path_of(target.parts) is not None:
        target.reader.refuse("the name says where the table is, and LOCATION says it again")
    return place


def _cloned(target: StatementTarget, replaces: bool, exist_ok: bool) -> DataFrame | None:
    reader = target.reader
    shallow = reader.accept("SHALLOW")
    if not shallow:
        reader.accept("DEEP")
    reader.expect("CLONE")
    parts = reader.name()
    source = target.find(parts)
    at = moment(target.spark, reader) if reader.word() in ("VERSION", "TIMESTAMP") else {}
    properties = reader.properties() if reader.accept("TBLPROPERTIES") else None
    place = target.names.place(target.parts, reader.string() if reader.accept("LOCATION") else None)
    if source is None and place is None:
        return None
    if source is None or place is None:
        raise InputError(
            "a clone and its source are both ours or both Spark's",
            sides={"clone": ".".join(target.parts), "source": ".".join(parts)},
        )
    reader.end()
    table = target.delta(source).table
    if exist_ok and (there := _there(target)) is not None:
        return _told(target, there)
    cloned = table.shallow_clone if shallow else table.deep_clone
    return _told(target, cloned(place, replace=replaces, properties=properties, options=target.options(), **at))


def _there(target: StatementTarget) -> Table | None:
    """The table that is to be made, if there is one already."""
    try:
        return target.find(target.parts)
    except NotFoundError:
        return None


def _told(target: StatementTarget, table: Table) -> DataFrame:
    target.find(target.parts)  # from here on a lake has the name among those that it lists
    return target.told(location=table.url, version=table.version)


def convert(target: StatementTarget) -> DataFrame | None:
    """``CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (…)]``."""
    reader = target.reader
    reader.expect("CONVERT", "TO", "DELTA")
    target.parts = reader.name()
    if len(target.parts) != 2 or target.parts[0].lower() != "parquet":
        reader.refuse("a folder of Parquet files is named parquet.`path`")
    statistics = not reader.accept("NO", "STATISTICS")
    columns: list[SqlColumn] = []
    if reader.accept("PARTITIONED", "BY"):
        columns = reader.parenthesised(lambda: take_column(reader))
    reader.end()
    from halocline.table import Table

    table = Table.convert_to_delta(
        target.parts[1],
        target.spark,
        partition_by=[each.field for each in columns],
        collect_stats=statistics,
        exist_ok=True,
        options=target.options(),
    )
    return target.told(location=table.url, version=table.version)


STATEMENTS: Final[dict[str, Translate]] = {"CREATE": create, "REPLACE": create, "CONVERT": convert}
