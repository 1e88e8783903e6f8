"""What a new table is to be: columns, partitions, properties, in the state that its first commit needs.

A column is declared with `column`: its type in Spark's words, and what the table does when rows come without it. The
protocol is the least one that the declaration needs; a declared default, sequence or expression counts as asking for
its feature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, SchemaError
from halocline.formats.delta.actions.action import DomainMetadata
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration import column_mapping, identity, properties, schema_edit
from halocline.formats.delta.configuration.schema_edit import PHYSICAL_NAME
from halocline.formats.delta.configuration.table_state import TableState, new_table
from halocline.formats.delta.features import row_ids
from halocline.schema.json_edge import struct_from_json, to_json
from halocline.spark.types import input_schema
from halocline.spark.types.columns import holds
from halocline.spark.write.expressions import check_expressions
from halocline.spark.write.rules import GENERATION, INVARIANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTERING: Final = "delta.clustering"
"""The domain that holds the clustering columns."""

_MOST_CLUSTERING: Final = 4
_FEEDS: Final = ("delta.enableChangeDataFeed", "delta.enableChangeDataCapture")
_OF_THE_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")
_TYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ("byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary")},
    **{name: name for name in ("date", "timestamp", "timestamp_ntz", "variant", "void")},
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
}
"""Plain types in Spark's words, which take no session to understand."""

_PARAMETRISED: Final = re.compile(r"(?:decimal|numeric)\(\d+,\d+\)|(?:var)?char\(\d+\)")
_WITHOUT_BOUNDS: Final = ("binary", "boolean", "variant", "void")


@dataclass(frozen=True, slots=True)
class Identity:
    """A sequence that gives a column its values.

    Args:
        start: The first value.
        step: The distance between values.
        always: Whether only the table gives values; otherwise rows may bring their own.
    """

    start: int = 1
    step: int = 1
    always: bool = True


def column(
    name: str,
    type: Any,
    *,
    nullable: bool = True,
    comment: str | None = None,
    default: str | None = None,
    generated: str | None = None,
    identity: Identity | None = None,
) -> dict[str, Any]:
    """A column of a table to be created.

    Args:
        name: Its name.
        type: Its type: text in Spark's words such as `bigint` or `decimal(10,2)`, or a Spark type.
        nullable: Whether nulls are allowed.
        comment: A description for people.
        default: SQL for the value of rows that come without the column.
        generated: SQL over other columns that always gives the value.
        identity: A sequence that gives the value.

    Raises:
        SchemaError: The type is none.

    Example:
        >>> column("id", "bigint", identity=Identity())["metadata"]["delta.identity.start"]
        1
    """
    metadata: dict[str, Any] = {}
    if comment is not None:
        metadata["comment"] = comment
    if default is not None:
        metadata[input_schema.DEFAULT] = default
    if generated is not None:
        metadata[GENERATION] = generated
    if identity is not None:
        metadata |= _sequence(identity)
    return schema_edit.field(name, _json_type(type), nullable, metadata)


@dataclass(frozen=True)
class Declaration:
    """A table as somebody wants it.

    Attributes:
        schema: Its columns, in the spelling of the log.
        partition_by: The names of its partition columns.
        cluster_by: The names of its clustering columns.
        properties: Its properties.
        comment: A description for people.
        name: A name for people.
    """

    schema: Mapping[str, Any]
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    name: str | None = None

    def state(self, spark: SparkSession | None, table: str) -> TableState:
        """The state that creates it.

        Args:
            spark: The session, for tables that hold expressions.
            table: The table's name, for messages.

        Raises:
            InputError: Properties or expressions do not fit.
            SchemaError: Columns or partitions do not fit.
        """
        partitions = spelt(self.schema, self.partition_by, "partition")
        asked = {key: str(value) for key, value in (self.properties or {}).items()}
        if properties.flag(asked, row_ids.ENABLED):
            asked = {**row_ids.materialised_columns(), **asked}
        named = ["allowColumnDefaults"] if _has(self.schema, input_schema.DEFAULT) else []
        named += ["clustering"] if self.cluster_by else []
        check_expressions(spark, self.schema, asked, table)
        check_reserved(self.schema, asked)
        _check_roles(self.schema, partitions)
        state = new_table(
            struct_from_json(self.schema),
            partitions,
            asked,
            name=self.name,
            description=self.comment,
            created_ms=system_clock(),
            named=named,
        )
        if self.cluster_by:
            _check_clustering(self.schema, spelt(self.schema, self.cluster_by, "clustering"))
        return state

    def domains(self, state: TableState) -> tuple[DomainMetadata, ...]:
        """The domains that come with it, given the state that it became."""
        if not self.cluster_by:
            return ()
        fields = {field["name"]: field for field in state.schema["fields"]}
        paths = [[_physical(fields[name])] for name in spelt(self.schema, self.cluster_by, "clustering")]
        text = schema_edit.dump({"clusteringColumns": paths, "domainName": CLUSTERING})
        return (DomainMetadata(CLUSTERING, text),)

    def parameters(self, state: TableState) -> dict[str, Any]:
        """The details that its first commit records."""
        return {
            "isManaged": "false",
            "description": self.comment,
            "partitionBy": list(state.metadata.partition_columns),
            "clusterBy": list(spelt(self.schema, self.cluster_by, "clustering")),
            "properties": dict(state.metadata.configuration),
        }


