"""What a Hudi table is: its properties, read once and typed.

A `HudiTableConfig` that exists is consistent with itself. The table version decides how the other properties are
spelt, and readers accept every spelling that a release has written: the ordering fields stand under one of two keys,
the key generator as a class or as a type.

The *watermark* is ours: the instant up to which the timeline was written by an older table version, recorded when a
table moves. Below it the old rules hold, above it the new ones. Where the move copied the timeline, what lies at the
old place is only there for readers from before. Other clients leave both keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.properties import DATABASE, NAME, TYPE, table_version

INITIAL_VERSION: Final = "hoodie.table.initial.version"
LAYOUT: Final = "hoodie.timeline.layout.version"
TIMELINE_PATH: Final = "hoodie.timeline.path"
HISTORY_PATH: Final = "hoodie.timeline.history.path"
ARCHIVE_FOLDER: Final = "hoodie.archivelog.folder"
RECORD_KEYS: Final = "hoodie.table.recordkey.fields"
PARTITION_FIELDS: Final = "hoodie.table.partition.fields"
ORDERING_FIELDS: Final = "hoodie.table.ordering.fields"
PRECOMBINE_FIELD: Final = "hoodie.table.precombine.field"
KEY_GENERATOR_CLASS: Final = "hoodie.table.keygenerator.class"
KEY_GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
MERGE_MODE: Final = "hoodie.record.merge.mode"
MERGE_STRATEGY: Final = "hoodie.record.merge.strategy.id"
OLD_MERGE_STRATEGY: Final = "hoodie.compaction.record.merger.strategy"
PAYLOAD_CLASS: Final = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS: Final = "hoodie.table.legacy.payload.class"
PARTIAL_UPDATE_MODE: Final = "hoodie.table.partial.update.mode"
MERGE_PROPERTY: Final = "hoodie.record.merge.property."
BASE_FORMAT: Final = "hoodie.table.base.file.format"
META_FIELDS: Final = "hoodie.populate.meta.fields"
HIVE_STYLE: Final = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODED: Final = "hoodie.datasource.write.partitionpath.urlencode"
DROP_PARTITION_COLUMNS: Final = "hoodie.datasource.write.drop.partition.columns"
CREATE_SCHEMA: Final = "hoodie.table.create.schema"
TIMEZONE: Final = "hoodie.table.timeline.timezone"
CDC: Final = "hoodie.table.cdc.enabled"
CDC_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"
METADATA_PARTITIONS: Final = "hoodie.table.metadata.partitions"
BOOTSTRAP_PATH: Final = "hoodie.bootstrap.base.path"
STORAGE_LAYOUT: Final = "hoodie.table.storage.layout"
WATERMARK: Final = "hoodie.table.version.upgrade.commit.time"
COPIED_TIMELINE: Final = "hoodie.table.version.upgrade.copied.timeline"

FIRST_OF_LAYOUT_2: Final = 8
"""The first table version with timeline layout 2."""


class TableType(StrEnum):
    """Whether changes rewrite base files, or go to log files that readers merge."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class KeyGeneratorType(StrEnum):
    """How record keys and partition paths are made from a row."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    NON_PARTITION = "NON_PARTITION"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    USER_PROVIDED = "USER_PROVIDED"


class MergeMode(StrEnum):
    """Which of two versions of a row wins."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class ChangeLogging(StrEnum):
    """How much change blocks tell: the key and what happened, the row before, or the rows before and after."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"


_CLASSES: Final[Mapping[str, KeyGeneratorType]] = {
    "SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGeneratorType.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGeneratorType.COMPLEX,
    "TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "CustomKeyGenerator": KeyGeneratorType.CUSTOM,
    "CustomAvroKeyGenerator": KeyGeneratorType.CUSTOM,
    "NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "GlobalDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
    "GlobalAvroDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
}

_INDEXES: Final = ("record_index", "bloom_filters", "secondary_index_", "expr_index_", "func_index_")

_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field that partition paths are made from.

    Attributes:
        name: Its name, with dots for fields inside structs.
        kind: How custom key generators treat it, `SIMPLE` or `TIMESTAMP`; None for other generators.
    """

    name: str
    kind: str | None = None


