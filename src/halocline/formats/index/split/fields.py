"""Fields: what an index has of each column.

The kind of a field follows from the column's type, and for strings from the table's options, a JSON object by column
under one property:

    {"message": {"type": "text", "tokenizer": "en_stem"}, "client": {"type": "ip"}, "trace_id": {"hashed": true}}

`type` is `string` (the default), `text` or `ip`; `tokenizer` one of the analyzers; `positions` whether phrases can be
searched for; `fast` whether a string can be counted and grouped by; `hashed` whether 64 bits stand for a string;
`indexed` whether a column is in the index at all. Options that do not exist, or not for such a column, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from halocline.errors import InputError, nearest
from halocline.formats.index.split.analyzers import ANALYZERS, DEFAULT_ANALYZER
from halocline.formats.index.split.library import library
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct, decimal_of

if TYPE_CHECKING:
    import tantivy

OPTIONS_KEY: Final = "halocline.index.fields"
"""The property of a table that holds the options of its columns."""

ROW: Final = "_row"
"""The field of the row number."""

LONGEST_STRING: Final = 65_530
"""The library drops terms that are longer, in bytes."""

MOST_DIGITS: Final = 18


class FieldKind(StrEnum):
    """How values of a column become terms."""

    STRING = "string"
    TEXT = "text"
    IP = "ip"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    JSON = "json"
    STORED = "stored"

    @property
    def is_words(self) -> bool:
        """Whether terms are text."""
        return self in (FieldKind.STRING, FieldKind.TEXT)

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers in the index."""
        return self in _WHOLE


_WHOLE: Final = frozenset(
    (FieldKind.INTEGER, FieldKind.BOOLEAN, FieldKind.DATE, FieldKind.TIMESTAMP, FieldKind.DECIMAL)
)


