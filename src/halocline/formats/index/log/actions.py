"""The actions of an index table's log, both ways: JSON lines to values and values to JSON lines.

Field names on disk are camelCase; here they are snake_case. Unknown fields and actions are passed over, as the format
asks. The metadata is the exception: the next writer replaces it wholly, so its unknown fields are kept.

A skip is read under both of its names, `skip` and `mergeskip`, and written as `mergeskip`, the one that all releases
read. `commitInfo` and `appTransaction` are ours: who did what and when, and what an application has written already.
Others pass over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from halocline.compat.protocol import Protocol
from halocline.formats.log.damage import malformed

Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
COOLDOWN_MS: Final = 24 * 3_600_000
"""How long a skipped split rests when nothing else is said."""


class SplitMask(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """Which rows of a split are deleted: where the bitmap of their numbers lies, or the bitmap itself.

    Attributes:
        rows: How many rows are deleted.
        length: The bytes of the bitmap.
        crc: Its checksum.
        data: The bitmap in base 64, if it is here.
        path: The file that it lies in otherwise.
        offset: Where in the file.
    """

    rows: Count
    length: Count
    crc: Count
    data: str | None = None
    path: str | None = None
    offset: Count = 0


class SplitAdd(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A split becomes part of the table.

    Bounds are text, also of numbers, and may be cut short. Footer offsets say where the end of the file is described:
    in a bundle its file table, in our own splits the Parquet footer. A deletion mask says which rows are gone; a split
    that is added again with another mask replaces what the log said of it.

    Example:
        >>> SplitAdd("a/part-1.split.parquet", {}, 9, 0, True).is_own
        True
    """

    path: str
    partition_values: dict[str, str | None]
    size: Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    min_values: dict[str, str] | None = None
    max_values: dict[str, str] | None = None
    num_records: Count | None = None
    footer_start_offset: Count | None = None
    footer_end_offset: Count | None = None
    has_footer_offsets: bool = False
    hotcache_start_offset: Count | None = None
    hotcache_length: Count | None = None
    time_range_start: str | int | None = None
    time_range_end: str | int | None = None
    split_tags: list[str] | None = None
    delete_opstamp: Long | None = None
    num_merge_ops: Count | None = None
    doc_mapping_json: str | None = None
    doc_mapping_ref: str | None = None
    uncompressed_size_bytes: Count | None = None
    companion_source_files: list[str] | None = None
    companion_delta_version: Long | None = None
    companion_fast_field_mode: str | None = None
    deletion_mask: SplitMask | None = None

    @property
    def live_records(self) -> int | None:
        """How many rows it has that are not deleted; None if the log does not say."""
        gone = 0 if self.deletion_mask is None else self.deletion_mask.rows
        return None if self.num_records is None else self.num_records - gone

    @property
    def is_own(self) -> bool:
        """Whether it is a Parquet file with an index inside, and not a bundle."""
        return self.path.endswith(".parquet")


class SplitRemove(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A split stops being part of the table."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool = msgspec.field(default_factory=lambda: True)
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str | None] | None = None