@dataclass(frozen=True)
class HudiTableConfig:
    """The properties of a table, typed. Made by `HudiTableConfig.parse`.

    Attributes:
        name: The table's name.
        database: The database it is registered in; empty if in none.
        type: Copy on write or merge on read.
        version: The table version.
        layout: The version of the timeline's layout.
        timeline_folder: Where the active timeline lies.
        history_folder: Where older instants lie: the archive of layout 1, the LSM timeline of layout 2.
        record_keys: The fields of the record key; empty if keys are made up.
        partition_fields: The fields of the partition path.
        key_generator: How keys and paths are made; None if the table does not say.
        ordering_fields: The fields that order versions of a row by event time.
        merge_mode: Which version of a row wins, where the table says so.
        merge_strategy: The id of the merge strategy, where the table has one.
        payload_class: The class that merges rows, by its short name where it is Hudi's own; None if none is named.
        base_format: The format of base files.
        meta_fields: Whether rows carry the meta columns.
        hive_style: Whether a partition path says `name=value`.
        url_encoded: Whether values in partition paths are escaped.
        change_logging: How much change blocks tell; None if there are none.
        metadata_partitions: The partitions of the metadata table that are in use.
        watermark: The instant up to which an older table version wrote; None if none did.
        is_copied: Whether the timeline up to the watermark was copied to where the table version has it.
        pairs: All properties.
    """

    name: str
    database: str
    type: TableType
    version: int
    layout: int
    timeline_folder: str
    history_folder: str
    record_keys: tuple[str, ...]
    partition_fields: tuple[PartitionField, ...]
    key_generator: KeyGeneratorType | None
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode | None
    merge_strategy: str | None
    payload_class: str | None
    base_format: str
    meta_fields: bool
    hive_style: bool
    url_encoded: bool
    change_logging: ChangeLogging | None
    metadata_partitions: tuple[str, ...]
    watermark: str | None
    is_copied: bool
    pairs: Mapping[str, str] = field(repr=False)

    @staticmethod
    def parse(pairs: Mapping[str, str], table: str) -> HudiTableConfig:
        """Reads the properties of a table.

        Args:
            pairs: The properties.
            table: What to call the table in errors.

        Raises:
            MalformedError: A property has a value that it cannot have, or two contradict each other.
            UnsupportedError: The table is of a kind that this release does not read.

        Example:
            >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
            >>> HudiTableConfig.parse(pairs, "t").timeline_folder
            '.hoodie/timeline'
        """
        version = table_version(pairs, table)
        _refuse_unreadable(pairs, table)
        layout = _layout(pairs, version, table)
        timeline = timeline_folder(pairs, table)
        older = pairs.get(HISTORY_PATH) or "history" if layout > 1 else pairs.get(ARCHIVE_FOLDER) or "archived"
        generator = _key_generator(pairs, table)
        partitions = _partition_fields(pairs, generator)
        cdc = _flag(pairs, CDC, False, table)
        return HudiTableConfig(
            name=pairs.get(NAME, ""),
            database=pairs.get(DATABASE, ""),
            type=_choice(TableType, pairs.get(TYPE, ""), TYPE, table),
            version=version,
            layout=layout,
            timeline_folder=timeline,
            history_folder=f"{timeline}/{older}",
            record_keys=_names(pairs.get(RECORD_KEYS)),
            partition_fields=partitions,
            key_generator=generator,
            ordering_fields=_names(pairs.get(ORDERING_FIELDS)) or _names(pairs.get(PRECOMBINE_FIELD)),
            merge_mode=_optional_choice(MergeMode, pairs, MERGE_MODE, table),
            merge_strategy=pairs.get(MERGE_STRATEGY) or pairs.get(OLD_MERGE_STRATEGY) or None,
            payload_class=_short(pairs.get(PAYLOAD_CLASS) or pairs.get(LEGACY_PAYLOAD_CLASS)),
            base_format=(pairs.get(BASE_FORMAT) or "PARQUET").upper(),
            meta_fields=_flag(pairs, META_FIELDS, True, table),
            hive_style=_flag(pairs, HIVE_STYLE, False, table),
            url_encoded=_flag(pairs, URL_ENCODED, False, table),
            change_logging=_change_logging(pairs, table) if cdc else None,
            metadata_partitions=_names(pairs.get(METADATA_PARTITIONS)),
            watermark=pairs.get(WATERMARK) or None,
            is_copied=_flag(pairs, COPIED_TIMELINE, False, table),
            pairs=MappingProxyType(dict(pairs)),
        )

    @property
    def is_partitioned(self) -> bool:
        """Whether rows lie in partitions."""
        return bool(self.partition_fields)

    @property
    def indexes(self) -> tuple[str, ...]:
        """The indexes in the metadata table that somebody asked for: who builds it again does not make them.

        Example:
            >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
            >>> pairs[METADATA_PARTITIONS] = "column_stats,files,record_index"
            >>> HudiTableConfig.parse(pairs, "t").indexes
            ('record_index',)
        """
        return tuple(each for each in self.metadata_partitions if each.startswith(_INDEXES))

    @property
    def created_by_1x(self) -> bool:
        """Whether a release from 1.0 on made the table, even at an older version: only those write some of its keys."""
        return self.version >= FIRST_OF_LAYOUT_2 or not {KEY_GENERATOR_TYPE, MERGE_STRATEGY}.isdisjoint(self.pairs)


