"""Parameters that several commands have in common, declared once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


def takes(shared: Any) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Gives a command the fields of a named tuple as parameters; its first argument is the tuple of what they are.

    Example:
        >>> from typing import NamedTuple
        >>> class Shown(NamedTuple):
        ...     limit: int = 20
        >>> @takes(Shown)
        ... def log(asked: Shown, table: str) -> str:
        ...     return f"{asked.limit} of {table}"
        >>> log(table="orders", limit=5), str(signature(log))
        ('5 of orders', '(*, table: str, limit: int = 20)')
    """
    hints, defaults, plain = get_type_hints(shared, include_extras=True), shared._field_defaults, Parameter.KEYWORD_ONLY
    more = [
        Parameter(name, plain, default=defaults.get(name, Parameter.empty), annotation=hints[name]) for name in hints
    ]

    def with_fields(command: Callable[..., R]) -> Callable[..., R]:
        _, *own = signature(command, eval_str=True).parameters.values()

        @wraps(command)
        def run(**given: Any) -> R:
            return command(shared(**{name: given.pop(name) for name in hints if name in given}), **given)

        made: Any = run
        made.__signature__ = Signature([*(each.replace(kind=plain) for each in own), *more])
        return run

    return with_fields
