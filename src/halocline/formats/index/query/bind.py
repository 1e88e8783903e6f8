"""Gives every leaf of a tree its field, its values their types, and refuses what a column cannot answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from halocline.errors import InputError, NotFoundError
from halocline.formats.index.query.bound import (
    PARTITION,
    Among,
    Between,
    Both,
    BoundQuery,
    Either,
    EveryRow,
    HasValue,
    InRow,
    Like,
    Near,
    Value,
    Without,
)
from halocline.formats.index.query.expressions import expression
from halocline.formats.index.query.json_numbers import NUMBERS, json_number, nearest_single, types_inside
from halocline.formats.index.query.literals import boolean_in_json, literal, network
from halocline.formats.index.query.tree import (
    AllOf,
    Everything,
    Fuzzy,
    Leaf,
    NoneOf,
    OneOf,
    Pattern,
    Present,
    RangeOf,
    SomeOf,
    Tree,
    Word,
)
from halocline.formats.index.split.analyzers import LONGEST_WORD, lowered, words
from halocline.formats.index.split.fields import LONGEST_STRING, FieldKind, IndexField, fields_of
from halocline.schema.types import Array, DataType, Struct

_MOST_STEPS: Final = 6


@dataclass(frozen=True)
class SearchedColumns:
    """The columns that a query may name, and those that it searches when it names none.

    Attributes:
        fields: Fields by column; partition columns among them.
        unnamed: The columns for words without one.
        types: The types of the columns that are searched inside.
    """

    fields: Mapping[str, IndexField]
    unnamed: tuple[str, ...]
    types: Mapping[str, DataType]

    @staticmethod
    def of(
        schema: Struct,
        configuration: Mapping[str, str] | None = None,
        partition_columns: Iterable[str] = (),
        unnamed: Sequence[str] | None = None,
    ) -> SearchedColumns:
        """The columns of a table.

        Args:
            schema: Its columns.
            configuration: Its properties.
            partition_columns: Those that its splits are grouped by.
            unnamed: The columns for words without one; all if not given.

        Raises:
            NotFoundError: A column does not exist.
        """
        partitions = set(partition_columns)
        inside = {each.column: each for each in fields_of(schema, configuration, partitions)}
        of_partitions = Struct([field for field in schema.fields if field.name in partitions])
        around = {each.column: replace_number(each) for each in fields_of(of_partitions)}
        known = {field.name: (inside | around)[field.name] for field in schema.fields}
        types = {field.name: field.type for field in schema.fields}
        columns = SearchedColumns(known, tuple(known), types)
        return columns if unnamed is None else columns.when_unnamed(unnamed)

    def when_unnamed(self, columns: Sequence[str]) -> SearchedColumns:
        """The same, with other columns for words without one.

        Raises:
            NotFoundError: A column does not exist.
        """
        return replace(self, unnamed=tuple(map(self.named, columns)))

    def named(self, name: str) -> str:
        """The column of a name, whatever its case.

        Raises:
            NotFoundError: There is none.
        """
        folded = {each.lower(): each for each in self.fields}
        found = name if name in self.fields else folded.get(name.lower())
        if found is None:
            raise _unknown(name, self.fields)
        return found


def replace_number(field: IndexField) -> IndexField:
    """The field of a partition column."""
    return IndexField(field.column, PARTITION, field.kind, scale=field.scale, zoned=field.zoned)


def bind(tree: Tree, columns: SearchedColumns) -> BoundQuery:
    """The tree with fields and typed values.

    Raises:
        NotFoundError: There is no such column.
        InputError: A column cannot answer what is asked of it.
    """
    match tree:
        case AllOf(parts):
            return Both(tuple(bind(each, columns) for each in parts))
        case SomeOf(parts):
            return Either(tuple(bind(each, columns) for each in parts))
        case NoneOf(part):
            return Without(bind(part, columns))
        case Everything():
            return EveryRow()
        case leaf if leaf.column is not None:
            field, path = _found(leaf.column, columns)
            return _leaf(leaf, field, path, types_inside(columns.types[field.column], path))
    return _anywhere(tree, columns)


def _anywhere(leaf: Word | Pattern | Fuzzy | RangeOf | OneOf, columns: SearchedColumns) -> BoundQuery:
    """The leaf in every column that can have such a value."""
    found: list[BoundQuery] = []
    refusal: InputError | None = None
    for name in columns.unnamed:
        field = columns.fields[name]
        if field.kind in (FieldKind.JSON, FieldKind.STORED):
            continue
        try:
            found.append(_leaf(leaf, field, (), types_inside(columns.types[name], ())))
        except InputError as error:
            # Numbers are looked for where they can be. A column that may well have it, but cannot be asked, is not
            # passed over: rows would be missing.
            refusal = refusal or error
            if field.hashed or (field.kind is FieldKind.TEXT and not _has_no_words(leaf, field)):
                hint = "Say in which column to look, as in message:timeout, for none was named and all are asked."
                raise InputError(error.message, condition=error.condition, sides=error.sides, next_step=hint) from error
    if not found:
        raise refusal or _refusal("no column can be searched for it", "none", str(leaf))
    return found[0] if len(found) == 1 else Either(tuple(found))


def _has_no_words(leaf: Leaf, field: IndexField) -> bool:
    return isinstance(leaf, Word) and not _too_long(leaf.text) and not words(field.analyzer, leaf.text)


def _found(name: str, columns: SearchedColumns) -> tuple[IndexField, tuple[str, ...]]:
    """The field of a name, and the steps into it where it is a struct or a map."""
    steps = name.split(".")
    for length in range(len(steps), 0, -1):
        try:
            column = columns.named(".".join(steps[:length]))
        except NotFoundError:
            continue
        if length == len(steps):
            return columns.fields[column], ()
        if columns.fields[column].kind is FieldKind.JSON:
            return columns.fields[column], _inside(columns.types[column], tuple(steps[length:]), name)
    raise _unknown(name, columns.fields)


def _inside(type: DataType, steps: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The steps as the type spells them; the keys of a map may be any."""
    if len(steps) > _MOST_STEPS:
        _refuse(f"{name} goes too deep", f"{len(steps)} steps", f"{_MOST_STEPS} steps")
    while isinstance(type, Array):
        type = type.element
    if not isinstance(type, Struct) or not steps:
        return steps
    known = {field.name.lower(): field for field in type.fields}
    found = known.get(steps[0].lower())
    if found is None:
        raise _unknown(name, [f"{name.removesuffix('.'.join(steps))}{field.name}" for field in type.fields])
    return found.name, *_inside(found.type, steps[1:], name)


