"""Types and fields, as immutable values.

They compare by what they mean: two spellings of one type are equal, and so are fields whose JSON had its keys in
another order. Spelling and order are remembered all the same, so that what another writer wrote comes out as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, TypeAlias, cast

from halocline.errors import InputError
from halocline.schema.frozen import DEEPEST, EMPTY, frozen, too_deep

Path: TypeAlias = tuple[str, ...]
"""The steps from the top of a schema to a field."""

_CALL: Final = re.compile(r"(?P<name>\w+)\s*\((?P<parameters>.*)\)", re.DOTALL)
_WHOLE: Final = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Primitive:
    """A type without types inside it, known or not.

    Args:
        text: The type as it is written, with its parameters: `long`, `decimal(10,2)`, `varchar(20)`.

    Attributes:
        name: The name alone.
        parameters: Its parameters, numbers where they are whole ones.
    """

    text: str
    name: str = field(init=False)
    parameters: tuple[int | str, ...] = field(init=False)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Primitive):
            return self.name == other.name and self.parameters == other.parameters
        return _unequal(other)

    def __hash__(self) -> int:
        return hash((self.name, self.parameters))

    def __post_init__(self) -> None:
        name, parameters = _parts(self.text)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parameters", parameters)

    @property
    def depth(self) -> int:
        """How many types stand inside each other here: one."""
        return 1

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Primitive({self.text!r})"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type that is neither a name nor a struct, an array or a map: kept as it is, and reported by who meets it.

    Attributes:
        content: The object that stands for it.
    """

    content: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", frozen(self.content))

    @property
    def name(self) -> str:
        """What it calls itself."""
        return str(self.content.get("type", "unknown"))

    @property
    def depth(self) -> int:
        """How many types stand inside each other here: one."""
        return 1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class _Composite:
    """What holds types. Depth and hash are known from the start, so neither they nor equality recurse."""

    depth: int = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    _frozen_parts: ClassVar[tuple[str, ...]] = ("extra",)
    _own: ClassVar[Callable[[Any], tuple[object, ...]]]
    """What it says by itself."""
    _inside: ClassVar[Callable[[Any], Sequence[Field | DataType]]]
    """What it holds."""

    def __post_init__(self) -> None:
        for name in self._frozen_parts:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        inside = self._inside()
        depth = max((each.depth for each in inside), default=0) + (not isinstance(self, Field))
        if depth > DEEPEST:
            raise too_deep()
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((type(self).__name__, self._own(), tuple(map(hash, inside)))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Composite):
            return _unequal(other)
        pending: list[tuple[Any, Any]] = [(self, other)]
        while pending:
            one, another = pending.pop()
            if one is another:
                continue
            if type(one) is not type(another) or hash(one) != hash(another):
                return False
            if isinstance(one, _Composite):
                if one._own() != another._own():
                    return False
                pending += zip(one._inside(), another._inside(), strict=True)
            elif one != another:
                return False
        return True

    def __str__(self) -> str:
        return _printed(cast("DataType | Field", self))

    def __reduce__(self) -> tuple[object, ...]:
        # Made anew in the other process, where texts have other hashes.
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)


@dataclass(frozen=True, slots=True, eq=False)
class Array(_Composite):
    """A list of values of one type.

    Attributes:
        element: The type of its elements.
        contains_null: Whether an element may be null.
        extra: What else its JSON said.
        order: In which order its JSON said it.
    """

    element: DataType
    contains_null: bool = True
    extra: Mapping[str, Any] = EMPTY
    order: tuple[str, ...] = field(default=("type", "elementType", "containsNull"), repr=False)

    name: ClassVar[str] = "array"

    def _own(self) -> tuple[object, ...]:
        return self.contains_null, self.extra

    def _inside(self) -> Sequence[DataType]:
        return (self.element,)


@dataclass(frozen=True, slots=True, eq=False)
class Map(_Composite):
    """Keys of one type, each with a value of another.

    Attributes:
        key: The type of its keys, which are never null.
        value: The type of its values.
        value_contains_null: Whether a value may be null.
        extra: What else its JSON said.
        order: In which order its JSON said it.
    """

    key: DataType
    value: DataType
    value_contains_null: bool = True
    extra: Mapping[str, Any] = EMPTY
    order: tuple[str, ...] = field(default=("type", "keyType", "valueType", "valueContainsNull"), repr=False)

    name: ClassVar[str] = "map"

    def _own(self) -> tuple[object, ...]:
        return self.value_contains_null, self.extra

    def _inside(self) -> Sequence[DataType]:
        return self.key, self.value


