"""What a statement says of a table to be made, and the statement that says it of a table that is there.

`create_statement` promises that its statement, run here, makes a table that is equal but for its rows: columns with
their types, comments, defaults and sequences, partitions, clustering, constraints, properties, and a protocol with the
same features. It reads its own statement before it gives it away, and refuses a table of which SQL cannot say all, such
as one with text that has a collation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, SchemaError, UnsupportedError
from halocline.formats.delta.configuration import clustering, column_mapping, identity, type_widening
from halocline.formats.delta.configuration.generated import generation_of
from halocline.formats.delta.configuration.properties import CONSTRAINT_PREFIX, KNOWN
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema import Array, DataType, Field, Map, Struct, defaults
from halocline.schema.char_types import declared_type
from halocline.schema.visitor import map_fields
from halocline.spark.types import input_schema
from halocline.spark.types.columns import quoted
from halocline.statements.columns import SqlColumn, take_column, take_constraints, take_type
from halocline.statements.text import Reader, literal
from halocline.table.delta.new_table import TableDeclaration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.formats.delta.snapshot.snapshot import Snapshot

_TYPES: Final[Mapping[str, str]] = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
_CLUSTERED: Final = f"delta.feature.{clustering.FEATURE}"
"""What CLUSTER BY asks for by itself."""
_OWN: Final = "delta.rowTracking."
"""Properties in which a table keeps names that it made up for itself."""


@dataclass
class SqlDeclaration:
    """What a statement says of a table to be made."""

    provider: str = ""
    columns: list[SqlColumn] = field(default_factory=list)
    constraints: dict[str, str] = field(default_factory=dict)
    partition_by: list[str] = field(default_factory=list)
    cluster_by: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None

    @staticmethod
    def taken(reader: Reader) -> SqlDeclaration:
        """Takes what stands behind the name of the table."""
        said = SqlDeclaration()
        if reader.word() == "(":
            reader.parenthesised(lambda: _column_or_constraint(reader, said))
        _clauses(reader, said)
        return said

    def filled(self, other: SqlDeclaration) -> SqlDeclaration:
        """This, with columns and what belongs to them from another, and the properties of both."""
        return replace(
            other,
            provider=self.provider,
            properties=other.properties | self.properties,
            location=self.location,
            comment=other.comment if self.comment is None else self.comment,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What it says besides columns, as arguments for a table to be made."""
        return {
            "partition_by": self.partition_by,
            "cluster_by": self.cluster_by,
            "properties": self.properties | {CONSTRAINT_PREFIX + name: text for name, text in self.constraints.items()},
            "comment": self.comment,
        }


def _column_or_constraint(reader: Reader, said: SqlDeclaration) -> None:
    if reader.accept("CONSTRAINT"):
        name = reader.identifier()
        reader.expect("CHECK", "(")
        if name in said.constraints:
            reader.refuse(f"constraint {name} is given twice")
        said.constraints[name] = reader.until()
        reader.expect(")")
    else:
        said.columns.append(take_column(reader))


def _clauses(reader: Reader, said: SqlDeclaration) -> None:
    """Takes what comes behind the columns, each clause once and in any order."""
    given: set[str] = set()

    def once(*words: str) -> bool:
        if not reader.accept(*words):
            return False
        if words[0] in given:
            reader.refuse(f"{words[0]} is given twice")
        given.add(words[0])
        return True

    while True:
        if once("USING"):
            said.provider = reader.identifier().upper()
        elif once("PARTITIONED", "BY"):
            reader.parenthesised(lambda: _partition(reader, said))
        elif once("CLUSTER", "BY"):
            said.cluster_by = reader.parenthesised(lambda: ".".join(reader.name()))
        elif once("LOCATION"):
            said.location = reader.string()
        elif once("COMMENT"):
            said.comment = reader.string()
        elif once("TBLPROPERTIES"):
            said.properties = reader.properties()
        else:
            return


def _partition(reader: Reader, said: SqlDeclaration) -> None:
    """A column by name; with a type it is a column that was not declared before."""
    name = reader.identifier()
    said.partition_by.append(name)
    if reader.word() == "(":
        reader.refuse("tables are partitioned by columns; declare one that is GENERATED ALWAYS AS the expression")
    if reader.word() not in (",", ")"):
        said.columns.append(take_constraints(reader, SqlColumn(name, take_type(reader))))


# ---------------------------------------------------------------------- the statement for a table


