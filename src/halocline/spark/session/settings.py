"""Every setting there is: its name, type, default and meaning, declared once.

A setting has one name everywhere. It is taken from the options given with a table, else from the Spark session under
the same name with `spark.` before it, else its default holds. A name that is not declared here is refused with the
nearest one that is, wherever it was given. The table in `docs/settings.md` is made from this module.

The settings of a table are *in force* while one of its verbs runs, so that what the verb stands on asks `in_force`
rather than be handed them through every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = "halocline."
_SESSION: Final = "spark."
_SWITCH: Final = {"true": True, "false": False}


class ScanMode(StrEnum):
    """How a scan tells Spark which files to read."""

    AUTO = "auto"
    MANIFEST = "manifest"
    PATHS = "paths"
    ARROW = "arrow"


class FleetRole(StrEnum):
    """What a member of a fleet does."""

    WRITER = "writer"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is declared.

    Attributes:
        name: Its name.
        expected: What its values look like.
        meaning: What it does.
        parse: Reads a value; raises `ValueError` or `KeyError` for one that does not fit.
    """

    name: str
    expected: str
    meaning: str
    parse: Callable[[str], Any]


def _declared(default: Any, name: str, expected: str, meaning: str, parse: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"setting": Setting(name, expected, meaning, parse)})


def _switch(default: bool, name: str, meaning: str) -> Any:
    return _declared(default, name, "true or false", meaning, lambda text: _SWITCH[text.lower()])


def _text(name: str, expected: str, meaning: str) -> Any:
    return _declared(None, name, expected, meaning, lambda text: text or None)


def _choice(name: str, choices: type[StrEnum], meaning: str) -> Any:
    """A setting with a few values, of which the first is the default."""
    return _declared(next(iter(choices)), name, ", ".join(choices), meaning, lambda text: choices(text.lower()))


def _bytes(default: int, name: str, meaning: str) -> Any:
    def parse(text: str) -> int:
        if not text.isdecimal():
            raise ValueError(text)
        return int(text)

    return _declared(default, name, "a number of bytes", meaning, parse)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one opened table.

    Example:
        >>> Settings.read({"halocline.protocol.autoUpgrade": "true"}).auto_upgrade
        True
    """

    release: str | None = _text(
        "halocline.release", "a release such as deltalake@1.0.2", "act as this release: refuse what it would refuse"
    )
    check_enabled: bool = _switch(
        True, "halocline.protocol.checkEnabled", "false skips the protocol check, for looking into a broken table"
    )
    auto_upgrade: bool = _switch(
        False, "halocline.protocol.autoUpgrade", "true lets a write raise the protocol when its data needs a feature"
    )
    allow_missing_protocol: bool = _switch(
        False, "halocline.protocol.allowMissing", "true takes a table without a protocol action as (1,1)"
    )
    scan_mode: ScanMode = _choice(
        "halocline.scan.mode", ScanMode, "how Spark is told which files to read; auto chooses what works"
    )
    max_bitmap_bytes: int = _bytes(
        256 * 1024 * 1024,
        "halocline.scan.maxBitmapBytes",
        "how much of deletion vectors is sent to every executor; beyond it, Python workers apply them",
    )
    fleet: str | None = _text("halocline.fleet", "grpc://host:port", "the fleet that this process joins")
    fleet_name: str | None = _text(
        "halocline.fleet.name", "a name", "who the member is, the same across restarts; made of the application's name"
    )
    fleet_role: FleetRole = _choice("halocline.fleet.role", FleetRole, "what the member does; a writer also reads")

    @staticmethod
    def read(options: Mapping[str, str] | None = None, spark: SparkSession | None = None) -> Settings:
        """Looks every setting up.

        Args:
            options: Options; those that do not begin with `halocline.` are left alone.
            spark: The session.

        Raises:
            InputError: A name is not a setting, or a value does not fit it.
        """
        given = {key: value for key, value in (options or {}).items() if key.startswith(PREFIX)}
        found = {**_of_session(spark), **{_known(key, ""): value for key, value in given.items()}}
        return Settings(**{each.name: _parsed(each, found) for each in fields(Settings) if _name(each) in found})

    def given(self) -> dict[str, str]:
        """The settings that differ from their defaults, by name, as options that `read` takes."""
        told = ((each, getattr(self, each.name)) for each in fields(self))
        return {
            _name(each): str(value).lower() if isinstance(value, bool) else str(value)
            for each, value in told
            if value != each.default
        }

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Puts these settings in force for this thread, within the block."""
        token = _in_force.set(self)
        try:
            yield
        finally:
            _in_force.reset(token)


_in_force: Final[ContextVar[Settings | None]] = ContextVar("halocline_settings", default=None)
_BY_NAME: Final[Mapping[str, Field[Any]]] = {each.metadata["setting"].name: each for each in fields(Settings)}
NAMES: Final = tuple(_BY_NAME)


def in_force(spark: SparkSession) -> Settings:
    """The settings of the table whose verb runs, or else of the session."""
    return _in_force.get() or Settings.read(spark=spark)


def declared() -> tuple[tuple[Setting, Any], ...]:
    """Every setting with its default."""
    return tuple((each.metadata["setting"], each.default) for each in fields(Settings))


def _of_session(spark: SparkSession | None) -> dict[str, str]:
    if spark is None:
        return {}
    everything = spark.conf.getAll
    for key in everything:
        if key.startswith(PREFIX):
            raise _unknown(key, _SESSION)
    own = {key: value for key, value in everything.items() if key.startswith(_SESSION + PREFIX)}
    return {_known(key.removeprefix(_SESSION), _SESSION): value for key, value in own.items()}


def _known(key: str, before: str) -> str:
    """The name of a setting; names are told apart without regard to case, which Spark does not keep in options."""
    names = {name.lower(): name for name in NAMES}
    if key.lower() not in names:
        raise _unknown(before + key, before)
    return names[key.lower()]


def _unknown(key: str, before: str) -> InputError:
    known = [before + name for name in NAMES]
    near = nearest(key, known)
    sides = {"nearest": near} if near else {"settings": ", ".join(known)}
    return InputError(f"{key} is not a setting" + (" of a session" if before else ""), sides=sides)


def _parsed(declared: Field[Any], found: Mapping[str, str]) -> Any:
    setting: Setting = declared.metadata["setting"]
    text = str(found[setting.name]).strip()
    try:
        return setting.parse(text)
    except (ValueError, KeyError):
        raise InputError(
            f"{setting.name} cannot be {text!r}", sides={"expected": setting.expected, "found": text}
        ) from None


def _name(declared: Field[Any]) -> str:
    return str(declared.metadata["setting"].name)


def documented() -> str:
    """Every setting in a table, as `docs/settings.md` shows it."""
    rows = ["| setting | values | default | meaning |", "|---|---|---|---|"]
    for each, default in declared():
        shown = "" if default is None else f"`{str(default).lower()}`"
        rows.append(f"| `{each.name}` | {each.expected} | {shown} | {each.meaning} |")
    return "\n".join(rows)
