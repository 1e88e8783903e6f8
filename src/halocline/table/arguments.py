"""What a user hands to a verb: known names, and values of the right kind, before the verb begins.

Python itself takes `data_change="false"` for true, and speaks of a wrong keyword by the name of a function that no user
has called. A class made of verbs is therefore given `checks_arguments`, which compares every call with the signature:
a name that it lacks is refused with the nearest one that it has, and a value with the kinds that it accepts. Kinds that
are not in the table below are left to the verb.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any, Final, TypeVar

from halocline.errors import InputError, MissingVerbError, nearest

C = TypeVar("C", bound=type)
R = TypeVar("R")


def _is_transaction(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    app, version = value
    return isinstance(app, str) and bool(app) and type(version) is int and version >= 0


def _are_names(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value)


_Kind = tuple[str, Callable[[Any], bool]]
_MAPPING: Final[_Kind] = ("a dict", lambda value: isinstance(value, Mapping) and _are_names(list(value)))
_KINDS: Final[Mapping[str, _Kind]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    "str": ("text", lambda value: isinstance(value, str)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, str | os.PathLike)),
    "Expression": ("an SQL expression", lambda value: isinstance(value, str) or type(value).__name__ == "Column"),
    "Sequence[str]": ("a list of names", _are_names),
    "Mapping[str, str]": _MAPPING,
    "Mapping[str, Any]": _MAPPING,
    "Identity": ("an Identity", lambda value: type(value).__name__ == "Identity"),
    "Release": ("a release", lambda value: type(value).__name__ == "Release"),
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
        _check(name, function, given, named)
        return function(*given, **named)

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


def _check(name: str, function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    shape, known = _signature(function), _known_names(name, function, named)
    try:
        bound = shape.bind(*given, **named)
    except TypeError as error:
        raise InputError(f"{name}: {error}", sides={"arguments": ", ".join(known) or "none"}) from None
    for key, value in bound.arguments.items():
        annotation = shape.parameters[key].annotation
        kinds = [_kind(each.strip()) for each in str(annotation).split(" | ")]
        if shape.parameters[key].kind in _SEVERAL or None in kinds:
            continue
        if not any(fits(value) for _, fits in filter(None, kinds)):
            expected = " or ".join(dict.fromkeys(word for word, _ in filter(None, kinds) if word != "None"))
            raise InputError(
                f"{key} of {name} cannot be {value!r:.80}", sides={"given": type(value).__name__, "expected": expected}
            )


def _kind(annotation: str) -> _Kind | None:
    if annotation.startswith("Literal["):
        choices: list[Any] = ast.literal_eval(annotation.removeprefix("Literal"))
        return " or ".join(map(repr, choices)), lambda value: value in choices
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
