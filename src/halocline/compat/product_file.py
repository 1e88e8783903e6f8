"""The file of a product, as a value.

Each record of the file has a class in `halocline.compat.product`, and each key of a record a field of that class, with
the name in `_KEYS` or the same one. What a key holds is read by the type of its field. A file that says something
twice in two ways, or that claims something without saying where that is known from, is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from halocline.compat.answer import Answer
from halocline.compat.product import Fact, OwnUpgrade, Pin, Product, Trial, When, checked_operation
from halocline.errors import MalformedError
from halocline.spans import Span, SpanSet
from halocline.versions import Version

_R = TypeVar("_R")

_KEYS: Final[Mapping[type, Mapping[str, str]]] = {
    Product: {
        "name": "product",
        "formats": "format",
        "numbers_only": "numbers-only",
        "by_day": "by-day",
        "facts": "fact",
        "pins": "pin",
        "upgrades": "upgrade",
        "trials": "trial",
    },
    Fact: {"operations": "operation", "along": "with"},
    Pin: {"operations": "operation", "version": "release"},
    OwnUpgrade: {},
    Trial: {"operations": "operation"},
}
"""The key that a field has in a file, where that is another name; of records, one for each."""


def parse_product(name: str, data: Mapping[str, Any]) -> Product:
    """The product that a file describes, of which this is the content.

    Raises:
        MalformedError: The file breaks a rule.
        InputError: It is about an operation that does not exist.
    """
    try:
        product = _record(Product, data)
        records: tuple[Fact | Pin | Trial, ...] = (*product.facts, *product.pins, *product.trials)
        for operation in (operation for each in records for operation in each.operations):
            checked_operation(operation)
    except KeyError as error:
        raise malformed(name, f"lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise malformed(name, f"has a value that cannot be used: {error}") from error
    except MalformedError as error:
        raise malformed(name, error.message) from error
    if product.name != name:
        raise malformed(name, f"names the product {product.name!r}; file and product must have the same name")
    if product.unlisted is not Answer.UNKNOWN and not product.source.strip():
        raise malformed(name, f"does not say where it is known from that what is not listed is {product.unlisted}")
    for fact in product.facts:
        if not fact.source.strip():
            raise malformed(name, f"has a fact without a source: {', '.join(fact.tokens)}")
        if fact.answer is Answer.WRONG and not fact.what:
            raise malformed(name, f"does not say what goes wrong with {', '.join(fact.tokens)}")
    _no_contradiction(product)
    formats = tuple(dict.fromkeys((*product.formats, *(fact.format for fact in product.facts))))
    return dataclasses.replace(product, formats=formats)


def _record(kind: type[_R], data: Mapping[str, Any], format: str = "") -> _R:
    known = {_KEYS[kind].get(each.name, each.name): each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := data.keys() - known.keys():
        raise MalformedError(f"has keys that mean nothing: {', '.join(sorted(unknown))}")
    if "format" in known:
        data = {"format": format, **data} if format else data
        format = format or _texts(data["format"])[0]
    needed = (key for key, each in known.items() if each.default is dataclasses.MISSING)
    values = {key: data[key] for key in (*needed, *data)}
    return kind(**{known[key].name: _value(str(known[key].type), each, format) for key, each in values.items()})


def _value(type: str, given: Any, format: str) -> Any:
    """What a key holds, as a value of the type of its field; `format` is what records are about that name none."""
    if type in _READERS:
        return _READERS[type](given)
    kind = next((each for each in _KEYS if type == f"tuple[{each.__name__}, ...]"), None)
    return given if kind is None else tuple(_record(kind, each, format) for each in given)


def _texts(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _version(text: str) -> Version:
    version = Version.parse(text)
    if not version.known:
        raise MalformedError(f"has {text!r} where a version must stand")
    return version


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Answer": Answer,
    "SpanSet": lambda given: SpanSet(map(Span.parse, _texts(given))),
    "Version": _version,
    "Version | None": _version,
    "When": When,
    "frozenset[Version]": lambda given: frozenset(map(_version, _texts(given))),
    "frozenset[str]": lambda given: frozenset(_texts(given)),
    "int": int,
    "tuple[str, ...]": _texts,
}
"""How what a key holds is read, by the type of its field; plain text and switches stay as they are."""


def _no_contradiction(product: Product) -> None:
    """Two unconditional facts with different answers about the same thing are an error, whatever their order."""
    seen: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in product.facts:
        if fact.conditional:
            continue
        for key in ((fact.format, operation, token) for operation in fact.operations for token in fact.tokens):
            for other in seen.setdefault(key, []):
                if other.answer is not fact.answer and (common := other.spans & fact.spans):
                    raise malformed(product.name, f"answers {key[1]} of {key[2]} in two ways in {common}")
            seen[key].append(fact)


def malformed(name: str, problem: str) -> MalformedError:
    """The error for a file that breaks a rule."""
    return MalformedError(
        f"the knowledge file of {name} {problem}",
        condition="MALFORMED_KNOWLEDGE",
        next_step="See docs/knowledge.md for the form.",
    )