@dataclass(frozen=True, slots=True, eq=False)
class Field(_Composite):
    """One column of a struct.

    Attributes:
        name: Its name.
        type: Its type.
        nullable: Whether it may be null.
        metadata: Notes attached to it.
        extra: What else its JSON said.
        order: In which order its JSON said it.
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = EMPTY
    extra: Mapping[str, Any] = EMPTY
    order: tuple[str, ...] = field(default=("name", "type", "nullable", "metadata"), repr=False)

    _frozen_parts: ClassVar[tuple[str, ...]] = ("metadata", "extra")

    @property
    def struct(self) -> Struct | None:
        """Its type, if that has fields of its own."""
        return self.type if isinstance(self.type, Struct) else None

    def annotated(self, key: str, value: Any) -> Field:
        """The field with one entry of its metadata set, or taken out if the value is None."""
        if value is None:
            return self.without([key])
        return replace(self, metadata={**self.metadata, key: value})

    def without(self, keys: Iterable[str]) -> Field:
        """The field without some entries of its metadata; itself if it has none of them."""
        if not self.metadata or not (gone := self.metadata.keys() & set(keys)):
            return self
        return replace(self, metadata={key: value for key, value in self.metadata.items() if key not in gone})

    def _own(self) -> tuple[object, ...]:
        return self.name, self.nullable, self.metadata, self.extra

    def _inside(self) -> Sequence[DataType]:
        return (self.type,)


@dataclass(frozen=True, eq=False)
class Struct(_Composite):
    """Named fields. The schema of a table is one.

    Attributes:
        fields: The fields, in order.
        extra: What else its JSON said.
        order: In which order its JSON said it.
    """

    fields: Sequence[Field] = ()
    extra: Mapping[str, Any] = EMPTY
    order: tuple[str, ...] = field(default=("type", "fields"), repr=False)

    name: ClassVar[str] = "struct"
    _frozen_parts: ClassVar[tuple[str, ...]] = ("fields", "extra")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its fields, in order."""
        return tuple(each.name for each in self.fields)

    def get(self, name: str) -> Field | None:
        """The field of that name, whatever the case of its letters."""
        return self._by_name.get(name.lower())

    def find(self, path: Sequence[str]) -> tuple[Path, Field]:
        """The field at a path, and the path as the schema spells it."""
        found: Field | None = None
        type: DataType | None = self
        spelt: list[str] = []
        for step in path:
            inner = {} if type is None else dict(parts(type))
            found = type.get(step) if isinstance(type, Struct) else None
            type = inner.get(step.lower()) if found is None else found.type
            spelt.append(step.lower() if found is None else found.name)
        if found is None:
            raise self.lacks(path)
        return tuple(spelt), found

    def lacks(self, path: Sequence[str]) -> InputError:
        """The error for a column that is not there; it names those there are."""
        name = ".".join(path)
        return InputError.unknown(f"there is no column {name!r}", name, self.names, condition="COLUMN_NOT_FOUND")

    def with_fields(self, fields: Iterable[Field]) -> Struct:
        """The struct with other fields."""
        return replace(self, fields=tuple(fields))

    @cached_property
    def column_types(self) -> frozenset[str]:
        """The names of all types at every depth that hold no other types: `decimal(10,2)` gives `decimal`."""
        return frozenset(each.name for each in _everything(self) if isinstance(each, Primitive | Opaque))

    @cached_property
    def annotations(self) -> frozenset[str]:
        """The keys of the metadata of all fields at every depth."""
        return frozenset(key for each in _everything(self) if isinstance(each, Field) for key in each.metadata)

    def annotated(self, key: str) -> tuple[object, ...]:
        """What the fields at every depth carry under a key of their metadata."""
        fields = (each for each in _everything(self) if isinstance(each, Field))
        return tuple(each.metadata[key] for each in fields if key in each.metadata)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {each.name.lower(): each for each in reversed(self.fields)}

    def _own(self) -> tuple[object, ...]:
        return len(self.fields), self.extra

    def _inside(self) -> Sequence[Field]:
        return self.fields


DataType: TypeAlias = Primitive | Struct | Array | Map | Opaque


def decimal_of(type: DataType) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for any other type."""
    match type:
        case Primitive(name="decimal", parameters=(int(precision), int(scale))):
            return precision, scale
    return None


def is_void(type: DataType) -> bool:
    """Whether null is the only value of a type, so that no file holds it."""
    return isinstance(type, Primitive) and type.name in ("void", "null")


def parts(type: DataType) -> tuple[tuple[str, DataType], ...]:
    """The types directly inside an array or a map, with the step that leads there; none for any other type."""
    match type:
        case Array():
            return (("element", type.element),)
        case Map():
            return ("key", type.key), ("value", type.value)
    return ()


def _unequal(other: object) -> bool:
    if isinstance(other, str):
        # Never equal, and always a mistake that would pass unnoticed.
        raise TypeError(f"a type is not compared with the text {other!r}: compare its name")
    return False


def _everything(node: Field | DataType) -> Iterator[Field | DataType]:
    pending = [node]
    while pending:
        yield (each := pending.pop())
        if isinstance(each, _Composite):
            pending += each._inside()


def _printed(node: DataType | Field) -> str:
    match node:
        case Field():
            return f"{node.name}: {_printed(node.type)}{_not_null(node.nullable)}"
        case Struct():
            return f"struct<{', '.join(map(_printed, node.fields))}>"
        case Array():
            return f"array<{_printed(node.element)}{_not_null(node.contains_null)}>"
        case Map():
            return f"map<{_printed(node.key)}, {_printed(node.value)}{_not_null(node.value_contains_null)}>"
    return str(node)


def _not_null(nullable: bool) -> str:
    return "" if nullable else " not null"


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[str, tuple[int | str, ...]]:
    if text == "decimal":
        return "decimal", (10, 0)
    call = _CALL.fullmatch(text)
    if call is None:
        return text, ()
    each = (parameter.strip() for parameter in call["parameters"].split(","))
    return call["name"], tuple(int(part) if _WHOLE.fullmatch(part) else part for part in each)