def create_statement(spark: SparkSession, snapshot: Snapshot, parts: tuple[str, ...]) -> str:
    """The statement that makes an equal table.

    Args:
        spark: The session, which reads expressions.
        snapshot: The version that is described.
        parts: The name of the table to be made.

    Raises:
        UnsupportedError: SQL cannot say all of it.
    """
    state = snapshot.configuration
    paths = clustering.clustering_paths(snapshot.domains.get(clustering.DOMAIN), snapshot.columns)
    by = [".".join(path) for path in paths]
    stored = {key: value for key, value in state.metadata.configuration.items() if not _is_own(key)}
    rules = {key.removeprefix(CONSTRAINT_PREFIX): key for key in stored if key.startswith(CONSTRAINT_PREFIX)}
    items = [_column(each) for each in state.schema.fields]
    items += [f"CONSTRAINT {quoted(name)} CHECK ({stored.pop(key)})" for name, key in sorted(rules.items())]
    asked = {key: value for key, value in protocol_properties(snapshot).items() if not (by and key == _CLUSTERED)}
    properties = sorted({**stored, **asked}.items())
    lines = ["CREATE TABLE " + ".".join(map(quoted, parts)) + " (", ",\n".join(f"  {each}" for each in items) + ")"]
    lines.append("USING delta")
    if state.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, state.partition_columns))})")
    if by:
        lines.append(f"CLUSTER BY ({', '.join('.'.join(map(quoted, path)) for path in paths)})")
    if state.metadata.description is not None:
        lines.append(f"COMMENT {literal(state.metadata.description)}")
    lines.append("TBLPROPERTIES (")
    lines.append(",\n".join(f"  {literal(key)} = {literal(value)}" for key, value in properties) + ")")
    text = "\n".join(lines)
    _check(spark, text, snapshot, tuple(by))
    return text


def protocol_properties(snapshot: Snapshot) -> dict[str, str]:
    """The protocol in the words of properties, as Delta shows it and takes it."""
    found = {
        "delta.minReaderVersion": str(snapshot.protocol.reader),
        "delta.minWriterVersion": str(snapshot.protocol.writer),
    }
    action = snapshot.protocol_action
    listed = () if action is None else (*(action.reader_features or ()), *(action.writer_features or ()))
    return found | {f"delta.feature.{name}": "supported" for name in listed}


def _is_own(key: str) -> bool:
    record = KNOWN.get(key)
    return key.startswith(_OWN) or (record is not None and record.internal)


def _column(found: Field) -> str:
    words = [quoted(found.name), _type(declared_type(found) or found.type)]
    words += [] if found.nullable else ["NOT NULL"]
    if (default := defaults.default_of(found)) is not None:
        words.append(f"DEFAULT {default}")
    if (expression := generation_of(found)) is not None:
        words.append(f"GENERATED ALWAYS AS ({expression})")
    if (sequence := identity.identity_of(found)) is not None:
        when = "BY DEFAULT" if sequence.allows_explicit else "ALWAYS"
        words.append(f"GENERATED {when} AS IDENTITY (START WITH {sequence.start} INCREMENT BY {sequence.step})")
    if "comment" in found.metadata:
        words.append(f"COMMENT {literal(str(found.metadata['comment']))}")
    return " ".join(words)


def _type(type: DataType) -> str:
    match type:
        case Array():
            return f"ARRAY<{_type(type.element)}>"
        case Map():
            return f"MAP<{_type(type.key)}, {_type(type.value)}>"
        case Struct():
            return f"STRUCT<{', '.join(map(_nested, type.fields))}>"
    return _TYPES.get(type.name, str(type).upper())


def _nested(found: Field) -> str:
    rest = ("" if found.nullable else " NOT NULL") + (
        f" COMMENT {literal(str(found.metadata['comment']))}" if "comment" in found.metadata else ""
    )
    return f"{quoted(found.name)}: {_type(found.type)}{rest}"


def _check(spark: SparkSession, text: str, snapshot: Snapshot, by: tuple[str, ...]) -> None:
    """Makes sure that the statement says all of the table, by reading it."""
    reader = Reader(text)
    reader.expect("CREATE", "TABLE")
    reader.name()
    said = SqlDeclaration.taken(reader)
    reader.end()
    try:
        schema = input_schema.declared([each.field for each in said.columns])
        made = TableDeclaration(schema, **said.arguments).state(spark, snapshot.store.root)
    except (InputError, SchemaError) as error:
        raise UnsupportedError(
            f"no statement makes a table that is equal to {snapshot.store.root}: {error.message}",
            sides={"statement": text[:300]},
        ) from error
    wanted, found = _facts(snapshot.configuration), _facts(made)
    differing = [name for name in wanted if wanted[name] != found[name]]
    if differing or tuple(said.cluster_by) != by:
        what = (differing or ["clustering"])[0]
        raise UnsupportedError(
            f"no statement makes a table that is equal to {snapshot.store.root}: its {what} cannot be said in SQL",
            sides={"table": str(wanted.get(what, by))[:300], "statement": str(found.get(what, said.cluster_by))[:300]},
            next_step="Use Table.shallow_clone, or Table.create with the table's own schema.",
        )


def _facts(state: TableConfiguration) -> dict[str, Any]:
    """What makes tables equal, without what each made up for itself."""

    def plain(_: Any, each: Field) -> Field:
        return type_widening.unrecorded(
            identity.unmarked(defaults.without_existing(column_mapping.unmapped_field(each)))
        )

    configuration = state.metadata.configuration
    return {
        "schema": map_fields(state.schema, plain),
        "partition columns": state.partition_columns,
        "properties": {key: value for key, value in configuration.items() if not _is_own(key)},
        "comment": state.metadata.description,
        "protocol": state.protocol,
    }
