"""Creating Hudi tables, empty or with rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

from halocline.errors import InputError
from halocline.formats.base import TableFormat
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.configuration import ChangeLogging, HudiTableConfig, KeyGeneratorType, MergeMode, TableType
from halocline.formats.hudi.partition_paths import check_partition_type
from halocline.formats.hudi.properties import FILES, FOLDER, read_properties
from halocline.formats.hudi.record_keys import check_key_type
from halocline.formats.hudi.terms import table_terms
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.timestamp_paths import SETTINGS
from halocline.formats.hudi.write.creation import VERSIONS, NewTable, create_table
from halocline.formats.hudi.write.transaction import PARTITION_METADATA
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Struct
from halocline.spark.types import input_schema
from halocline.table.hudi.columns import columns_of_rows
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.write import bulk_insert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS: Final = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
_MERGES: Final = {"event_time": MergeMode.EVENT_TIME_ORDERING, "commit_time": MergeMode.COMMIT_TIME_ORDERING}


def create(
    path: str | os.PathLike[str],
    what: Any,
    spark: SparkSession | None = None,
    *,
    keys: str | Sequence[str],
    version: int = 6,
    kind: Literal["cow", "mor"] = "cow",
    ordering: str | Sequence[str] = (),
    merge: Literal["event_time", "commit_time"] | None = None,
    partition_by: str | Sequence[str] = (),
    hive_style: bool = False,
    url_encoded: bool = False,
    key_generator: str | None = None,
    meta_columns: bool = True,
    buckets: int | None = None,
    change_log: Literal["op_key_only", "data_before", "data_before_after"] | None = None,
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    database: str = "",
    exist_ok: bool = False,
    options: Mapping[str, str] | None = None,
) -> HudiOpened:
    """Creates a Hudi table where no table is, empty or with the rows of a DataFrame.

    Args:
        path: Where it is to be.
        what: A DataFrame, or columns: a Spark schema, or text such as `id BIGINT, day DATE`.
        spark: The session for rows. Not needed for a DataFrame, nor for columns.
        keys: The fields of the record key.
        version: The table version, 6, 8 or 9. It stays what it is until the table is moved.
        kind: `cow`, copy on write, or `mor`, merge on read.
        ordering: The fields that order versions of a row; several from version 9 on.
        merge: Which version of a row wins: by `event_time`, the default with ordering fields, or by `commit_time`.
        partition_by: The fields of the partition path; for a custom key generator with kinds, as `ts:TIMESTAMP`.
        hive_style: Whether partition paths say `name=value`.
        url_encoded: Whether values in partition paths are escaped.
        key_generator: `SIMPLE`, `COMPLEX`, `TIMESTAMP`, `CUSTOM` or `NON_PARTITION`; by the number of fields if not
            given.
        meta_columns: Whether rows carry the columns that Hudi adds. Without them, ranges of writes cannot be read.
        buckets: How many buckets each partition has, which makes it a table with a bucket index: the hash of its key
            says which file group a row belongs to. Every other writer must be told the same number.
        change_log: Whether writers log how rows change, and how much of it: what happened to which key, the row
            before as well, or the rows before and after.
        properties: Settings of the key generator, such as `hoodie.keygen.timebased.output.dateformat`.
        name: The table's name; that of its folder if not given.
        database: The database that it is registered in.
        exist_ok: Open the table that is there rather than fail.
        options: Settings, and options of the store.

    Raises:
        AlreadyExistsError: There is a table.
        InputError: Such a table cannot be made, or rows are no DataFrame.
        SchemaError: A column or nested field has a name that Avro does not allow; the nearest is named.
        IncompatibleError: Somebody known could not use it.

    Example:
        >>> Table.create("lake/trips", df, format="hudi", version=8, keys="id", ordering="ts")  # doctest: +SKIP
        HudiTable('lake/trips')
    """
    input_schema.check_no_arrow_rows(what, "Hudi")
    table = HudiOpened.at(path, what.sparkSession if input_schema.is_frame(what) else spark, options)
    if table.is_taken(TableFormat.HUDI, exist_ok=exist_ok):
        return table.found()
    for key in properties or ():
        if key not in SETTINGS:
            message, step = f"{key} is no setting of a key generator", "Say the rest with the arguments of create."
            raise InputError.unknown(message, key, SETTINGS, next_step=step)
    columns = columns_of_rows(what) if input_schema.is_frame(what) else input_schema.declared(what)
    title = name or unquote(table.url.rstrip("/").rpartition("/")[2])
    stored = arrow_schema(columns.fields)
    for key in _known(columns, "keys", keys):
        check_key_type(stored.field(key).type)
    generator = None if key_generator is None else _generator(key_generator)
    partition_fields = _known(columns, "partition_by", partition_by)
    for each in partition_fields if generator is not KeyGeneratorType.TIMESTAMP else ():
        field, _, made_of = each.partition(":")
        if made_of != KeyGeneratorType.TIMESTAMP:
            check_partition_type(field, stored.field(field).type)
    new = NewTable(
        name=title,
        type=_KINDS[kind],
        version=_version(version),
        schema=avro_schema(stored, title),
        record_keys=_known(columns, "keys", keys),
        partition_fields=partition_fields,
        ordering_fields=_known(columns, "ordering", ordering),
        merge_mode=None if merge is None else _MERGES[merge],
        hive_style=hive_style,
        url_encoded=url_encoded,
        database=database,
        key_generator=generator,
        meta_columns=meta_columns,
        buckets=buckets,
        change_logging=None if change_log is None else ChangeLogging(change_log.upper()),
        key_settings=dict(properties or {}),
    )
    with table.operation("create"):
        table.approve(None, table_terms(new.properties, table.url))
        create_table(table.store, new)
        if input_schema.is_frame(what):
            try:
                bulk_insert(table, what)
            except BaseException:
                _take_away(table)
                raise
    return table.found()


def _take_away(table: HudiOpened) -> None:
    """Takes a table away whose first rows could not be written, unless somebody else has begun to write to it."""
    config = HudiTableConfig.parse(read_properties(table.store).pairs, table.url)
    timeline = HudiTimeline.load(table.store, config)
    if timeline.writes or timeline.pending:
        return
    table.store.delete(f"{FOLDER}/{FILES[0]}")
    left = [meta.path for meta in table.store.list()]
    ours = (path for path in left if path.startswith(f"{FOLDER}/") or path.endswith(PARTITION_METADATA))
    table.store.delete_many(list(ours))


def _known(columns: Struct, argument: str, given: str | Sequence[str]) -> list[str]:
    """The columns that an argument names, each once and as the schema spells it, as rows are asked for them."""
    found: dict[str, str] = {}
    for each in [given] if isinstance(given, str) else given:
        name, _, kind = each.partition(":")
        (spelt,), _ = columns.find([name])
        if spelt in found:
            raise InputError(
                f"{argument} names column {spelt} twice",
                sides={"given": ", ".join(given), "expected": "each column once"},
                next_step="Leave it out once.",
            )
        found[spelt] = f"{spelt}:{kind.upper()}" if kind else spelt
    return list(found.values())


def _generator(given: str) -> KeyGeneratorType:
    known = [each.value for each in KeyGeneratorType]
    if given.upper() not in known:
        raise InputError.unknown(f"there is no key generator {given!r}", given, known)
    return KeyGeneratorType(given.upper())


def _version(given: int) -> int:
    """The table version, before it decides how anything else is spelt."""
    if given not in VERSIONS:
        raise InputError(
            f"tables of version {given} are not made",
            sides={"asked for": f"version {given}", "possible": ", ".join(map(str, VERSIONS))},
            next_step="Choose one of them; the table can be moved later.",
        )
    return given
