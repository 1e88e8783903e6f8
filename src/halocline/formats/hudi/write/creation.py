"""New tables: the properties that a table of each version begins with.

Properties that a version does not know are not written: at versions 6 and 8 the ordering field stands under the key
that releases of that time read, because they would merge wrong rows otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from halocline.errors import AlreadyExistsError, InputError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType, MergeMode, TableType
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


def create_table(
    store: Store,
    *,
    name: str,
    type: TableType,
    version: int,
    schema: str,
    record_keys: Sequence[str],
    partition_fields: Sequence[str] = (),
    ordering_fields: Sequence[str] = (),
    merge_mode: MergeMode | None = None,
    hive_style: bool = False,
    url_encoded: bool = False,
    database: str = "",
    key_generator: KeyGeneratorType | None = None,
    key_settings: Mapping[str, str] | None = None,
) -> HudiTableConfig:
    """Makes a table, and says what it is.

    Args:
        store: Where it is to lie.
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
        key_settings: What else the key generator is told, by the whole names of the properties.

    Raises:
        AlreadyExistsError: There is a table.
        InputError: Tables of that version cannot be made, or cannot be like that.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
        >>> made = create_table(
        ...     MemoryStore(), name="t", type=TableType.COPY_ON_WRITE, version=9, schema=schema, record_keys=["id"]
        ... )
        >>> made.key_generator
        <KeyGeneratorType.NON_PARTITION: 'NON_PARTITION'>
    """
    pairs = table_properties(
        store.root,
        name=name,
        type=type,
        version=version,
        schema=schema,
        record_keys=record_keys,
        partition_fields=partition_fields,
        ordering_fields=ordering_fields,
        merge_mode=merge_mode,
        hive_style=hive_style,
        url_encoded=url_encoded,
        database=database,
        key_generator=key_generator,
        key_settings=key_settings,
    )
    config = HudiTableConfig.parse(pairs, store.root)
    try:
        store.put_if_absent(f"{FOLDER}/{FILES[0]}", encode(pairs, datetime.now(UTC), created=True))
    except AlreadyExistsError as error:
        raise AlreadyExistsError(
            f"there is a Hudi table at {store.root}",
            sides={"asked for": f"a new table {name}", "found": f"{FOLDER}/{FILES[0]}"},
            next_step="Write to it, or choose another place.",
        ) from error
    return config


def table_properties(
    place: str,
    *,
    name: str,
    type: TableType,
    version: int,
    schema: str,
    record_keys: Sequence[str],
    partition_fields: Sequence[str] = (),
    ordering_fields: Sequence[str] = (),
    merge_mode: MergeMode | None = None,
    hive_style: bool = False,
    url_encoded: bool = False,
    database: str = "",
    key_generator: KeyGeneratorType | None = None,
    key_settings: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The properties that a table begins with; the arguments are those of `create_table`."""
    mode = merge_mode or (MergeMode.EVENT_TIME_ORDERING if ordering_fields else MergeMode.COMMIT_TIME_ORDERING)
    generator = key_generator or _generator(record_keys, partition_fields)
    _check(version, record_keys, partition_fields, ordering_fields, mode, generator)
    layout = 2 if version >= keys.FIRST_OF_LAYOUT_2 else 1
    pairs = {
        NAME: name,
        TYPE: str(type),
        VERSION: str(version),
        keys.LAYOUT: str(layout),
        keys.CREATE_SCHEMA: schema,
        keys.RECORD_KEYS: ",".join(record_keys),
        keys.PARTITION_FIELDS: ",".join(partition_fields),
        keys.BASE_FORMAT: "PARQUET",
        keys.META_FIELDS: "true",
        keys.HIVE_STYLE: str(hive_style).lower(),
        keys.URL_ENCODED: str(url_encoded).lower(),
        keys.DROP_PARTITION_COLUMNS: "false",
        keys.TIMEZONE: "UTC",
        keys.CDC: "false",
        "hoodie.partition.metafile.use.base.format": "false",
        DATABASE: database,
    }
    if ordering_fields:
        pairs[keys.ORDERING_FIELDS if version > 8 else keys.PRECOMBINE_FIELD] = ",".join(ordering_fields)
    if version <= 8:
        pairs[keys.PAYLOAD_CLASS] = f"org.apache.hudi.common.model.{_PAYLOADS[mode]}"
    if layout == 1:
        pairs[keys.KEY_GENERATOR_CLASS] = f"org.apache.hudi.keygen.{_CLASSES[generator]}"
        pairs[keys.ARCHIVE_FOLDER] = "archived"
    else:
        pairs |= {
            keys.KEY_GENERATOR_TYPE: str(generator),
            keys.INITIAL_VERSION: str(version),
            keys.TIMELINE_PATH: "timeline",
            keys.HISTORY_PATH: "history",
            keys.ARCHIVE_FOLDER: "history",
            keys.MERGE_MODE: str(mode),
        }
        if version == 8:
            pairs[keys.MERGE_STRATEGY] = STRATEGY_IDS[mode]
    pairs |= key_settings or {}
    HudiTableConfig.parse(pairs, place)
    if generator is KeyGeneratorType.TIMESTAMP:
        path_of_time(pairs, place)
    pairs[CHECKSUM] = checksum(pairs)
    return pairs


def _generator(record_keys: Sequence[str], partition_fields: Sequence[str]) -> KeyGeneratorType:
    if not partition_fields:
        return KeyGeneratorType.NON_PARTITION
    several = len(record_keys) > 1 or len(partition_fields) > 1
    return KeyGeneratorType.COMPLEX if several else KeyGeneratorType.SIMPLE


def _check(
    version: int,
    record_keys: Sequence[str],
    partition_fields: Sequence[str],
    ordering_fields: Sequence[str],
    mode: MergeMode,
    generator: KeyGeneratorType,
) -> None:
    problem = None
    if version not in VERSIONS:
        problem = f"version {version}", f"versions {', '.join(map(str, VERSIONS))}"
    elif not record_keys:
        problem = "no record key", "at least one key field"
    elif len(ordering_fields) > 1 and version <= 8:
        problem = f"{len(ordering_fields)} ordering fields", f"one at version {version}, several from 9 on"
    elif generator not in _CLASSES:
        problem = f"a key generator of type {generator}", ", ".join(_CLASSES)
    elif generator is KeyGeneratorType.CUSTOM and version < keys.FIRST_OF_LAYOUT_2:
        problem = f"a custom key generator at version {version}", "one from version 8 on, which stores what it does"
    elif generator in _OF_ONE and (len(record_keys), len(partition_fields)) != (1, 1):
        found = f"{len(record_keys)} key and {len(partition_fields)} partition fields"
        problem = f"a {generator} key generator for {found}", "one of each; COMPLEX or NON_PARTITION takes others"
    elif generator is KeyGeneratorType.NON_PARTITION and partition_fields:
        problem = "a NON_PARTITION key generator and partition fields", "SIMPLE or COMPLEX"
    elif mode is MergeMode.CUSTOM:
        problem = "a custom merge mode", "event time or commit time"
    elif mode is MergeMode.EVENT_TIME_ORDERING and not ordering_fields:
        problem = "event time without ordering fields", "an ordering field"
    if problem:
        raise InputError(
            f"a table with {problem[0]} cannot be made",
            sides={"asked for": problem[0], "possible": problem[1]},
            next_step="Ask for what is possible.",
        )
