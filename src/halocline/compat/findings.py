"""What is wrong with a protocol as it is written down.

A `Finding` is one contradiction or oddity in a protocol's numbers and lists. A *fatal* one means that clients may read
the same protocol differently, so strict reading refuses it; the others are harmless and worth telling. Findings are
about the protocol alone: whether it fits the table's metadata is asked elsewhere.

Nothing is lost on the way: what could be read is kept next to the findings, so that such a table can be shown and
repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from halocline.compat.features import FORMATS, FeatureKind, Rules, feature, features, rules
from halocline.compat.normal_form import Form
from halocline.errors import InputError

_TEXT = re.compile(r"\s*(?P<format>[a-z]*)\s*\((?P<body>[^()]*)\)\s*")
_LIST = re.compile(r"\s*(?P<side>[RW])\s*:(?P<names>.*)", re.DOTALL)
_LIST_KEYS = {"R": "readerFeatures", "W": "writerFeatures"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or odd.

    Args:
        code: A stable name for it.
        text: What was found, as a clause without a full stop.
        fatal: True if strict reading refuses it.
        feature: The feature it is about, if it is about one.
    """

    code: str
    text: str
    fatal: bool = True
    feature: str = ""

    def __str__(self) -> str:
        return self.text


def protocol_findings(action: Mapping[str, Any], format: str = "delta") -> tuple[Finding, ...]:
    """Everything that is wrong or odd about the body of a `protocol` action, worst first."""
    return read_written(action, format)[1]


def read_written(action: Mapping[str, Any], format: str = "delta") -> tuple[Form, tuple[Finding, ...]]:
    """As much of a `protocol` action as can be read, where a number that cannot is 1; and what is wrong with it."""
    found: list[Finding] = []
    how = rules(format)
    reader, writer = (_number(action, key, how, found) for key in ("minReaderVersion", "minWriterVersion"))
    form = Form(reader, writer, *(_names(action, key, found) for key in _LIST_KEYS.values()))
    found += [*_shape(how, form), *_membership(how, form), *_oddities(how, form)]
    found.sort(key=lambda each: not each.fatal)
    return form, tuple(found)


