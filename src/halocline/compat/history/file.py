"""History files: TOML in, records out.

A file is small, so it is read whole, and everything in it is checked before a `History` exists. What is wrong is
reported with the file and the key, for example `feature[3].required`. The keys are described in docs/histories.md.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache, partial
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from halocline.compat.history.lifetime import (
    Constant,
    Deprecation,
    Lifetime,
    Misreport,
    PastRelease,
    Variant,
    Yanked,
)
from halocline.errors import MalformedError, NotFoundError
from halocline.spans import Span, SpanSet
from halocline.versions import Version

_LARGEST: Final = 4_000_000
_FILE_FORMAT: Final = 1
_LONGEST_COMPLAINT: Final = 300
_DATA = resources.files("halocline.compat").joinpath("data", "histories")

_Texts = str | list[str]
_Record = TypeVar("_Record")


class _Variant(msgspec.Struct, forbid_unknown_fields=True):
    provided: _Texts | None = None
    required: _Texts | None = None
    optional: _Texts | None = None


class _Feature(msgspec.Struct, forbid_unknown_fields=True, rename={"with_flag": "with"}):
    id: str
    name: str = ""
    summary: str = ""
    provided: _Texts = []
    required: _Texts = []
    optional: _Texts = []
    fallback: str = ""
    inert: _Texts = []
    successor: str = ""
    with_flag: dict[str, _Variant] = {}


class _Yanked(msgspec.Struct, forbid_unknown_fields=True):
    versions: str
    side: Literal["", "client", "server"] = ""
    why: str = ""


class _Misreport(msgspec.Struct, forbid_unknown_fields=True):
    version: str
    reports: str
    use: str | None = None


class _Constant(msgspec.Struct, forbid_unknown_fields=True):
    since: str
    min_client: str
    min_server: str


class _Release(msgspec.Struct, forbid_unknown_fields=True):
    version: str
    date: datetime.date | None = None


class _Deprecation(msgspec.Struct, forbid_unknown_fields=True):
    days: int = 0
    releases: int = 0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    name: str
    released: str
    feature: list[_Feature]
    summary: str = ""
    unknown_before: str | None = None
    pre_releases: Literal["before-release", "as-release"] = "before-release"
    sources: list[str] = []
    retired: list[str] = []
    flags: dict[str, str] = {}
    yanked: list[_Yanked] = []
    reports_as: list[_Misreport] = []
    constants: list[_Constant] = []
    release: list[_Release] = []
    deprecation: _Deprecation | None = None


def shipped() -> tuple[str, ...]:
    """The names of the histories that come with the package."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _DATA.iterdir() if entry.name.endswith(".toml")))