def _leaf(leaf: Leaf, field: IndexField, path: tuple[str, ...], types: set[str]) -> BoundQuery:
    if field.kind is FieldKind.STORED:
        _refuse(f"column {field.column!r} is not in the index", "in the rows only", "columns that are indexed")
    if field.kind is FieldKind.JSON and not path:
        _refuse(f"column {field.column!r} is searched inside", "a struct or a map", f"{field.column}.name:value")
    if field.kind is FieldKind.TEXT or field.kind is FieldKind.JSON:
        return _in_text(leaf, field, path, types)
    if field.kind is FieldKind.STRING:
        return _in_strings(leaf, field)
    # A partition value is a text in the log, and means the number that it says.
    return _in_numbers(leaf, field, single="float" in types and field.number != PARTITION)


# ------------------------------------------------------------------ text


def _in_text(leaf: Leaf, field: IndexField, path: tuple[str, ...], types: set[str]) -> BoundQuery:
    match leaf:
        case Word():
            return _word_or_number(leaf, field, path, types)
        case OneOf(values):
            return Either(tuple(_word_or_number(Word(each, quoted=True), field, path, types) for each in values))
        case Fuzzy(text, distance):
            return Near(field, _single_word(text, field), distance, path)
        case Pattern(pieces) if not path:
            _single_word("".join(text for text, wild in pieces if not wild) or "a", field)
            return Like(field, expression(pieces, lower=field.analyzer != "whitespace"))
        case Present() if not path:
            return HasValue(field)
        case RangeOf():
            _refuse(f"text in column {field.column!r} has no order", "a range", "words, phrases and patterns")
    _refuse(f"inside column {field.column!r} there are no patterns", "a pattern", "words, phrases and numbers")


def _word_or_number(leaf: Word, field: IndexField, path: tuple[str, ...], types: set[str]) -> BoundQuery:
    """What a text means as words, and inside JSON as a number of each type that may stand there."""
    number = None if leaf.goes_on else json_number(field, path, types, leaf.text)
    if number is None:
        return _row_of_words(leaf, field, path)
    is_text = not types <= NUMBERS and bool(words(field.analyzer, leaf.text))
    return Either((_row_of_words(leaf, field, path), number)) if is_text else number


def _row_of_words(leaf: Word, field: IndexField, path: tuple[str, ...]) -> InRow:
    if _too_long(leaf.text):
        _refuse(f"words of more than {LONGEST_WORD} bytes are not in the index", leaf.text[:40], "shorter words")
    found = tuple(words(field.analyzer, leaf.text))
    typed = boolean_in_json(leaf.text) if path and not leaf.goes_on else ()
    if not found and not typed:
        _refuse(f"{leaf.text!r} has no word in it for column {field.column!r}", leaf.text, "letters or digits")
    several = len(found) > 1 or (leaf.goes_on and bool(found))
    if several and not field.positions:
        _refuse(f"column {field.column!r} does not know the order of words", leaf.text, "the option positions")
    if leaf.goes_on and path:
        _refuse(f"inside column {field.column!r} there are no patterns", leaf.text, "whole words and phrases")
    if leaf.slop and path:
        _refuse(f"inside column {field.column!r} no words stand in between", leaf.text, "a phrase without ~")
    if leaf.goes_on and len(found) < 2:
        _refuse("a phrase that goes on has two words or more", leaf.text, "a pattern: word*")
    return InRow(field, found, leaf.slop if len(found) > 1 else 0, leaf.goes_on, path, typed)


