"""New tables: the properties that a table of each version begins with.

Properties that a version does not know are not written: at versions 6 and 8 the ordering field stands under the key
that releases of that time read, because they would merge wrong rows otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from halocline.errors import AlreadyExistsError, InputError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.buckets import BUCKETS, INDEX_TYPE
from halocline.formats.hudi.configuration import (
    ChangeLogging,
    HudiTableConfig,
    KeyGeneratorType,
    MergeMode,
    TableType,
)
from halocline.formats.hudi.merge.rules import DEFAULT, OVERWRITE, STRATEGY_IDS
from halocline.formats.hudi.properties import CHECKSUM, DATABASE, FILES, FOLDER, NAME, TYPE, VERSION, checksum, encode
from halocline.formats.hudi.timestamp_paths import path_of_time
from halocline.storage.base import Store

VERSIONS: Final = (6, 8, 9)
"""The table versions that tables are made at."""

_CLASSES: Final = {
    KeyGeneratorType.SIMPLE: "SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: "ComplexKeyGenerator",
    KeyGeneratorType.NON_PARTITION: "NonpartitionedKeyGenerator",
    KeyGeneratorType.TIMESTAMP: "TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: "CustomKeyGenerator",
}
_OF_ONE: Final = (KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP)
_PAYLOADS: Final = {MergeMode.EVENT_TIME_ORDERING: DEFAULT, MergeMode.COMMIT_TIME_ORDERING: OVERWRITE}


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """A table that is to be made. One that exists can be made.

    Attributes:
        name: Its name.
        type: Copy on write or merge on read.
        version: The table version: 6, 8 or 9.
        schema: Its schema as Avro's JSON, without the meta columns.
        record_keys: The fields of the record key.
        partition_fields: The fields of the partition path.
        ordering_fields: The fields that order versions of a row; several from version 9 on.
        merge_mode: Which version of a row wins; by event time if there are ordering fields.
        hive_style: Whether partition paths say `name=value`.
        url_encoded: Whether values in partition paths are escaped.
        database: The database that it is registered in.
        key_generator: How keys and partition paths are made; by the number of fields if not given.
        meta_columns: Whether rows carry the columns that Hudi adds.
        buckets: How many buckets each partition has; None if the table has no bucket index.
        change_logging: How much change files tell; None if there are to be none.
        key_settings: What else the key generator is told, by the whole names of the properties.

    Raises:
        InputError: Tables of that version cannot be made, or cannot be like that.
    """

    name: str
    type: TableType
    version: int
    schema: str
    record_keys: Sequence[str]
    partition_fields: Sequence[str] = ()
    ordering_fields: Sequence[str] = ()
    merge_mode: MergeMode | None = None
    hive_style: bool = False
    url_encoded: bool = False
    database: str = ""
    key_generator: KeyGeneratorType | None = None
    meta_columns: bool = True
    buckets: int | None = None
    change_logging: ChangeLogging | None = None
    key_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if problem := self._problem():
            raise InputError(
                f"a table with {problem[0]} cannot be made",
                sides={"asked for": problem[0], "possible": problem[1]},
                next_step="Ask for what is possible.",
            )
        HudiTableConfig.parse(self.properties, self.name)
        if self._generator is KeyGeneratorType.TIMESTAMP:
            path_of_time(self.properties, self.name)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that it begins with."""
        layout = 2 if self.version >= keys.FIRST_OF_LAYOUT_2 else 1
        pairs = {
            NAME: self.name,
            TYPE: str(self.type),
            VERSION: str(self.version),
            keys.LAYOUT: str(layout),
            keys.CREATE_SCHEMA: self.schema,
            keys.RECORD_KEYS: ",".join(self.record_keys),
            keys.PARTITION_FIELDS: ",".join(self.partition_fields),
            keys.BASE_FORMAT: "PARQUET",
            keys.META_FIELDS: _flag(self.meta_columns),
            keys.HIVE_STYLE: _flag(self.hive_style),
            keys.URL_ENCODED: _flag(self.url_encoded),
            keys.DROP_PARTITION_COLUMNS: "false",
            keys.TIMEZONE: "UTC",
            keys.CDC: _flag(self.change_logging is not None),
            "hoodie.partition.metafile.use.base.format": "false",
            DATABASE: self.database,
        }
        if self.change_logging is not None:
            pairs[keys.CDC_MODE] = str(self.change_logging)
        if self.buckets is not None:
            pairs |= {INDEX_TYPE: "BUCKET", BUCKETS: str(self.buckets)}
        if self.ordering_fields:
            ordering = keys.ORDERING_FIELDS if self.version > 8 else keys.PRECOMBINE_FIELD
            pairs[ordering] = ",".join(self.ordering_fields)
        if self.version <= 8:
            pairs[keys.PAYLOAD_CLASS] = f"org.apache.hudi.common.model.{_PAYLOADS[self._mode]}"
        if layout == 1:
            pairs[keys.KEY_GENERATOR_CLASS] = f"org.apache.hudi.keygen.{_CLASSES[self._generator]}"
            pairs[keys.ARCHIVE_FOLDER] = "archived"
        else:
            pairs |= {
                keys.KEY_GENERATOR_TYPE: str(self._generator),
                keys.INITIAL_VERSION: str(self.version),
                keys.TIMELINE_PATH: "timeline",
                keys.HISTORY_PATH: "history",
                keys.ARCHIVE_FOLDER: "history",
                keys.MERGE_MODE: str(self._mode),
            }
            if self.version == 8:
                pairs[keys.MERGE_STRATEGY] = STRATEGY_IDS[self._mode]
        pairs |= self.key_settings
        pairs[CHECKSUM] = checksum(pairs)
        return pairs

    @property
    def _mode(self) -> MergeMode:
        usual = MergeMode.EVENT_TIME_ORDERING if self.ordering_fields else MergeMode.COMMIT_TIME_ORDERING
        return self.merge_mode or usual

    @property
    def _generator(self) -> KeyGeneratorType:
        if self.key_generator is not None:
            return self.key_generator
        if not self.partition_fields:
            return KeyGeneratorType.NON_PARTITION
        several = len(self.record_keys) > 1 or len(self.partition_fields) > 1
        return KeyGeneratorType.COMPLEX if several else KeyGeneratorType.SIMPLE

    def _problem(self) -> tuple[str, str] | None:
        """What cannot be, and what can."""
        generator, counts = self._generator, (len(self.record_keys), len(self.partition_fields))
        if self.version not in VERSIONS:
            return f"version {self.version}", f"versions {', '.join(map(str, VERSIONS))}"
        if not self.record_keys:
            return "no record key", "at least one key field"
        if len(self.ordering_fields) > 1 and self.version <= 8:
            found = f"{len(self.ordering_fields)} ordering fields"
            return found, f"one at version {self.version}, several from 9 on"
        if generator not in _CLASSES:
            return f"a key generator of type {generator}", ", ".join(_CLASSES)
        named = [each for each in self.partition_fields if ":" in each]
        if named and generator is not KeyGeneratorType.CUSTOM:
            return (
                f"a {generator} key generator and the partition field {named[0]}",
                "kinds of fields with CUSTOM alone",
            )
        if generator is KeyGeneratorType.CUSTOM and self.version < keys.FIRST_OF_LAYOUT_2:
            found = f"a custom key generator at version {self.version}"
            return found, "one from version 8 on, which stores what it does"
        if generator in _OF_ONE and counts != (1, 1):
            found = f"a {generator} key generator for {counts[0]} key and {counts[1]} partition fields"
            return found, "one of each; COMPLEX or NON_PARTITION takes others"
        if generator is KeyGeneratorType.NON_PARTITION and self.partition_fields:
            return "a NON_PARTITION key generator and partition fields", "SIMPLE or COMPLEX"
        if self._mode is MergeMode.CUSTOM:
            return "a custom merge mode", "event time or commit time"
        if self._mode is MergeMode.EVENT_TIME_ORDERING and not self.ordering_fields:
            return "event time without ordering fields", "an ordering field"
        if self.buckets is not None and self.buckets < 1:
            return f"{self.buckets} buckets", "1 or more"
        return None


def create_table(store: Store, new: NewTable) -> HudiTableConfig:
    """Makes a table, and says what it is.

    Args:
        store: Where it is to lie.
        new: The table.

    Raises:
        AlreadyExistsError: There is a table.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
        >>> new = NewTable(name="t", type=TableType.COPY_ON_WRITE, version=9, schema=schema, record_keys=["id"])
        >>> create_table(MemoryStore(), new).key_generator
        <KeyGeneratorType.NON_PARTITION: 'NON_PARTITION'>
    """
    pairs = new.properties
    try:
        store.put_if_absent(f"{FOLDER}/{FILES[0]}", encode(pairs, datetime.now(UTC), created=True))
    except AlreadyExistsError as error:
        raise AlreadyExistsError(
            f"there is a Hudi table at {store.root}",
            sides={"asked for": f"a new table {new.name}", "found": f"{FOLDER}/{FILES[0]}"},
            next_step="Write to it, or choose another place.",
        ) from error
    return HudiTableConfig.parse(pairs, store.root)


def _flag(value: bool) -> str:
    return str(value).lower()
