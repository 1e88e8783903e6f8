"""The actions of a Delta log, both ways: JSON lines to values and values to JSON lines.

An *action* is one change to a table's state. A *commit* is the list of actions that made one version, one action per
line. Field names on disk are camelCase; here they are snake_case. Encoding leaves absent optional fields out and keeps
the order that Delta writers use, so another client cannot tell who wrote the line.

Unknown fields are ignored and unknown actions are kept as they are, as the format asks: whatever matters must be
announced by the protocol. `metaData` is the exception. It is rewritten wholly by the next writer, so its unknown
fields are kept and come back when it is encoded.

What is decoded here has the right types and number ranges. Rules that span actions and commits belong to the replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from halocline.formats.delta.actions.commit_info import CommitInfo as CommitInfo
from halocline.formats.delta.actions.metadata import FileFormat as FileFormat
from halocline.formats.delta.actions.metadata import Metadata as Metadata
from halocline.formats.log.damage import malformed as malformed

_MAX_LONG: Final = 2**63 - 1
Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=_MAX_LONG)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=_MAX_LONG)]
# In checkpoints these take 32 bits, since some readers refuse more.
ShortLong: TypeAlias = Annotated[Long, Meta(extra={"bits": 32})]
ShortCount: TypeAlias = Annotated[Count, Meta(extra={"bits": 32})]

_EVERY_DECODE_ERROR = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


# A default made by a function is always encoded; a plain default is left out. The format wants some fields on every
# line even though old writers omitted them.
_TRUE: Final = msgspec.field(default_factory=lambda: True)
_FALSE: Final = msgspec.field(default_factory=lambda: False)


class DeletionVector(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False, kw_only=True):
    """Where the deleted row positions of one file are kept."""

    storage_type: str
    path_or_inline_dv: str
    offset: ShortCount | None = None
    size_in_bytes: ShortCount
    cardinality: Count

    @property
    def unique_id(self) -> str:
        """The half of a logical file's key that tells two vectors of one path apart."""
        text = self.storage_type + self.path_or_inline_dv
        return text if self.offset is None else f"{text}@{self.offset}"


