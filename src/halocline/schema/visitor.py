"""Going through a schema, and building changed ones.

`walk` and `types` give every field and every type with its path, outer ones first. `map_fields` and `map_types` build
a new schema, inner parts first; what nothing changes stays the same object. A `Visitor` computes one result out of a
type with something handed down on the way, such as the SQL that leads to a value; `paired` sends two types down
together.

Example:
    >>> from halocline.schema.types import Array, Field, Primitive, Struct
    >>> schema = Struct([Field("a", Array(Struct([Field("b", Primitive("long"))])))])
    >>> [".".join(path) for path, _ in walk(schema)]
    ['a', 'a.element.b']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar, assert_never, cast

from halocline.schema.types import Array, DataType, Field, Map, Opaque, Path, Primitive, Struct, parts

C = TypeVar("C")
R = TypeVar("R")


def walk(type: DataType) -> Iterator[tuple[Path, Field]]:
    """Every field below a type with its path, outer ones first."""
    pending: list[tuple[Path, DataType, Field | None]] = [((), type, None)]
    while pending:
        here, inner, field = pending.pop()
        if field is not None:
            yield here, field
        if isinstance(inner, Struct):
            pending += [((*here, each.name), each.type, each) for each in reversed(inner.fields)]
        else:
            pending += [((*here, step), part, None) for step, part in reversed(parts(inner))]


def types(type: DataType) -> Iterator[tuple[Path, DataType]]:
    """A type and every type inside it with its path, outer ones first."""
    pending: list[tuple[Path, DataType]] = [((), type)]
    while pending:
        here, inner = pending.pop()
        yield here, inner
        below = ((each.name, each.type) for each in inner.fields) if isinstance(inner, Struct) else parts(inner)
        pending += reversed([((*here, step), part) for step, part in below])


def map_fields(schema: Struct, change: Callable[[Path, Field], Field | None]) -> Struct:
    """The schema with every field replaced by what `change` makes of it; None drops the field.

    Inner fields are changed first, so `change` sees the new inner types. The path holds the old names.
    """
    return cast(Struct, _mapped_fields(schema, change, ()))


def map_types(type: DataType, change: Callable[[Path, DataType], DataType], path: Path = ()) -> DataType:
    """The type with every type at every depth replaced by what `change` makes of it, inner ones first."""
    if isinstance(type, Struct):
        fields = [with_type(each, map_types(each.type, change, (*path, each.name))) for each in type.fields]
        return change(path, _with_fields(type, fields))
    return change(path, with_parts(type, *(map_types(part, change, (*path, step)) for step, part in parts(type))))


def nullable(schema: Struct) -> Struct:
    """The schema with nulls allowed everywhere."""
    return cast(Struct, map_types(schema, lambda _, type: _loosened(type)))


def without_metadata(schema: Struct) -> Struct:
    """The schema without anything noted in the metadata of its fields."""
    return map_fields(schema, lambda _, field: replace(field, metadata={}) if field.metadata else field)


def with_type(field: Field, type: DataType) -> Field:
    """The field with another type; itself if it has that very one."""
    return field if field.type is type else replace(field, type=type)


def with_parts(type: DataType, *inner: DataType) -> DataType:
    """An array or a map with other types inside; itself if it has those very ones, or none."""
    if all(new is old for new, (_, old) in zip(inner, parts(type), strict=True)):
        return type
    if isinstance(type, Array):
        return replace(type, element=inner[0])
    assert isinstance(type, Map)
    return replace(type, key=inner[0], value=inner[1])


def paired(left: DataType, right: DataType) -> list[tuple[str, DataType, DataType]] | None:
    """The parts of two arrays or of two maps side by side; None for any other two types."""
    if type(left) is not type(right) or not parts(left):
        return None
    return [(step, one, other) for (step, one), (_, other) in zip(parts(left), parts(right), strict=True)]


class Visitor(ABC, Generic[C, R]):
    """One result for a type, worked out by a method per kind of type.

    A method calls `visit` for the types inside, with what they need to know in place of its own context.
    """

    def visit(self, type: DataType, context: C) -> R:
        """The result for a type."""
        match type:
            case Primitive():
                return self.primitive(type, context)
            case Struct():
                return self.struct(type, context)
            case Array():
                return self.array(type, context)
            case Map():
                return self.map(type, context)
            case Opaque():
                return self.opaque(type, context)
            case _:
                assert_never(type)

    @abstractmethod
    def primitive(self, type: Primitive, context: C) -> R:
        """The result for a type without types inside."""

    @abstractmethod
    def struct(self, type: Struct, context: C) -> R:
        """The result for a struct."""

    @abstractmethod
    def array(self, type: Array, context: C) -> R:
        """The result for an array."""

    @abstractmethod
    def map(self, type: Map, context: C) -> R:
        """The result for a map."""

    def opaque(self, type: Opaque, context: C) -> R:
        """The result for a type that this release does not know: what a primitive of its name gets."""
        return self.primitive(Primitive(type.name), context)


def _loosened(type: DataType) -> DataType:
    match type:
        case Struct():
            return _with_fields(type, [each if each.nullable else replace(each, nullable=True) for each in type.fields])
        case Array(contains_null=False):
            return replace(type, contains_null=True)
        case Map(value_contains_null=False):
            return replace(type, value_contains_null=True)
    return type


def _mapped_fields(type: DataType, change: Callable[[Path, Field], Field | None], path: Path) -> DataType:
    if not isinstance(type, Struct):
        return with_parts(type, *(_mapped_fields(part, change, (*path, step)) for step, part in parts(type)))
    changed = []
    for each in type.fields:
        here = (*path, each.name)
        new = change(here, with_type(each, _mapped_fields(each.type, change, here)))
        if new is not None:
            changed.append(new)
    return _with_fields(type, changed)


def _with_fields(struct: Struct, fields: list[Field]) -> Struct:
    same = len(fields) == len(struct.fields) and all(new is old for new, old in zip(fields, struct.fields, strict=True))
    return struct if same else struct.with_fields(fields)
