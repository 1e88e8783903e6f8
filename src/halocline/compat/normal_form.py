"""How a set of features is written down as numbers and lists.

The same set can be written in several ways: two numbers that imply it, or numbers with lists that name it. `lowest`
finds the way with the lowest numbers, which locks out the fewest clients; `spelled_out` always writes lists.

A name without a record needs a list. Whether it belongs into the readers' list too is not known here, so whoever
found it there must say so: `for_readers` holds those names.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from halocline.compat.features import Feature, FeatureKind, feature, features, rules


class Form(NamedTuple):
    """Numbers and lists, as they stand in a protocol."""

    reader: int
    writer: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


def required_closure(format: str, names: Iterable[str]) -> frozenset[str]:
    """The features with all that they require, directly or through others."""
    closed: set[str] = set()
    waiting = list(names)
    while waiting:
        record = feature(format, waiting.pop())
        if record.name not in closed:
            closed.add(record.name)
            waiting += record.requires
    return frozenset(closed)


def minimum_versions(format: str, names: Iterable[str]) -> tuple[int, int]:
    """The lowest reader and writer version at which these features can be written down.

    Example:
        >>> minimum_versions("delta", ["columnMapping", "appendOnly"])
        (2, 5)
    """
    pairs = [feature(format, name).minimum for name in names]
    return max((reader for reader, _ in pairs), default=1), max((writer for _, writer in pairs), default=1)


@lru_cache(maxsize=4096)
def implied_by(format: str, reader: int, writer: int) -> frozenset[str]:
    """The features that the numbers alone stand for, were there no lists.

    Example:
        >>> implied_by("delta", 2, 5) - implied_by("delta", 1, 5)
        frozenset({'columnMapping'})
    """
    return frozenset(
        each.name
        for each in features(format).values()
        if each.legacy is not None and each.legacy[0] <= reader and each.legacy[1] <= writer
    )


def uses_lists(format: str, reader: int, writer: int) -> bool:
    """True if a protocol with these numbers lists features."""
    how = rules(format)
    return (how.reader_lists_from is not None and reader >= how.reader_lists_from) or (
        how.writer_lists_from is not None and writer >= how.writer_lists_from
    )


def feature_lists(
    format: str, names: frozenset[str], for_readers: frozenset[str], reader: int
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The readers' and the writers' list of these features; no list for readers below the version that has one."""
    how = rules(format)
    if how.reader_lists_from is None or reader < how.reader_lists_from:
        return None, names
    known = {name for name in names if feature(format, name).kind is FeatureKind.READER_WRITER}
    return frozenset(known | (for_readers & names)), names


def with_listed(format: str, form: Form, record: Feature) -> Form | None:
    """The form with one more feature in its lists, at the numbers it has; None if they have no room for it.

    A reader number below the one with lists stands for what it implies, which then goes into the writers' list only.

    Example:
        >>> with_listed("delta", Form(2, 7, None, frozenset()), feature("delta", "columnMapping"))
        Form(reader=2, writer=7, reader_features=None, writer_features=frozenset({'columnMapping'}))
    """
    how = rules(format)
    lists_for_readers = how.reader_lists_from is not None and form.reader >= how.reader_lists_from
    lists_for_writers = how.writer_lists_from is not None and form.writer >= how.writer_lists_from
    reader, _ = record.minimum
    if not lists_for_writers or (reader > form.reader and not lists_for_readers):
        return None
    for_readers = form.reader_features
    if record.kind is FeatureKind.READER_WRITER and lists_for_readers:
        for_readers = (for_readers or frozenset()) | {record.name}
    return Form(form.reader, form.writer, for_readers, (form.writer_features or frozenset()) | {record.name})


def spelled_out(format: str, names: frozenset[str], for_readers: frozenset[str] = frozenset()) -> Form:
    """These features as lists, under the lowest numbers that allow lists.

    Example:
        >>> spelled_out("delta", frozenset({"columnMapping"}))
        Form(reader=2, writer=7, reader_features=None, writer_features=frozenset({'columnMapping'}))
    """
    reader, writer = _minimum(format, names, for_readers)
    writer = max(writer, rules(format).writer_lists_from or 1)
    return Form(reader, writer, *feature_lists(format, names, for_readers, reader))


def lowest(format: str, names: frozenset[str], for_readers: frozenset[str] = frozenset()) -> Form:
    """These features under the lowest numbers."""
    reader, writer = _minimum(format, names, for_readers)
    implied = implied_by(format, reader, writer)
    if rules(format).lists_replace_numbers:
        plain = not uses_lists(format, reader, writer) and implied == names
        return Form(reader, writer) if plain else spelled_out(format, names, for_readers)
    beyond = names - implied
    return Form(reader, writer, *feature_lists(format, beyond, for_readers, reader)) if beyond else Form(reader, writer)


def _minimum(format: str, names: frozenset[str], for_readers: frozenset[str]) -> tuple[int, int]:
    reader, writer = minimum_versions(format, names)
    if for_readers & names:
        reader = max(reader, rules(format).reader_lists_from or 1)
    return reader, writer