class SplitSkip(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """An operation could not use a split, and leaves it alone for a while.

    Example:
        >>> skip = SplitSkip("a.split", 1_000, "the footer is damaged", "merge", retry_after=9_000)
        >>> skip.rests_at(8_999), skip.rests_at(9_000)
        (True, False)
    """

    path: str
    skip_timestamp: Long
    reason: str
    operation: str
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    retry_after: Long | None = None
    skip_count: Count = msgspec.field(default_factory=lambda: 1)

    def rests_at(self, now_ms: int) -> bool:
        """Whether the split is not to be tried yet."""
        until = self.skip_timestamp + COOLDOWN_MS if self.retry_after is None else self.retry_after
        return now_ms < until


class IndexTxn(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """The last version of its own that an application has written, for writes that are done once."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class _MetadataBody(Struct, rename="camel", frozen=True):
    id: str
    schema_string: str
    name: str | None = None
    description: str | None = None
    format: dict[str, Any] = {}
    partition_columns: list[str] = []
    configuration: dict[str, str] = {}
    created_time: Long | None = None


@dataclass(frozen=True)
class IndexMetadata:
    """What a table is: its columns, its partitioning, its properties.

    Attributes:
        id: The table's identity.
        schema_string: The columns, as Spark spells a schema in JSON.
        partition_columns: The columns that the splits are grouped by, and that are not in them.
        configuration: Properties.
        name: A name.
        description: A description.
        provider: Who the format is named after on disk.
        created_time: When it was made, in milliseconds since the epoch.
        extra: Fields that this release does not know.
    """

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    provider: str = "indextables"
    created_time: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_body(self) -> dict[str, Any]:
        """The body of a `metaData` action."""
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.provider, "options": {}},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
            **self.extra,
        }


@dataclass(frozen=True, slots=True)
class IndexCommitInfo:
    """Who did what, when and on top of which version; free-form."""

    values: Mapping[str, Any]

    @property
    def txn_id(self) -> str | None:
        """The writer's own identifier of the attempt."""
        found = self.values.get("txnId")
        return found if isinstance(found, str) else None

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since the epoch on the writer's clock."""
        found = self.values.get("timestamp")
        return found if isinstance(found, int) and not isinstance(found, bool) else None


IndexAction: TypeAlias = SplitAdd | SplitRemove | SplitSkip | IndexTxn | IndexMetadata | IndexCommitInfo | Protocol


class _HeaderLine(Struct, rename="camel", frozen=True, gc=False):
    protocol: Raw = Raw()
    meta_data: Raw = Raw()


class IndexLine(Struct, rename="camel", frozen=True, gc=False):
    """One line of a commit or checkpoint: at most one of these is there."""

    add: SplitAdd | None = None
    remove: SplitRemove | None = None
    mergeskip: SplitSkip | None = None
    skip: SplitSkip | None = None
    app_transaction: IndexTxn | None = None
    protocol: Raw = Raw()
    meta_data: Raw = Raw()
    commit_info: dict[str, Any] | None = None


_header_lines = msgspec.json.Decoder(_HeaderLine).decode_lines
_lines = msgspec.json.Decoder(IndexLine).decode_lines
_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


@dataclass(frozen=True)
class IndexHeader:
    """The newest protocol and metadata that were found; None where there is none."""

    protocol: Protocol | None = None
    metadata: IndexMetadata | None = None

    def over(self, older: IndexHeader) -> IndexHeader:
        """This one where it says something, the older one elsewhere."""
        return IndexHeader(self.protocol or older.protocol, self.metadata or older.metadata)


def decode_header(text: bytes, name: str) -> IndexHeader:
    """The protocol and the metadata of a file of the log, whatever else is in it.

    Raises:
        MalformedError: It is not made of lines of JSON, or holds two of either.
    """
    try:
        lines = _header_lines(text)
    except _ERRORS as error:
        raise malformed(name, f"cannot be read: {error}") from error
    return _header([each.protocol for each in lines], [each.meta_data for each in lines], name)


def decode_lines(text: bytes, name: str) -> list[IndexLine]:
    """Every line of a file of the log.

    Raises:
        MalformedError: A line cannot be read, or there is none.
    """
    try:
        lines = _lines(text)
    except _ERRORS as error:
        raise malformed(name, f"cannot be read: {error}") from error
    if not lines:
        raise malformed(name, "is empty")
    return lines


def header_in(lines: Iterable[IndexLine], name: str) -> IndexHeader:
    """The protocol and the metadata among some lines."""
    found = list(lines)
    return _header([each.protocol for each in found], [each.meta_data for each in found], name)


def _header(protocols: Iterable[Raw], metadata: Iterable[Raw], name: str) -> IndexHeader:
    bodies = [[bytes(each) for each in some if bytes(each) not in (b"", b"null")] for some in (protocols, metadata)]
    for key, found in zip(("protocol", "metaData"), bodies, strict=True):
        if len(found) > 1:
            raise malformed(name, f"holds {len(found)} {key} actions, at most 1 is allowed")
    protocol, described = (found[0] if found else None for found in bodies)
    return IndexHeader(
        None if protocol is None else Protocol.from_action(msgspec.json.decode(protocol), "index"),
        None if described is None else decode_metadata(described, name),
    )


def decode_metadata(body: bytes, name: str) -> IndexMetadata:
    """The metadata in the body of a `metaData` action.

    Raises:
        MalformedError: It lacks something, or has something of the wrong type.
    """
    try:
        content = msgspec.json.decode(body)
        known = msgspec.convert(content, _MetadataBody)
    except _ERRORS as error:
        raise malformed(name, f"has metadata that cannot be read: {error}") from error
    names = set(_MetadataBody.__struct_encode_fields__)
    return IndexMetadata(
        id=known.id,
        schema_string=known.schema_string,
        partition_columns=tuple(known.partition_columns),
        configuration=known.configuration,
        name=known.name,
        description=known.description,
        provider=str(known.format.get("provider", "indextables")),
        created_time=known.created_time,
        extra={key: value for key, value in content.items() if key not in names},
    )


def encode_actions(actions: Iterable[IndexAction]) -> bytes:
    r"""The text of a commit or checkpoint, one line for each action.

    Example:
        >>> encode_actions([Protocol.index(2, 2)])
        b'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}\n'
    """
    return b"".join(msgspec.json.encode(_spelled(each)) + b"\n" for each in actions)


def _spelled(action: IndexAction) -> dict[str, Any]:
    match action:
        case SplitAdd():
            return {"add": action}
        case SplitRemove():
            return {"remove": action}
        case SplitSkip():
            return {"mergeskip": action}
        case IndexTxn():
            return {"appTransaction": action}
        case IndexMetadata():
            return {"metaData": action.to_body()}
        case IndexCommitInfo():
            return {"commitInfo": dict(action.values)}
        case Protocol():
            return {"protocol": action.to_action()}