def with_names_as_physical(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> Mapping[str, Any]:
    """The schema for files that exist: under column mapping they know columns by their names."""
    return dict(to_json(column_mapping.mapped(struct_from_json(schema), configuration, column_mapping.same_name)[0]))


def _sequence(sequence: Identity) -> dict[str, Any]:
    return {
        "delta.identity.start": sequence.start,
        "delta.identity.step": sequence.step,
        "delta.identity.allowExplicitInsert": not sequence.always,
    }


def _json_type(type: Any) -> Any:
    if isinstance(type, str):
        word = "".join(type.lower().split())
        if word in _TYPES:
            return _TYPES[word]
        if _PARAMETRISED.fullmatch(word):
            return word.replace("numeric", "decimal")
        return input_schema.declared(f"`x` {type}", keep_lengths=True)["fields"][0]["type"]
    value = getattr(type, "jsonValue", None)
    return value() if callable(value) else type


def spelt(schema: Mapping[str, Any], names: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Names of columns as the schema spells them.

    Raises:
        SchemaError: There is no such column.

    Example:
        >>> spelt({"fields": [{"name": "Day"}]}, ["day"], "partition")
        ('Day',)
    """
    if isinstance(names, str):
        names = (names,)
    known = {field["name"].lower(): field["name"] for field in schema["fields"]}
    for name in names:
        if name.lower() not in known:
            raise SchemaError(
                f"{what} column {name!r} is not a column",
                sides={"asked for": ", ".join(names), "columns": ", ".join(known.values())},
            )
    return tuple(known[name.lower()] for name in names)


def check_reserved(schema: Mapping[str, Any], configuration: Mapping[str, str]) -> None:
    """Makes sure that no column has a name that the change feed needs for itself.

    Raises:
        SchemaError: One has, and the table keeps a change feed.
    """
    if not any(properties.flag(configuration, key) for key in _FEEDS):
        return
    for each in schema["fields"]:
        if each["name"].lower() in _OF_THE_FEED:
            raise SchemaError(
                f"column {each['name']} has a name that the change feed needs",
                sides={"column": each["name"], "change feed": ", ".join(_OF_THE_FEED)},
                next_step="Rename the column, or leave the change feed off.",
            )


def check_clustering_kept(schema: Mapping[str, Any], clustering: DomainMetadata | None, table: str) -> None:
    """Makes sure that a table still has the columns by which it is clustered.

    Raises:
        SchemaError: One of them would be gone.
    """
    if clustering is None:
        return
    kept = {_physical(each) for each in schema["fields"]}
    for path in json.loads(clustering.configuration).get("clusteringColumns") or ():
        first = path[0] if isinstance(path, list) else path
        if first not in kept:
            raise SchemaError(
                f"{table} is clustered by a column that the rows lack",
                sides={"clustered by": str(path), "rows": ", ".join(each["name"] for each in schema["fields"])},
                next_step="Keep the column, or replace the table.",
            )


def _has(schema: Mapping[str, Any], key: str) -> bool:
    return any(key in (field.get("metadata") or {}) for _, field in schema_edit.fields(schema))


def _check_roles(schema: Mapping[str, Any], partitions: Sequence[str]) -> None:
    """An identity column must be in the files, where its values are counted; expressions stand at the top."""
    for each in identity.identity_columns(struct_from_json(schema)):
        if each.name in partitions:
            raise SchemaError(
                f"identity column {each.name} cannot be a partition column",
                sides={"partitions": ", ".join(partitions), "identity": each.name},
            )
    for path, field in schema_edit.fields(schema):
        keys = {GENERATION, INVARIANTS, input_schema.DEFAULT, "delta.identity.start"} & set(field.get("metadata") or {})
        if len(path) > 1 and keys - {INVARIANTS}:
            raise SchemaError(
                f"only columns at the top of the schema can have {sorted(keys)[0]}", sides={"column": ".".join(path)}
            )


def _check_clustering(schema: Mapping[str, Any], names: Sequence[str]) -> None:
    types = {field["name"]: field["type"] for field in schema["fields"]}
    unfit = [name for name in names if not isinstance(types[name], str) or holds(types[name], _WITHOUT_BOUNDS)]
    if unfit or len(names) > _MOST_CLUSTERING or len(set(names)) < len(names):
        raise InputError(
            f"the table cannot be clustered by {', '.join(names)}",
            sides={
                "not possible": ", ".join(unfit) or f"{len(names)} columns",
                "at most": f"{_MOST_CLUSTERING} columns",
            },
            next_step="Choose up to four columns of numbers, texts, dates or times.",
        )


def _physical(field: Mapping[str, Any]) -> str:
    return str((field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]))