def with_empty_lists(format: str, action: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the lists that the numbers call for: where people write (3,7), they mean no features."""
    how = rules(format)
    filled = dict(action)
    for version, lists_from, key in (
        (action["minReaderVersion"], how.reader_lists_from, "readerFeatures"),
        (action["minWriterVersion"], how.writer_lists_from, "writerFeatures"),
    ):
        if how.lists_replace_numbers and lists_from is not None and isinstance(version, int) and version >= lists_from:
            filled[key] = () if filled.get(key) is None else filled[key]
    return filled


def read_text(text: str) -> tuple[str, Mapping[str, Any]]:
    """Takes `(3,7|R: a|W: a,b)` apart into the format and the body of a `protocol` action."""
    found = _TEXT.fullmatch(text)
    format = (found["format"] or "delta") if found else ""
    if found is None or format not in FORMATS:
        raise _unreadable(text)
    numbers, *lists = found["body"].split("|")
    versions = [each.strip() for each in numbers.split(",")]
    if rules(format).level_name and len(versions) == 1:
        versions *= 2
    if len(versions) != 2 or not all(each.isascii() and each.isdigit() and len(each) < 10 for each in versions):
        raise _unreadable(text)
    action: dict[str, Any] = {"minReaderVersion": int(versions[0]), "minWriterVersion": int(versions[1])}
    for each in lists:
        part = _LIST.fullmatch(each)
        if part is None or _LIST_KEYS[part["side"]] in action:
            raise _unreadable(text)
        names = [name.strip() for name in part["names"].split(",")]
        action[_LIST_KEYS[part["side"]]] = [] if names == [""] else names
    return format, action


def to_text(format: str, form: Form) -> str:
    """What `read_text` reads, with the names in order.

    Example:
        >>> to_text("delta", Form(3, 7, frozenset({"a"}), frozenset({"b", "a"})))
        '(3,7|R: a|W: a,b)'
    """
    if rules(format).level_name and form.reader == form.writer:
        return f"{format}({form.reader})"
    parts = [f"{form.reader},{form.writer}"]
    for side, listed in zip(_LIST_KEYS, (form.reader_features, form.writer_features), strict=True):
        if listed is not None:
            parts.append(f"{side}: {','.join(sorted(listed))}".strip())
    return f"{'' if format == 'delta' else format}({'|'.join(parts)})"


def _unreadable(text: str) -> InputError:
    return InputError(
        f"{text[:80]!r} is no protocol",
        sides={"expected": "(1,2), (1,7|W: a,b), (3,7|R: a|W: a,b), hudi(8) or index(4,4)", "found": text[:80]},
        next_step="Write the reader and the writer version in brackets, then the feature lists.",
    )


def _number(action: Mapping[str, Any], key: str, how: Rules, found: list[Finding]) -> int:
    value = action.get(key)
    lowest = min(how.readers[0], how.writers[0])
    if value is None:
        found.append(Finding("VERSION_MISSING", f"{key} is missing"))
    elif not isinstance(value, int) or isinstance(value, bool):
        found.append(Finding("VERSION_NOT_A_NUMBER", f"{key} is {value!r}, which is not a whole number"))
    elif value < lowest:
        found.append(Finding("VERSION_TOO_LOW", f"{key} is {value}, and the lowest is {lowest}"))
        return value
    else:
        return value
    return 1


def _names(action: Mapping[str, Any], key: str, found: list[Finding]) -> frozenset[str] | None:
    value = action.get(key)
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        found.append(Finding("LIST_NOT_A_LIST", f"{key} is {value!r}, which is not a list"))
        return None
    names: set[str] = set()
    for each in value:
        if not isinstance(each, str) or not each.strip() or each.strip() != each or set(each) & set(",|()"):
            found.append(Finding("NOT_A_NAME", f"{key} holds {each!r}, which is not a feature name"))
        elif each in names:
            found.append(Finding("DUPLICATE_NAME", f"{key} names {each} more than once", feature=each))
        else:
            names.add(each)
    return frozenset(names)


def _shape(how: Rules, form: Form) -> Iterator[Finding]:
    """Which lists must and must not be there; of versions beyond the known ones nobody can say which must."""
    sides = (
        ("reader", form.reader, how.reader_lists_from, form.reader_features, how.readers[-1]),
        ("writer", form.writer, how.writer_lists_from, form.writer_features, how.writers[-1]),
    )
    for side, version, lists_from, listed, newest in sides:
        needs_list = lists_from is not None and version >= lists_from
        if listed is not None and not needs_list:
            names = ", ".join(sorted(listed)) or "empty"
            yield Finding("LIST_NOT_ALLOWED", f"{side} version {version} has a feature list ({names})")
        if listed is None and needs_list and version <= newest and how.lists_replace_numbers:
            yield Finding("LIST_MISSING", f"{side} version {version} has no feature list")
    lists_for_readers = how.reader_lists_from is not None and how.reader_lists_from <= form.reader <= how.readers[-1]
    if how.lists_replace_numbers and lists_for_readers and form.writer < (how.writer_lists_from or 0):
        text = f"reader version {form.reader} lists features, writer version {form.writer} does not"
        yield Finding("WRITER_VERSION_TOO_LOW", text)
    if how.level_name and form.reader != form.writer:
        yield Finding("TWO_LEVELS", f"the {how.level_name} is both {form.reader} and {form.writer}")


def _membership(how: Rules, form: Form) -> Iterator[Finding]:
    """Which names must and must not be in which list."""
    for_readers, for_writers = form.reader_features or frozenset(), form.writer_features or frozenset()
    for name in sorted(for_readers):
        if feature(how.format, name).kind is FeatureKind.WRITER:
            yield Finding("NOT_FOR_READERS", f"{name} is for writers only but is listed for readers", feature=name)
        if name not in for_writers:
            yield Finding("NOT_FOR_WRITERS", f"{name} is listed for readers but not for writers", feature=name)
    for name in sorted(for_writers - for_readers):
        record = feature(how.format, name)
        if record.kind is not FeatureKind.READER_WRITER:
            continue
        needed = record.minimum[0]
        if form.reader_features is None and form.reader < needed:
            text = f"{name} needs reader version {needed}, and the protocol has {form.reader}"
            yield Finding("READER_VERSION_TOO_LOW", text, feature=name)
        elif form.reader_features is not None and how.lists_replace_numbers:
            # Past Delta Spark releases left columnMapping out of the readers' list; clients take it as listed.
            text = f"{name} is listed for writers but not for readers"
            yield Finding("READERS_NOT_TOLD", text, fatal=record.legacy is None, feature=name)


def _oddities(how: Rules, form: Form) -> Iterator[Finding]:
    """Harmless, worth telling."""
    both = (form.reader_features or frozenset()) | (form.writer_features or frozenset())
    supported = {feature(how.format, name).name for name in both}
    for name in sorted(both):
        record = feature(how.format, name)
        if not record.known:
            yield Finding("UNKNOWN_NAME", f"{name} is not known", fatal=False, feature=name)
        elif record.name != name:
            yield Finding("ALIAS", f"{name} is another name for {record.name}", fatal=False, feature=name)
        for missing in sorted(record.requires - supported) if how.lists_replace_numbers else ():
            text = f"{name} requires {missing}, which is not listed"
            yield Finding("REQUIREMENT_MISSING", text, fatal=False, feature=name)
    if form.reader_features is None and form.writer_features is None and how.lists_replace_numbers:
        yield from _odd_pair(how.format, form)
    for side, version, known in (("reader", form.reader, how.readers), ("writer", form.writer, how.writers)):
        if version > known[-1]:
            yield Finding("VERSION_UNKNOWN", f"{side} version {version} is beyond {known[-1]}", fatal=False)


def _odd_pair(format: str, form: Form) -> Iterator[Finding]:
    for record in features(format).values():
        if record.legacy is None or record.kind is not FeatureKind.READER_WRITER:
            continue
        if (record.legacy[0] <= form.reader) != (record.legacy[1] <= form.writer):
            text = f"one of the versions ({form.reader},{form.writer}) allows {record.name} and the other does not"
            yield Finding("ODD_PAIR", text, fatal=False, feature=record.name)