class Add(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A file becomes part of the table. `path` is still URI-encoded; `stats` is JSON text."""

    path: str
    partition_values: dict[str, str | None]
    size: Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Remove(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A file stops being part of the table; a tombstone until its retention passes."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool = _TRUE
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    stats: str | None = None


class Cdc(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A file of row-level changes for the change feed."""

    path: str
    partition_values: dict[str, str | None]
    size: Count
    data_change: bool = _FALSE
    tags: dict[str, str | None] | None = None


class Txn(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """The last version of its own that an application has written, for exactly-once writes."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A named configuration owned by a feature or a user; `removed` makes it a tombstone."""

    domain: str
    configuration: str
    removed: bool = _FALSE


class ProtocolAction(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """The protocol as serialised: two numbers and, from reader 3 and writer 7, the feature lists."""

    min_reader_version: ShortLong
    min_writer_version: ShortLong
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class CheckpointMetadata(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """Marks a V2 checkpoint."""

    version: Long
    tags: dict[str, str | None] | None = None


class Sidecar(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A file in `_sidecars` that holds file actions of a V2 checkpoint. `path` is URI-encoded."""

    path: str
    size_in_bytes: Count
    modification_time: Long
    tags: dict[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class UnknownAction:
    """An action this release does not know: its key and its JSON text."""

    name: str
    data: bytes


Action: TypeAlias = (
    Add
    | Remove
    | Cdc
    | Txn
    | DomainMetadata
    | ProtocolAction
    | Metadata
    | CommitInfo
    | CheckpointMetadata
    | Sidecar
    | UnknownAction
)


class Line(Struct, rename="camel", frozen=True, gc=False):
    """One line as it lies on disk: exactly one field is set, none for an unknown action. For replay at speed."""

    add: Add | None = None
    remove: Remove | None = None
    cdc: Cdc | None = None
    txn: Txn | None = None
    domain_metadata: DomainMetadata | None = None
    protocol: ProtocolAction | None = None
    meta_data: Raw = Raw()
    commit_info: Raw = Raw()
    checkpoint_metadata: CheckpointMetadata | None = None
    sidecar: Sidecar | None = None


_FIELDS: Final = Line.__struct_fields__
_decode_lines = msgspec.json.Decoder(Line).decode_lines
_decode_line = msgspec.json.Decoder(Line).decode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_free_form = msgspec.json.Decoder(dict[str, Any]).decode
_encoder = msgspec.json.Encoder()

KEYS: Final[Mapping[type, str]] = {
    Add: "add",
    Remove: "remove",
    Cdc: "cdc",
    Txn: "txn",
    DomainMetadata: "domainMetadata",
    ProtocolAction: "protocol",
    CheckpointMetadata: "checkpointMetadata",
    Sidecar: "sidecar",
    Metadata: "metaData",
    CommitInfo: "commitInfo",
}
"""The key of each action on its line."""
_T = TypeVar("_T")


def _all(kind: type[_T]) -> cached_property[list[_T]]:
    """An attribute of a commit: its actions of one kind."""
    return cached_property(lambda commit: commit.of(kind))


def _only(kind: type[_T]) -> cached_property[_T | None]:
    """An attribute of a commit: its one action of a kind, if it has it."""
    return cached_property(lambda commit: next(iter(commit.of(kind)), None))


@dataclass(frozen=True)
class Commit:
    """The actions of one file of the log, in their order."""

    name: str
    actions: tuple[Action, ...]

    def of(self, kind: type[_T]) -> list[_T]:
        """The actions of one kind."""
        return [action for action in self.actions if isinstance(action, kind)]

    adds = _all(Add)
    removes = _all(Remove)
    cdcs = _all(Cdc)
    txns = _all(Txn)
    domains = _all(DomainMetadata)
    protocol = _only(ProtocolAction)
    metadata = _only(Metadata)
    commit_info = _only(CommitInfo)


def repeated(values: Iterable[_T]) -> _T | None:
    """The first value that occurs more than once; None if none does."""
    return next((value for value, times in Counter(values).items() if times > 1), None)


def decode_lines(data: bytes, name: str) -> list[Line]:
    """Reads a file of JSON lines at full speed, without sorting it into actions."""
    return decoded(_decode_lines, data, name)


def decoded(decode: Callable[[bytes], list[_T]], data: bytes, name: str) -> list[_T]:
    """The lines of a file by a decoder of one's own; where it fails, the error names the line."""
    try:
        return decode(data)
    except _EVERY_DECODE_ERROR as error:
        _blame_line(data, name)
        raise malformed(name, f"cannot be read: {_brief(error)}") from error


def _blame_line(data: bytes, name: str) -> None:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                _decode_line(line)
            except _EVERY_DECODE_ERROR as error:
                raise malformed(name, f"line {number} cannot be read: {_brief(error)}") from error


def _brief(error: BaseException) -> str:
    return str(error)[:200]


def decode_commit(data: bytes, name: str) -> Commit:
    """Reads a commit, a log compaction or a JSON checkpoint into actions."""
    actions = [action_of(line, name) for line in decode_lines(data, name)]
    if all(actions):
        return Commit(name, tuple(filter(None, actions)))
    texts = (text for text in data.split(b"\n") if text.strip())
    pairs = zip(actions, texts, strict=True)
    return Commit(name, tuple(each for action, text in pairs for each in ([action] if action else _unknown_in(text))))


def action_of(line: Line, name: str) -> Action | None:
    """The one action of a line, or nothing when the action is unknown."""
    found: Action | None = None
    for field_name in _FIELDS:
        value = getattr(line, field_name)
        if value is None:
            continue
        if isinstance(value, Raw):
            if not bytes(value) or bytes(value).strip() == b"null":
                continue
            value = decode_metadata(value, name) if field_name == "meta_data" else decode_commit_info(value, name)
        if found is not None:
            raise malformed(name, "has a line with more than one action")
        found = value
    return found


def decode_metadata(data: bytes | Raw, name: str) -> Metadata:
    """Reads the object behind `metaData`, with a typed error."""
    try:
        return Metadata.from_json(data)
    except _EVERY_DECODE_ERROR as error:
        raise malformed(name, f"has a metaData action that cannot be read: {_brief(error)}") from error


def decode_commit_info(data: bytes | Raw, name: str) -> CommitInfo:
    """Reads the object behind `commitInfo`, with a typed error."""
    try:
        return CommitInfo(_decode_free_form(data))
    except _EVERY_DECODE_ERROR as error:
        raise malformed(name, f"has a commitInfo action that cannot be read: {_brief(error)}") from error


def _unknown_in(line: bytes) -> list[UnknownAction]:
    named = _decode_names(line).items()
    return [UnknownAction(key, bytes(value)) for key, value in named if bytes(value) != b"null"]


def encode_action(action: Action) -> bytes:
    """One line, without its newline, exactly as Delta writes it."""
    if isinstance(action, UnknownAction):
        return _encoder.encode({action.name: Raw(action.data)})
    return _encoder.encode({KEYS[type(action)]: content_of(action)})


def content_of(action: Action) -> Any:
    """What stands behind the key of a known action, in a form that can be encoded."""
    if isinstance(action, Metadata):
        return action.to_json()
    return dict(action.values) if isinstance(action, CommitInfo) else action


def encode_commit(actions: Iterable[Action]) -> bytes:
    """A whole commit: one action per line, each line ended."""
    return b"".join(encode_action(action) + b"\n" for action in actions)
