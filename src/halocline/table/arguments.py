"""What a user hands to a verb: known names, and values of the right kind, before the verb begins.

Python itself takes `data_change="false"` for true, and speaks of a wrong keyword by the name of a function that no user
has called. A class made of verbs is therefore given `checks_arguments`, which compares every call with the signature:
a name that it lacks is refused with the nearest one that it has, and a value with the kinds that it accepts. Kinds that
are not in the table below are left to the verb. What fits reaches the verb as a value of Python's own: the numbers and
the text of numpy, and those of enumerations, are no JSON.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache, partial, wraps
from inspect import BoundArguments, Parameter, signature
from numbers import Integral, Real
from typing import Any, Final, TypeVar

from halocline.errors import InputError, MissingVerbError, nearest

C = TypeVar("C", bound=type)
R = TypeVar("R")


def _is_integer(value: Any) -> bool:
    # Every number of a log is a signed one of 64 bits: others could not read a larger one.
    return not isinstance(value, bool) and isinstance(value, Integral) and -(2**63) <= int(value) < 2**63


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and value == value


def _is_moment(value: Any) -> bool:
    # What pandas takes for a time that is missing is a datetime, and equal to nothing.
    return isinstance(value, str) or _is_integer(value) or (isinstance(value, datetime) and value == value)


def _is_transaction(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    app, version = value
    return isinstance(app, str) and bool(app) and _is_integer(version) and version >= 0


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _are_names(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, str) for each in value)


def _are_collected_names(value: Any) -> bool:
    collected = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return collected and all(isinstance(each, str) for each in value)


def _is_our(name: str, value: Any) -> bool:
    # By its name: the modules of most classes cost time to import.
    kind = type(value)
    return kind.__name__ == name and kind.__module__.startswith("halocline.")


def _are_columns(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, Mapping) or _is_our("Field", each) for each in value)


def _are_clients(value: Any) -> bool:
    return _is_list(value) and all(_is_our("Client", each) for each in value)


def _are_positions(value: Any) -> bool:
    return _is_list(value) and all(each is None or _is_our("ColumnPosition", each) for each in value)


_Kind = tuple[str, Callable[[Any], bool]]
_MAPPING: Final[_Kind] = ("a dict", lambda value: isinstance(value, Mapping) and _are_names(list(value)))
_MOMENT: Final[_Kind] = ("a time, such as '2026-11-01 12:00:00'", _is_moment)
_KINDS: Final[Mapping[str, _Kind]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number of 64 bits", _is_integer),
    "float": ("a number", _is_number),
    "str": ("text", lambda value: isinstance(value, str)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, str | os.PathLike)),
    "Expression": ("an SQL expression", lambda value: isinstance(value, str) or type(value).__name__ == "Column"),
    "Column": ("a Column", lambda value: type(value).__name__ == "Column"),
    "Moment": _MOMENT,
    "Instant": _MOMENT,
    "Sequence[str]": ("a list of names", _are_names),
    "list[str]": ("a list of names", _are_names),
    "tuple[str, ...]": ("a list of names", _are_names),
    "Collection[str]": ("a list of names", _are_collected_names),
    "Sequence[Any]": ("a list", _is_list),
    "Sequence[Client]": ("a list of clients, such as those of Lake.declared", _are_clients),
    "Sequence[ColumnPosition | None]": ("a list of ColumnPosition, or None", _are_positions),
    "Sequence[Field | Mapping[str, Any]]": ('[{"name": "x", "type": "long", "nullable": true}]', _are_columns),
    "Validator": ("a function", callable),
    "Mapping[str, str]": _MAPPING,
    "Mapping[str, Any]": _MAPPING,
    "Identity": ("an Identity", partial(_is_our, "Identity")),
    "Release": ("a release", partial(_is_our, "Release")),
    "SparkSession": ("a Spark session", lambda value: hasattr(value, "conf")),
    "Txn": ("an application and its version, such as ('nightly-load', 42)", _is_transaction),
}
"""How annotations are spelt, what they are called, and whether a value is of the kind; see also `_kind`."""


def checks_arguments(cls: C) -> C:
    """Lets every public method of a class check what it is given, and refuse names that the class lacks.

    Example:
        >>> @checks_arguments
        ... class Counter:
        ...     def up(self, by: int = 1) -> int:
        ...         return by
        >>> Counter().up(bye=2)
        Traceback (most recent call last):
        halocline.errors.InputError: ARGUMENT_INVALID: up has no argument 'bye'
          given    bye
          nearest  by
          known    by
        Did you mean by?
    """
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(cls, name, type(member)(checked(name, member.__func__)))
        elif callable(member) and hasattr(member, "__code__"):
            setattr(cls, name, checked(name, member))
    if "__getattr__" not in dir(cls):
        cls.__getattr__ = _missing  # type: ignore[attr-defined]
    return cls


def checks_creation(cls: C) -> C:
    """Lets a class check the names that it is made with; what it is made of stays its own matter.

    Example:
        >>> @checks_creation
        ... class Step:
        ...     def __init__(self, size: int = 1) -> None: ...
        >>> Step(sise=2)
        Traceback (most recent call last):
        halocline.errors.InputError: ARGUMENT_INVALID: Step has no argument 'sise'
          given    sise
          nearest  size
          known    size
        Did you mean size?
    """
    cls.__init__ = checked_names(cls.__name__, cls.__init__)  # type: ignore[misc]
    return cls


def checked_names(name: str, function: Callable[..., R]) -> Callable[..., R]:
    """A function that refuses arguments which it lacks, and leaves values to itself."""

    @wraps(function)
    def checking(*given: Any, **named: Any) -> R:
        _known_names(name, function, named)
        return function(*given, **named)

    return checking


def checked(name: str, function: Callable[..., R]) -> Callable[..., R]:
    """A function that checks what it is given, and speaks of itself by the name that users call it by."""

    @wraps(function)
    def checking(*given: Any, **named: Any) -> R:
        bound = _fitting(name, function, given, named)
        return function(*bound.args, **bound.kwargs)

    checking.__name__ = name
    return checking


_signature: Final = cache(signature)


def _known_names(name: str, function: Callable[..., Any], named: Mapping[str, Any]) -> list[str]:
    """The names of the arguments that a function has, which are those that it is given."""
    shape = _signature(function)
    named_ones = [name for name, each in shape.parameters.items() if each.kind not in _SEVERAL]
    known = [each for each in named_ones if each not in ("self", "cls", "table")]
    if Parameter.VAR_KEYWORD not in {each.kind for each in shape.parameters.values()}:
        for key in named:
            if key not in shape.parameters:
                raise InputError.unknown(f"{name} has no argument {key!r}", key, known)
    return known


def _fitting(
    name: str, function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> BoundArguments:
    """The arguments of a call, each of a kind that it may have."""
    shape, known = _signature(function), _known_names(name, function, named)
    try:
        bound = shape.bind(*given, **named)
    except TypeError as error:
        raise InputError(f"{name}: {error}", sides={"arguments": ", ".join(known) or "none"}) from None
    for key, value in bound.arguments.items():
        parameter = shape.parameters[key]
        kinds = _kinds(str(parameter.annotation))
        if kinds is None or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        for each in value if parameter.kind is Parameter.VAR_POSITIONAL else (value,):
            if not any(fits(each) for _, fits in kinds):
                expected = " or ".join(dict.fromkeys(word for word, _ in kinds if word != "None"))
                raise InputError(
                    f"{key} of {name} cannot be {each!r:.80}",
                    sides={"given": type(each).__name__, "expected": expected},
                )
        bound.arguments[key] = _own(value)
    return bound


def _own(value: Any) -> Any:
    """The same value as one of Python's own."""
    if isinstance(value, str):
        return str.__str__(value)
    if type(value) in (list, tuple):
        return type(value)(map(_own, value))
    if isinstance(value, Mapping):
        return {_own(key): _own(each) for key, each in value.items()}
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


@cache
def _kinds(annotation: str) -> list[_Kind] | None:
    """What an annotation stands for; None if a part of it is not in the table, and left to the verb."""
    if annotation in _KINDS:
        return [_KINDS[annotation]]
    kinds = [_kind(each.strip()) for each in annotation.removesuffix(" | None").split(" | ")]
    if None in kinds:
        return None
    return [*filter(None, kinds), *([_KINDS["None"]] if annotation.endswith(" | None") else [])]


def _kind(annotation: str) -> _Kind | None:
    if annotation.startswith("Literal["):
        choices: list[Any] = ast.literal_eval(annotation.removeprefix("Literal"))
        return " or ".join(map(repr, choices)), lambda value: isinstance(value, str) and value in choices
    return _KINDS.get(annotation)


_SEVERAL: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _missing(self: Any, name: str) -> Any:
    kind = type(self).__name__
    if name.startswith("_"):
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")
    known = sorted(each for each in dir(type(self)) if not each.startswith("_"))
    near = nearest(name, known)
    raise MissingVerbError(
        f"{kind} has no {name!r}",
        sides={"asked for": name, "nearest": near or "none"},
        next_step=f"Use {near}." if near else f"It has: {', '.join(known)}",
    )