def _single_word(text: str, field: IndexField) -> str:
    """The one word that a text is, as the analyzer makes it."""
    if field.analyzer == "en_stem":
        _refuse(f"words of column {field.column!r} are stemmed", text, "whole words, or another tokenizer")
    found = [] if _too_long(text) else words(field.analyzer, text)
    word = text if field.analyzer == "whitespace" else lowered(text)
    if found != [word]:
        _refuse(f"{text!r} is not one word of column {field.column!r}", text, "a single word, without signs")
    return word


def _too_long(text: str) -> bool:
    return len(text.encode()) > LONGEST_WORD and any(
        len(each.encode()) > LONGEST_WORD for each in re.findall(r"\S+", text)
    )


# ------------------------------------------------------------------ strings


def _in_strings(leaf: Leaf, field: IndexField) -> BoundQuery:
    match leaf:
        case Word(text=text, slop=0, goes_on=False):
            return Among(field, (_short(text),))
        case OneOf(values):
            return Among(field, tuple(map(_short, values)))
        case Present():
            return HasValue(field)
        case RangeOf():
            return Between(field, leaf.low, leaf.high, leaf.includes_low, leaf.includes_high)
        case Word():
            _refuse(f"strings of column {field.column!r} are not cut into words", leaf.text, "the whole string")
    if field.hashed:
        _refuse(f"column {field.column!r} is hashed", "part of a string", "whole strings")
    match leaf:
        case Pattern(pieces):
            return Like(field, expression(pieces, lower=False))
        case Fuzzy(text, distance):
            return Near(field, _short(text), distance)
    raise _refusal(f"column {field.column!r} cannot answer this", str(leaf), "strings, patterns and ranges")


def _short(text: str) -> str:
    if len(text.encode()) > LONGEST_STRING:
        _refuse(f"strings of more than {LONGEST_STRING} bytes are not looked for", f"{len(text)} characters", "shorter")
    return text


# ------------------------------------------------------------------ numbers, dates, addresses


def _in_numbers(leaf: Leaf, field: IndexField, *, single: bool = False) -> BoundQuery:
    match leaf:
        case Word(text=text, slop=0, goes_on=False):
            return _equal(field, (text,), single=single)
        case OneOf(values):
            return _equal(field, values, single=single)
        case Present():
            return HasValue(field)
        case RangeOf():
            return _between(field, leaf)
    _refuse(f"column {field.column!r} holds no text", type(leaf).__name__.lower(), f"values and ranges of {field.kind}")


def _equal(field: IndexField, texts: Iterable[str], *, single: bool = False) -> BoundQuery:
    values: list[Value] = []
    networks: list[BoundQuery] = []
    for text in texts:
        if field.kind is FieldKind.IP and (both := network(text)) is not None:
            networks.append(Between(field, *both))
        else:
            value = literal(field, text)
            values.append(nearest_single(value) if single and isinstance(value, float) else value)
    found: list[BoundQuery] = [Among(field, tuple(values))] if values else []
    return (found + networks)[0] if len(found + networks) == 1 else Either((*found, *networks))


def _between(field: IndexField, leaf: RangeOf) -> BoundQuery:
    """A range; of a bound that lies between two values of the column, the nearer one inside counts, and is included."""
    bound = Between(field, includes_low=leaf.includes_low, includes_high=leaf.includes_high)
    if leaf.low is not None:
        low = literal(field, leaf.low, rounding=1)
        exact = low == literal(field, leaf.low, rounding=-1)
        bound = replace(bound, low=low, includes_low=leaf.includes_low or not exact)
    if leaf.high is not None:
        high = literal(field, leaf.high, rounding=-1)
        exact = high == literal(field, leaf.high, rounding=1)
        bound = replace(bound, high=high, includes_high=leaf.includes_high or not exact)
    return bound


# ------------------------------------------------------------------ refusing


def _refuse(message: str, given: str, expected: str) -> NoReturn:
    raise _refusal(message, given, expected)


def _refusal(message: str, given: str, expected: str) -> InputError:
    return InputError(
        message,
        condition="QUERY_INVALID",
        sides={"asked for": given[:120], "possible": expected},
        next_step="Change the query, or the index options of the column.",
    )


def _unknown(name: str, known: Iterable[str]) -> NotFoundError:
    message, step = f"there is no column {name!r} to search in", 'If it is no column, put quotes around it: "a:b".'
    return NotFoundError.unknown(message, name, known, condition="COLUMN_NOT_FOUND", next_step=step)