def find(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a history and where it comes from: a shipped name first, else a path."""
    name = str(name_or_path)
    if name in shipped():
        return _shipped_text(name), name
    try:
        with Path(name_or_path).open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise _malformed(name, f"it has more than the {_LARGEST:,} bytes a history may have")
        return data.decode("utf-8"), name
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"there is no history named {name!r}, and no file at that path"
        raise NotFoundError.unknown(message, name, shipped(), next_step="halocline history list") from error
    except UnicodeDecodeError as error:
        raise _malformed(name, f"it is not UTF-8 text ({error.reason} at byte {error.start})") from error
    except (OSError, ValueError) as error:
        raise NotFoundError(
            f"history {name!r} cannot be read: {getattr(error, 'strerror', None) or error}",
            next_step="halocline history list",
        ) from error


def parse(text: str, source: str) -> dict[str, Any]:
    """Checks the text of a history file and returns the fields of a `History`."""
    try:
        raw = tomllib.loads(text)
    except RecursionError as error:
        raise _malformed(source, "it is nested too deeply") from error
    except ValueError as error:
        raise _malformed(source, f"it is not TOML: {error}") from error
    try:
        shape = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise _malformed(source, _in_our_words(str(error))) from error
    return _Reader(source).history(shape)


@cache
def _shipped_text(name: str) -> str:
    return _DATA.joinpath(f"{name}.toml").read_text(encoding="utf-8")


class _Reader:
    """Turns the shape of a file into records; `source` is named in every complaint."""

    def __init__(self, source: str) -> None:
        self.source = source

    def history(self, shape: _File) -> dict[str, Any]:
        if shape.format != _FILE_FORMAT:
            raise self._wrong("format", f"this release reads format {_FILE_FORMAT}, not {shape.format}")
        if not shape.name.strip():
            raise self._wrong("name", "it is empty")
        if not shape.feature:
            raise self._wrong("feature", "a history needs at least one feature")
        begins = shape.unknown_before
        known = {each.id for each in shape.feature}
        for at, each in enumerate(shape.feature):
            if each.successor and each.successor not in known - {each.id}:
                raise self._wrong(f"feature[{at}].successor", f"{each.successor!r} is no other feature of this history")
        return {
            "name": shape.name,
            "summary": shape.summary,
            "released": self.version("released", shape.released),
            "begins": None if begins is None else self.version("unknown_before", begins),
            "pre_releases_count": shape.pre_releases == "as-release",
            "lifetimes": tuple(self._each("feature", shape.feature, self._lifetime(shape.flags))),
            "flags": tuple(shape.flags.items()),
            "yanked": tuple(self._each("yanked", shape.yanked, self._yanked)),
            "misreports": tuple(self._each("reports_as", shape.reports_as, self._misreport)),
            "constants": self._constants(shape.constants),
            "retired": frozenset(shape.retired),
            "sources": tuple(shape.sources),
            "releases": self._releases(shape.release),
            "deprecation": self._deprecation(shape),
        }

    def _record(self, kind: type[_Record], key: str, shape: msgspec.Struct, **more: Any) -> _Record:
        """A record out of the parts of a shape that have the same names, read as their types say."""
        readers = {"Version": self.version, "SpanSet": self.spans}
        for each in fields(cast(Any, kind)):
            value, read = getattr(shape, each.name, None), readers.get(str(each.type).removesuffix(" | None"))
            if each.name not in more:
                more[each.name] = value if read is None or value is None else read(f"{key}.{each.name}", value)
        return kind(**more)

    def _releases(self, shapes: list[_Release]) -> tuple[PastRelease, ...]:
        found = tuple(self._each("release", shapes, partial(self._record, PastRelease)))
        for at, (one, next_one) in enumerate(pairwise(found), start=1):
            if next_one.version <= one.version:
                raise self._wrong(f"release[{at}].version", f"{next_one.version} does not follow {one.version}")
        return found

    def _deprecation(self, shape: _File) -> Deprecation | None:
        window = shape.deprecation
        if window is None:
            return None
        if (window.days > 0) == (window.releases > 0) or min(window.days, window.releases) < 0:
            raise self._wrong("deprecation", "say either days or releases, above 0")
        if not shape.release:
            raise self._wrong("deprecation", "it is counted by [[release]] records, and there are none")
        return Deprecation(window.days, window.releases)

    def _lifetime(self, flags: dict[str, str]) -> Callable[[str, _Feature], Lifetime]:
        def lifetime(key: str, shape: _Feature) -> Lifetime:
            if not shape.id.strip():
                raise self._wrong(f"{key}.id", "it is empty")
            variants = []
            for flag, changed in shape.with_flag.items():
                if flag not in flags:
                    raise self._wrong(f"{key}.with.{flag}", "this flag is not described under [flags]")
                variants.append(self._record(Variant, f"{key}.with.{flag}", changed, flag=flag))
            return self._record(Lifetime, key, shape, variants=tuple(variants))

        return lifetime

    def _yanked(self, key: str, shape: _Yanked) -> Yanked:
        (span,) = self.spans(f"{key}.versions", shape.versions).spans
        if span.until is None:
            raise self._wrong(f"{key}.versions", f"write [{shape.versions}, NEXT) with the first usable build as NEXT")
        return self._record(Yanked, key, shape, span=span)

    def _misreport(self, key: str, shape: _Misreport) -> Misreport:
        found = self._record(Misreport, key, shape)
        if found.use is not None and found.use <= found.version:
            raise self._wrong(f"{key}.use", f"{found.use} is not later than {found.version}")
        return found

    def _constants(self, shapes: list[_Constant]) -> tuple[Constant, ...]:
        found = tuple(self._each("constants", shapes, partial(self._record, Constant)))
        for at, (one, next_one) in enumerate(pairwise(found), start=1):
            if next_one.since <= one.since:
                raise self._wrong(f"constants[{at}].since", f"{next_one.since} does not follow {one.since}")
        return found

    def version(self, key: str, text: str) -> Version:
        version = Version.parse(text)
        if not version.known:
            raise self._wrong(key, f"{text!r} is not a version")
        return version

    def spans(self, key: str, texts: _Texts) -> SpanSet:
        spans: list[Span] = []
        for text in [texts] if isinstance(texts, str) else texts:
            try:
                span = Span.parse(text)
            except MalformedError as error:
                raise self._wrong(key, error.message) from error
            if any(span & other for other in spans):
                raise self._wrong(key, f"{span} overlaps another span")
            spans.append(span)
        return SpanSet(spans)

    def _each(self, key: str, shapes: Iterable[Any], make: Callable[[str, Any], _Record]) -> Iterator[_Record]:
        return (make(f"{key}[{at}]", shape) for at, shape in enumerate(shapes))

    def _wrong(self, key: str, problem: str) -> MalformedError:
        return _malformed(self.source, f"key {key}: {problem}")


def _in_our_words(problem: str) -> str:
    """`Expected `str`, got `int` - at `$.feature[0].id`` names the key last; here it comes first."""
    text, _, place = problem.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    return f"key {key}: {text}" if key else text


def _malformed(source: str, problem: str) -> MalformedError:
    short = problem if len(problem) <= _LONGEST_COMPLAINT else f"{problem[:_LONGEST_COMPLAINT]}…"
    return MalformedError(
        f"history {source}: {short}",
        condition="MALFORMED_HISTORY",
        next_step="The keys of a history file are described in docs/histories.md",
    )
