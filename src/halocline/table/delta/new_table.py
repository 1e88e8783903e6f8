"""What a new table is to be: columns, partitions, properties, in the state that its first commit needs.

A column is declared with `column`: its type in Spark's words, and what the table does when rows come without it. The
protocol is the least one that the declaration needs; a declared default, sequence or expression counts as asking for
its feature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.compat.agreement import added_by
from halocline.compat.protocol import Protocol
from halocline.compat.request import IGNORE_PROTOCOL_DEFAULTS
from halocline.errors import InputError, MissingExtraError, SchemaError, nearest
from halocline.formats.delta.actions.action import DomainMetadata
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration import clustering, column_mapping, properties
from halocline.formats.delta.configuration.generated import generation_of, with_generation
from halocline.formats.delta.configuration.identity import identity_columns, identity_of, with_identity
from halocline.formats.delta.configuration.metadata_rules import schema_facts
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.approval import asked_by
from halocline.formats.delta.stats.typed_columns import indexed_columns
from halocline.schema import DataType, Field, Path, Primitive, Struct, defaults
from halocline.schema.json_edge import type_from_json
from halocline.schema.visitor import map_fields, walk
from halocline.spark.types import input_schema
from halocline.spark.write.expressions import check_expressions
from halocline.table.arguments import checked, checks_creation
from halocline.table.delta.property_values import property_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_CLUSTERING: Final = 4
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


@checks_creation
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

    def __post_init__(self) -> None:
        for name, value, kind, expected in (
            ("start", self.start, int, "a whole number of 64 bits"),
            ("step", self.step, int, "a whole number of 64 bits"),
            ("always", self.always, bool, "True or False"),
        ):
            if type(value) is not kind or not -(2**63) <= value < 2**63:
                sides = {"given": type(value).__name__, "expected": expected}
                raise InputError(f"{name} of Identity cannot be {value!r:.80}", sides=sides)


@partial(checked, "column")
def column(
    name: str,
    type: Any,
    *,
    nullable: bool = True,
    comment: str | None = None,
    default: str | None = None,
    generated: str | None = None,
    identity: Identity | None = None,
) -> Field:
    """A column of a table to be created.

    Args:
        name: Its name.
        type: Its type: text in Spark's words such as `bigint` or `decimal(10,2)`, or a type of Spark or Arrow.
        nullable: Whether nulls are allowed.
        comment: A description for people.
        default: SQL for the value of rows that come without the column.
        generated: SQL over other columns that always gives the value.
        identity: A sequence that gives the value.

    Raises:
        SchemaError: The type is none.

    Example:
        >>> print(column("id", "bigint", nullable=False))
        id: long not null
    """
    field = Field(name, _type(type), nullable, {} if comment is None else {"comment": comment})
    if default is not None:
        field = defaults.with_default(field, default)
    if generated is not None:
        field = with_generation(field, generated)
    if identity is not None:
        field = with_identity(field, identity.start, identity.step, allows_explicit=not identity.always)
    return field


@dataclass(frozen=True)
class TableDeclaration:
    """A table as somebody wants it."""

    schema: Struct
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    name: str | None = None

    def state(self, spark: SparkSession | None, table: str, *, in_place: bool = False) -> TableConfiguration:
        """The state that creates it; a session is needed for tables that hold expressions.

        In place of a table, that one's protocol is the least there is, and not that of a new table.
        """
        partitions = spelt(self.schema, self.partition_by, "partition")
        asked = ({IGNORE_PROTOCOL_DEFAULTS: "true"} if in_place else {}) | property_values(self.properties)
        if properties.flag(asked, row_ids.ENABLED):
            asked = {**row_ids.materialised_columns(), **asked}
        has_default = any(defaults.default_of(field) is not None for _, field in walk(self.schema))
        named = [defaults.FEATURE] if has_default else []
        named += [clustering.FEATURE] if self.cluster_by else []
        check_expressions(spark, self.schema, asked, table)
        check_reserved(self.schema, asked)
        _check_roles(self.schema, partitions)
        texts = {"name": self.name, "description": self.comment}
        made = new_table(self.schema, partitions, asked, **texts, created_ms=system_clock(), named=named)
        check_clustering(made, self._clustering)
        return made

    def asked(self, protocol: Protocol) -> frozenset[str] | None:
        """The features that it asks of a table with a protocol; None if it asks for version numbers.

        Properties, clustering, and what is declared with a column beside its type ask for features. Types do not.
        """
        by_properties = asked_by(property_values(self.properties), protocol)
        if by_properties is None:
            return None
        bare = map_fields(self.schema, lambda _, field: replace(field, nullable=True, metadata={}))
        of_columns, of_types = (added_by(schema_facts(each, {}), protocol) for each in (self.schema, bare))
        return by_properties | (of_columns - of_types) | ({clustering.FEATURE} if self.cluster_by else frozenset())

    @property
    def _clustering(self) -> list[Path]:
        return clustering_paths(self.schema, self.cluster_by)

    def domains(self, state: TableConfiguration) -> tuple[DomainMetadata, ...]:
        """The domains that come with it, given the state that it became."""
        paths = self._clustering
        return (clustering.clustered_by(state.schema, paths),) if paths else ()

    def parameters(self, state: TableConfiguration) -> dict[str, Any]:
        """The details that its first commit records."""
        return {
            "isManaged": "false",
            "description": self.comment,
            "partitionBy": list(state.metadata.partition_columns),
            "clusterBy": [".".join(path) for path in self._clustering],
            "properties": dict(state.metadata.configuration),
        }


def with_names_as_physical(schema: Struct, configuration: Mapping[str, str]) -> Struct:
    """The schema for files that exist: under column mapping they know columns by their names."""
    return column_mapping.mapped(schema, configuration, column_mapping.same_name)[0]


def _type(type: Any) -> DataType:
    if isinstance(type, str):
        word = "".join(type.lower().split())
        if word in _TYPES:
            return Primitive(_TYPES[word])
        if _PARAMETRISED.fullmatch(word):
            return Primitive(word.replace("numeric", "decimal"))
        try:
            parsed = input_schema.parsed_ddl(f"`x` {type}", type, "give a type of Arrow, such as pa.list_(pa.string())")
            return input_schema.declared(parsed, keep_lengths=True).fields[0].type
        except (InputError, MissingExtraError):
            if not word.isalpha() or not nearest(word, _TYPES):
                raise
            raise SchemaError.unknown(f"there is no type {type!r}", type, _TYPES) from None
    if isinstance(type, DataType):
        return type
    if isinstance(type, pa.DataType):
        return input_schema.declared(pa.schema({"x": type})).fields[0].type
    value = getattr(type, "jsonValue", None)
    if not callable(value) and not isinstance(type, Mapping):
        raise SchemaError(
            f"{type!r:.80} is no type of a column",
            sides={"given": str(type)[:80], "expected": "text such as 'bigint', or a type of Spark or Arrow"},
        )
    return type_from_json(value() if callable(value) else type)


def spelt(schema: Struct, names: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Names of columns as the schema spells them."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if schema.get(name) is None:
            raise SchemaError.unknown(f"{what} column {name!r} is not a column", name, schema.names)
    return tuple(field.name for name in names if (field := schema.get(name)) is not None)


def check_reserved(schema: Struct, configuration: Mapping[str, str]) -> None:
    """Makes sure that no column of a table with a change feed has a name that the feed needs for itself."""
    if not properties.TableProperties(configuration).change_data_feed:
        return
    for name in schema.names:
        if name.lower() in _OF_THE_FEED:
            raise SchemaError(
                f"column {name} has a name that the change feed needs",
                sides={"column": name, "change feed": ", ".join(_OF_THE_FEED)},
                next_step="Rename the column, or leave the change feed off.",
            )


def _check_roles(schema: Struct, partitions: Sequence[str]) -> None:
    """An identity column must be in the files, where its values are counted; expressions stand at the top."""
    for each in identity_columns(schema):
        if each.name in partitions:
            raise SchemaError(
                f"identity column {each.name} cannot be a partition column",
                sides={"partitions": ", ".join(partitions), "identity": each.name},
            )
    for path, field in walk(schema):
        roles = {
            "a generation expression": generation_of(field),
            "a default": defaults.default_of(field),
            "an identity": identity_of(field),
        }
        for role, found in roles.items():
            if len(path) > 1 and found is not None:
                raise SchemaError(
                    f"only columns at the top of the schema can have {role}", sides={"column": ".".join(path)}
                )


def clustering_paths(schema: Struct, names: str | Sequence[str]) -> list[Path]:
    """The columns to cluster by as the schema spells them; a dot leads to a field of a struct."""
    given = (names,) if isinstance(names, str) else names
    paths = [[name] if schema.get(name) is not None else name.split(".") for name in given]
    spelt(schema, [path[0] for path in paths], "clustering")
    return [schema.find(path)[0] for path in paths]


def check_clustering(state: TableConfiguration, paths: Sequence[Path]) -> None:
    """Makes sure that rows can be clustered by some columns: values have an order, and files tell their bounds."""
    if not paths:
        return
    told = {column.path: column.type for column in indexed_columns(state.columns, (), state.properties)}
    fit = [path for path, type in told.items() if isinstance(type, Primitive) and type.name not in _WITHOUT_BOUNDS]
    names, unfit = [".".join(path) for path in paths], [".".join(path) for path in paths if path not in fit]
    if unfit or len(names) > _MOST_CLUSTERING or len(set(names)) < len(names):
        raise InputError(
            f"the table cannot be clustered by {', '.join(names)}",
            sides={
                "not possible": ", ".join(unfit) or f"{len(names)} columns",
                "at most": f"{_MOST_CLUSTERING} columns",
            },
            next_step="Choose up to four columns of numbers, texts, dates or times that the table keeps statistics on: "
            "the first delta.dataSkippingNumIndexedCols, or those in delta.dataSkippingStatsColumns.",
        )
