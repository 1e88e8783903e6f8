"""INSERT, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from halocline.errors import SchemaError
from halocline.formats.base import TableFormat
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.schema import Field
from halocline.spark.session.analysis import column_of
from halocline.spark.session.functions import F
from halocline.spark.types.columns import quoted
from halocline.statements.default_values import assigned, values_for
from halocline.statements.references import path_of, without_qualifier
from halocline.statements.target import StatementTarget, Translate
from halocline.statements.text import Reader
from halocline.table.delta.rows.clauses import TARGET_ALIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.table import DeltaLakeTable, Table
    from halocline.table.delta.merge.builder import MergeBuilder

_BEGIN_ROWS: Final = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_DYNAMIC: Final = "spark.sql.sources.partitionOverwriteMode"


def prefix_of(reader: Reader) -> str:
    """Takes the `WITH` before a change of rows; empty, and nothing taken, if there is none."""
    if reader.word() != "WITH":
        return ""
    start = reader.at
    reader.until("INSERT", "MERGE", "UPDATE", "DELETE", "SELECT", "FROM", "VALUES", "TABLE")
    if reader.word() in STATEMENTS:
        return reader.slice(start) + " "
    reader.at = start
    return ""


def update(target: StatementTarget) -> DataFrame | None:
    """`UPDATE table [[AS] alias] SET column = value, … [WHERE condition]`."""
    reader = target.reader
    target.prefix = prefix_of(reader)
    reader.expect("UPDATE")
    table = target.table()
    target.take_alias()
    reader.expect("SET")
    values = reader.once(reader.listed(lambda: _assignment(target, ",", "WHERE")))
    where = _where(target)
    reader.end()
    found = target.delta(table)
    return found.update(where, assigned(values, found.table.snapshot().schema))


def delete(target: StatementTarget) -> DataFrame | None:
    """`DELETE FROM table [[AS] alias] [WHERE condition]`."""
    reader = target.reader
    target.prefix = prefix_of(reader)
    reader.expect("DELETE", "FROM")
    table = target.table()
    target.take_alias()
    where = _where(target)
    reader.end()
    return target.delta(table).delete(where)


def _where(target: StatementTarget) -> str | None:
    if not target.reader.accept("WHERE"):
        return None
    text = target.expression(target.reader.until())
    return without_qualifier(text, target.qualifiers, target.reader)


def _assignment(target: StatementTarget, *stops: str) -> tuple[str, str]:
    column = _column(target)
    target.reader.expect("=")
    text = target.expression(target.reader.until(*stops))
    return column, without_qualifier(text, target.qualifiers, target.reader)


def _column(target: StatementTarget) -> str:
    """Takes a column to be set, without the name of its table."""
    parts = target.reader.name()
    for name in (*target.short, *target.qualifiers):
        if len(parts) > len(name) and tuple(map(str.lower, parts[: len(name)])) == tuple(map(str.lower, name)):
            parts = parts[len(name) :]
            break
    return ".".join(quoted(part) for part in parts)


# ---------------------------------------------------------------------- INSERT


def insert(target: StatementTarget) -> DataFrame | None:
    """`INSERT INTO | OVERWRITE [TABLE] table [PARTITION (…)] [(columns)] [BY NAME] query`, and `REPLACE WHERE`.

    `WITH SCHEMA EVOLUTION` before it lets the table grow by columns that it lacks.
    """
    reader = target.reader
    prefix = prefix_of(reader)
    reader.expect("INSERT")
    evolving = reader.accept("WITH", "SCHEMA", "EVOLUTION")
    overwrite = reader.accept("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    elif reader.word() in ("DIRECTORY", "LOCAL"):
        return None
    reader.accept("TABLE")
    table = target.table()
    said = reader.once(reader.parenthesised(lambda: _fixed(reader))) if reader.accept("PARTITION") else {}
    fixed = {name: value for name, value in said.items() if value is not None}
    if table.format is TableFormat.DELTA:
        _check_partitions(table, said)
    elif said:
        target.delta(table)  # refuses, and says why
    where = None
    by_name = reader.accept("BY", "NAME")
    if not overwrite and reader.accept("REPLACE", "WHERE"):
        where = target.expression(reader.until("SELECT", "VALUES", "WITH", "TABLE", "FROM"))
    names = None
    if reader.word() == "(" and reader.word(1) not in _BEGIN_ROWS:
        names = list(reader.once(reader.parenthesised(lambda: (reader.identifier(), None))))
    by_name = reader.accept("BY", "NAME") or by_name
    if by_name and names is not None:
        reader.refuse("columns are matched by their names or listed, not both")
    if evolving and (not by_name or overwrite or where is not None):
        reader.refuse("a table grows by columns that INSERT WITH SCHEMA EVOLUTION INTO … BY NAME brings")
    if not any(reader.starts(word) for word in _BEGIN_ROWS):
        reader.refuse("a query, or VALUES, was expected")
    query = reader.until()
    reader.end()
    if table.format is TableFormat.DELTA and not by_name:
        query = values_for(query, _columns(target, table, names, fixed))
    df = _fitted(target, table, target.rows(prefix + query), names, fixed, by_name)
    if evolving:
        return target.told(version=target.delta(table).table.append(df, schema_mode="merge", cast="ansi"))
    return _written(target, table, df, overwrite, where, fixed)


def _columns(
    target: StatementTarget, table: Table, names: list[str] | None, fixed: Mapping[str, str]
) -> Sequence[Field]:
    """The columns that the rows are for, in their order."""
    columns = {each.name.lower(): each for each in target.delta(table).table.snapshot().schema.fields}
    given = {each.lower() for each in fixed}
    wanted = [name for name in columns if name not in given] if names is None else list(map(str.lower, names))
    return [columns[name] for name in wanted if name in columns]


def _fixed(reader: Reader) -> tuple[str, str | None]:
    """Takes a partition column, and its value unless the rows bring it."""
    name = reader.identifier()
    return name, reader.until(",") if reader.accept("=") else None


def _check_partitions(table: Table, said: Mapping[str, object]) -> None:
    known = {each.lower() for each in table.detail().get("partitionColumns", ())} if said else set()
    if unknown := [name for name in said if name.lower() not in known]:
        raise SchemaError.unknown(f"{unknown[0]!r} is no partition column", unknown[0], sorted(known))


def _fitted(
    target: StatementTarget, table: Table, df: DataFrame, names: list[str] | None, fixed: dict[str, str], by_name: bool
) -> DataFrame:
    """The rows under the names of the table's columns, with the values that the statement fixes."""
    if not by_name:
        # What a Hudi table notes of each row is no row's to bring.
        folded = {each.lower() for each in (*fixed, *(META_COLUMNS if table.format is TableFormat.HUDI else ()))}
        every = [each["name"] for each in table.schema["fields"] if each["name"].lower() not in folded]
        wanted = every if names is None else names
        if len(wanted) != len(df.columns):
            raise SchemaError(
                f"{'.'.join(target.parts)} takes {len(wanted)} columns here, and the rows have {len(df.columns)}",
                sides={"columns": ", ".join(wanted), "rows": ", ".join(df.columns)},
                next_step="List the columns behind the name of the table, or use BY NAME.",
            )
        df = _by_position(df.toDF(*wanted), StructType.fromJson(table.schema))
    return df.select("*", *(column_of(value).alias(name) for name, value in fixed.items())) if fixed else df