class IndexField(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What an index has of one column.

    Attributes:
        column: The column.
        number: Its place among the columns; fields are named after it, so that columns may have any name.
        kind: How values become terms.
        analyzer: What cuts text into words.
        positions: Whether the places of words are kept.
        fast: Whether strings are also a column of the index.
        hashed: Whether 64 bits stand for a string.
        scale: The digits of a decimal after its point.
        repeated: Whether a row may have several values.
        zoned: Whether a timestamp is a moment, and not a reading of a clock.
    """

    column: str
    number: int
    kind: FieldKind
    analyzer: str = ""
    positions: bool = False
    fast: bool = False
    hashed: bool = False
    scale: int = 0
    repeated: bool = False
    zoned: bool = False

    @property
    def name(self) -> str:
        """Its name in the index."""
        return f"f{self.number}"


class FieldOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a table says about one column's field; None where it says nothing."""

    type: str | None = None
    tokenizer: str | None = None
    positions: bool | None = None
    fast: bool | None = None
    hashed: bool | None = None
    indexed: bool = True


def fields_of(
    schema: Struct, configuration: Mapping[str, str] | None = None, partition_columns: Iterable[str] = ()
) -> tuple[IndexField, ...]:
    """The fields of a table's splits.

    Args:
        schema: The columns of the table.
        configuration: Its properties, the options of its columns among them.
        partition_columns: Columns that are not in splits.

    Raises:
        InputError: An option does not exist, or cannot be had for such a column.

    Example:
        >>> from halocline.schema import Field, Primitive
        >>> (found,) = fields_of(
        ...     Struct([Field("message", Primitive("string"))]), {OPTIONS_KEY: '{"message": {"type": "text"}}'}
        ... )
        >>> found.kind, found.analyzer, found.positions
        (<FieldKind.TEXT: 'text'>, 'text', True)
    """
    left_out = set(partition_columns)
    columns = {field.name: field for field in schema.fields if field.name not in left_out}
    options = _options((configuration or {}).get(OPTIONS_KEY, "{}"), columns)
    return tuple(
        _field(field, number, options.get(field.name, FieldOptions())) for number, field in enumerate(columns.values())
    )


def tantivy_schema(fields: Iterable[IndexField]) -> tantivy.Schema:
    """The library's schema of the row number and of some fields; more fields make a schema that begins the same."""
    builder = library().SchemaBuilder()
    builder.add_unsigned_field(ROW, fast=True)
    for field in fields:
        match field.kind:
            case FieldKind.STRING if field.hashed:
                builder.add_unsigned_field(field.name, indexed=True)
            case FieldKind.STRING:
                builder.add_text_field(field.name, fast=field.fast, tokenizer_name="raw", index_option="basic")
            case FieldKind.TEXT:
                record = "position" if field.positions else "freq"
                builder.add_text_field(field.name, tokenizer_name=field.analyzer, index_option=record)
            case FieldKind.IP:
                builder.add_ip_addr_field(field.name, indexed=True, fast=True)
            case FieldKind.FLOAT:
                builder.add_float_field(field.name, fast=True)
            case FieldKind.JSON:
                builder.add_json_field(field.name, tokenizer_name=field.analyzer, index_option="position")
            case kind if kind.is_whole:
                builder.add_integer_field(field.name, fast=True)
    return builder.build()  # type: ignore[no-any-return]


def _options(text: str, columns: Mapping[str, Field]) -> dict[str, FieldOptions]:
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        options = {name: msgspec.convert(each, FieldOptions) for name, each in content.items()}
    except (ValueError, RecursionError) as error:
        known = ", ".join(FieldOptions.__struct_fields__)
        raise _refused(f"{OPTIONS_KEY} cannot be read: {error}", text, f"an object by column of {known}") from error
    for name in options:
        if name not in columns:
            near = nearest(name, columns)
            raise _refused(f"{OPTIONS_KEY} names {name!r}", name, f"a column, the nearest is {near or 'none'}")
    return options


def _field(field: Field, number: int, options: FieldOptions) -> IndexField:
    type, repeated = field.type, False
    if isinstance(type, Array) and isinstance(type.element, Primitive):
        type, repeated = type.element, True
    kind = _kind(field.name, type, options)
    made = IndexField(field.name, number, kind, repeated=repeated)
    allowed: dict[str, bool] = {
        "type": _is_string(type),
        "tokenizer": kind in (FieldKind.TEXT, FieldKind.JSON),
        "positions": kind is FieldKind.TEXT,
        "fast": kind is FieldKind.STRING,
        "hashed": kind is FieldKind.STRING,
    }
    for name, may in allowed.items():
        if getattr(options, name) is not None and not may:
            raise _refused(
                f"column {field.name!r} cannot have the option {name}", f"{type} as {kind}", "no such option"
            )
    match kind:
        case FieldKind.TEXT | FieldKind.JSON:
            analyzer = options.tokenizer or DEFAULT_ANALYZER
            if analyzer not in ANALYZERS:
                raise _refused(f"there is no tokenizer {analyzer!r}", analyzer, ", ".join(ANALYZERS))
            positions = options.positions is not False
            return msgspec.structs.replace(made, analyzer=analyzer, positions=positions)
        case FieldKind.STRING:
            hashed = options.hashed is True
            if hashed and options.fast:
                raise _refused(f"column {field.name!r} cannot be both hashed and fast", "both", "one of them")
            return msgspec.structs.replace(made, hashed=hashed, fast=not hashed and options.fast is not False)
        case FieldKind.DECIMAL:
            digits = decimal_of(type) if isinstance(type, Primitive) else None
            return msgspec.structs.replace(made, scale=0 if digits is None else digits[1])
        case FieldKind.TIMESTAMP:
            return msgspec.structs.replace(made, zoned=isinstance(type, Primitive) and type.name == "timestamp")
    return made


_KINDS: Final[Mapping[str, FieldKind]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), FieldKind.INTEGER),
    **dict.fromkeys(("float", "double"), FieldKind.FLOAT),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), FieldKind.TIMESTAMP),
    "boolean": FieldKind.BOOLEAN,
    "date": FieldKind.DATE,
}


def _kind(column: str, type: DataType, options: FieldOptions) -> FieldKind:
    if not options.indexed:
        return FieldKind.STORED
    if not isinstance(type, Primitive):
        element = type.element if isinstance(type, Array) else type
        return FieldKind.JSON if isinstance(element, Struct | Map) else FieldKind.STORED
    if _is_string(type):
        asked = options.type or "string"
        if asked not in ("string", "text", "ip"):
            raise _refused(f"column {column!r} cannot be of type {asked!r} in the index", asked, "string, text or ip")
        return FieldKind(asked)
    if (digits := decimal_of(type)) is not None:
        return FieldKind.DECIMAL if digits[0] <= MOST_DIGITS else FieldKind.STORED
    return _KINDS.get(type.name, FieldKind.STORED)


def _is_string(type: DataType) -> bool:
    return isinstance(type, Primitive) and type.name in ("string", "varchar", "char")


def _refused(message: str, given: Any, expected: str) -> InputError:
    return InputError(
        message,
        condition="PROPERTY_INVALID",
        sides={"given": str(given)[:200], "expected": expected},
        next_step=f"Change the property {OPTIONS_KEY}.",
    )