def timeline_folder(pairs: Mapping[str, str], table: str) -> str:
    """Where the active timeline lies, by the table version alone.

    Example:
        >>> timeline_folder({"hoodie.table.version": "6"}, "t")
        '.hoodie'
    """
    if table_version(pairs, table) < FIRST_OF_LAYOUT_2:
        return ".hoodie"
    return f".hoodie/{pairs.get(TIMELINE_PATH) or 'timeline'}"


def _layout(pairs: Mapping[str, str], version: int, table: str) -> int:
    expected = 2 if version >= FIRST_OF_LAYOUT_2 else 1
    text = pairs.get(LAYOUT, "").strip() or str(expected)
    if text != str(expected):
        raise MalformedError(
            f"the table version and the timeline of {table} contradict each other",
            condition="MALFORMED_METADATA",
            sides={
                "table version": f"{version}, which has timeline layout {expected}",
                "properties": f"{LAYOUT}={text}",
            },
            next_step="Another client may be moving the table; look again, or restore the properties.",
        )
    return expected


def _refuse_unreadable(pairs: Mapping[str, str], table: str) -> None:
    found = {
        STORAGE_LAYOUT: pairs.get(STORAGE_LAYOUT, "default").lower() != "default",
        # Values would have to be guessed from paths, which do not say null, or what a key generator changed.
        DROP_PARTITION_COLUMNS: pairs.get(DROP_PARTITION_COLUMNS, "").strip().lower() == "true",
    }
    for key, present in found.items():
        if present:
            raise UnsupportedError(
                f"{table} has {key}, and this release does not read such tables",
                sides={"table": f"{key}={pairs[key]}", "halocline reads": f"tables without {key}={pairs[key]}"},
                next_step="Rewrite the table with bulk_insert into a new one.",
            )


def _key_generator(pairs: Mapping[str, str], table: str) -> KeyGeneratorType | None:
    type, name = pairs.get(KEY_GENERATOR_TYPE, "").strip(), pairs.get(KEY_GENERATOR_CLASS, "").strip()
    if type:
        plain = type.upper().removesuffix("_AVRO")
        return KeyGeneratorType(plain) if plain in KeyGeneratorType.__members__ else KeyGeneratorType.USER_PROVIDED
    if name:
        return _CLASSES.get(name.rpartition(".")[2], KeyGeneratorType.USER_PROVIDED)
    return None


def _partition_fields(pairs: Mapping[str, str], generator: KeyGeneratorType | None) -> tuple[PartitionField, ...]:
    if generator is KeyGeneratorType.NON_PARTITION:
        return ()
    fields = []
    for text in _names(pairs.get(PARTITION_FIELDS)):
        name, _, kind = text.partition(":")
        fields.append(PartitionField(name, kind.upper() or None))
    return tuple(fields)


def _change_logging(pairs: Mapping[str, str], table: str) -> ChangeLogging:
    text = (pairs.get(CDC_MODE) or ChangeLogging.DATA_BEFORE_AFTER).upper()
    return _choice(ChangeLogging, text, CDC_MODE, table)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


def _short(name: str | None) -> str | None:
    return None if not name else name.removeprefix("org.apache.hudi.common.model.")


def _flag(pairs: Mapping[str, str], key: str, default: bool, table: str) -> bool:
    text = pairs.get(key, "").strip().lower() or str(default).lower()
    if text not in ("true", "false"):
        raise _invalid(key, pairs[key], "true or false", table)
    return text == "true"


def _optional_choice(kind: type[_E], pairs: Mapping[str, str], key: str, table: str) -> _E | None:
    return _choice(kind, pairs[key], key, table) if pairs.get(key, "").strip() else None


def _choice(kind: type[_E], text: str, key: str, table: str) -> _E:
    if text.strip().upper() not in kind.__members__:
        raise _invalid(key, text, ", ".join(kind), table)
    return kind[text.strip().upper()]


def _invalid(key: str, text: str, expected: str, table: str) -> MalformedError:
    return MalformedError(
        f"property {key} of {table} is {text!r}",
        condition="MALFORMED_METADATA",
        sides={"expected": expected, "found": text or "nothing"},
        next_step=f"Correct {key} in .hoodie/hoodie.properties.",
    )