def _by_position(df: DataFrame, table: StructType) -> DataFrame:
    """The rows with fields of structs under the names of the table's, too, which count by their places as well."""
    known = {each.name.lower(): each.dataType for each in table.fields}
    types = {each.name: each.dataType for each in df.schema.fields}
    named = {name: _named_as(type, known.get(name.lower(), type)) for name, type in types.items()}
    if named == types:
        return df
    return df.select(*(F.col(quoted(name)).cast(type).alias(name) for name, type in named.items()))


def _named_as(found: DataType, wanted: DataType) -> DataType:
    """A type with the names of another's fields; its own where the two have not the same shape."""
    match found, wanted:
        case StructType(), StructType() if len(found) == len(wanted):
            pairs = zip(found.fields, wanted.fields, strict=True)
            return StructType([StructField(b.name, _named_as(a.dataType, b.dataType), a.nullable) for a, b in pairs])
        case ArrayType(), ArrayType():
            return ArrayType(_named_as(found.elementType, wanted.elementType), found.containsNull)
        case MapType(), MapType():
            key, value = _named_as(found.keyType, wanted.keyType), _named_as(found.valueType, wanted.valueType)
            return MapType(key, value, found.valueContainsNull)
    return found


def _written(
    target: StatementTarget, table: Table, df: DataFrame, overwrite: bool, where: str | None, fixed: dict[str, str]
) -> DataFrame:
    dynamic = str(target.spark.conf.get(_DYNAMIC, "static")).lower() == "dynamic"
    if table.format is not TableFormat.DELTA:
        if where is not None:
            target.delta(table)  # refuses, and says why
        return target.told(version=_replaced(table, df, dynamic) if overwrite else table.append(df))
    delta: Any = table
    if where is None and not overwrite:
        return target.told(version=delta.append(df, cast="ansi"))
    # Where the rows bring some of the partition, they say which ones are replaced, if the session wants that.
    dynamic = dynamic and len(fixed) < len(table.detail()["partitionColumns"])
    if fixed and overwrite and not dynamic:
        where = " AND ".join(f"{quoted(name)} <=> ({value})" for name, value in fixed.items())
    if where is not None:
        return target.told(version=delta.overwrite(df, where=where, cast="ansi"))
    return target.told(version=delta.overwrite(df, partitions="dynamic" if dynamic else "static", cast="ansi"))


def _replaced(table: Any, df: DataFrame, dynamic: bool) -> int:
    """Puts rows in place of all others, or of those in their partitions if the session wants that."""
    if not dynamic or not table.detail()["partitionColumns"]:
        return int(table.overwrite(df))
    if table.format is TableFormat.HUDI:
        return int(table.insert_overwrite(df))
    return int(table.overwrite(df, partitions="dynamic"))


# ---------------------------------------------------------------------- MERGE


def merge(target: StatementTarget) -> DataFrame | None:
    """`MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN …`."""
    reader = target.reader
    prefix = target.prefix = prefix_of(reader)
    reader.expect("MERGE")
    evolving = reader.accept("WITH", "SCHEMA", "EVOLUTION")
    reader.expect("INTO")
    table = target.table()
    found: DeltaLakeTable = target.delta(table).table
    alias = target.take_alias()
    if not alias:
        alias = target.parts[-1] if path_of(target.parts) is None else TARGET_ALIAS
        target.short |= {target.parts[at:]: alias for at in range(len(target.parts) - 1)}
        target.alias = alias
    reader.expect("USING")
    start = reader.at
    source_alias, named = _source(reader)
    target.short |= {named[at:]: named[-1] for at in range(len(named) - 1) if source_alias == named[-1]}
    source = target.rows(f"{prefix}SELECT * FROM {reader.slice(start)}")
    reader.expect("ON")
    builder = found.merge(
        source, target.expression(reader.until("WHEN")), target_alias=alias, source_alias=source_alias
    )
    if evolving:
        builder = builder.with_schema_evolution()
    while reader.accept("WHEN"):
        builder = _clause(target, builder)
    reader.end()
    done = builder.execute().metrics
    figures = {
        "updated": "numTargetRowsUpdated",
        "deleted": "numTargetRowsDeleted",
        "inserted": "numTargetRowsInserted",
    }
    counted = {f"num_{name}_rows": int(done.get(key, 0)) for name, key in figures.items()}
    return target.told(num_affected_rows=sum(counted.values()), **counted)


def _source(reader: Reader) -> tuple[str | None, tuple[str, ...]]:
    """Takes the source of a merge, and gives what it is called, and the parts of the name if it goes by one."""
    named: tuple[str, ...] = ()
    if reader.word() == "(":
        reader.expect("(")
        reader.until()
        reader.expect(")")
    else:
        named = reader.name()
        reader.accept("FOR")
        if reader.accept("VERSION", "AS", "OF"):
            reader.whole_number()
        elif reader.accept("TIMESTAMP", "AS", "OF"):
            reader.until("ON", "AS")
    if reader.accept("AS") or reader.word() != "ON":
        return reader.identifier(), ()
    return (named[-1], named) if named else (None, ())


def _clause(target: StatementTarget, builder: MergeBuilder) -> MergeBuilder:
    reader = target.reader
    matched = not reader.accept("NOT")
    reader.expect("MATCHED")
    by_source = not matched and reader.accept("BY", "SOURCE")
    if not matched and not by_source:
        reader.accept("BY", "TARGET")
    condition = target.expression(reader.until("THEN")) if reader.accept("AND") else None
    reader.expect("THEN")
    if not matched and not by_source:
        return _insert_clause(target, builder, condition)
    if reader.accept("DELETE"):
        return (
            builder.when_not_matched_by_source_delete(condition)
            if by_source
            else builder.when_matched_delete(condition)
        )
    reader.expect("UPDATE", "SET")
    if reader.word() == "*" and not by_source:
        reader.expect("*")
        return builder.when_matched_update_all(condition)
    values = reader.once(reader.listed(lambda: _merge_assignment(target)))
    if by_source:
        return builder.when_not_matched_by_source_update(condition, values)
    return builder.when_matched_update(condition, values)


def _merge_assignment(target: StatementTarget) -> tuple[str, str]:
    column = _column(target)
    target.reader.expect("=")
    return column, target.expression(target.reader.until(",", "WHEN"))


def _insert_clause(target: StatementTarget, builder: MergeBuilder, condition: str | None) -> MergeBuilder:
    reader = target.reader
    reader.expect("INSERT")
    if reader.accept("*"):
        return builder.when_not_matched_insert_all(condition)
    names: list[Any] = reader.parenthesised(lambda: _column(target))
    reader.expect("VALUES")
    values: list[Any] = reader.parenthesised(lambda: target.expression(reader.until(",")))
    if len(names) != len(values):
        reader.refuse(f"{len(values)} values are given for {len(names)} columns")
    return builder.when_not_matched_insert(condition, reader.once(list(zip(names, values, strict=True))))


STATEMENTS: Final[dict[str, Translate]] = {"UPDATE": update, "DELETE": delete, "INSERT": insert, "MERGE": merge}
