"""Every setting there is: its name, type, default and meaning, declared once.

A setting has one name everywhere. It is taken from the options given with a table, else from the Spark session under
the same name with `spark.` before it, else its default holds. A name that is not declared here is refused with the
nearest one that is, wherever it was given. The table in `docs/settings.md` is made from this module.

The settings of a table are *in force* while one of its verbs runs, so that what the verb stands on asks `in_force`
rather than be handed them through every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError
from halocline.spark.session import declarations
from halocline.spark.session.declarations import choice, number, switch, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = "halocline."
_SESSION: Final = "spark."


class ScanMode(StrEnum):
    """How a scan tells Spark which files to read."""

    AUTO = "auto"
    MANIFEST = "manifest"
    PATHS = "paths"
    ARROW = "arrow"


class RewriteMode(StrEnum):
    """Who writes the rows again that a change leaves as they are."""

    AUTO = "auto"
    SPARK = "spark"
    ARROW = "arrow"


class LogReplay(StrEnum):
    """Who lists the files in a table's checkpoint."""

    DRIVER = "driver"
    SPARK = "spark"


class HudiMergeRules(StrEnum):
    """Whose reading of a Hudi table's merge rule holds, where releases of Apache Hudi differ."""

    OF_TABLE = "table"
    BEFORE_1 = "0.x"
    FROM_1 = "1.x"


class FleetRole(StrEnum):
    """What a member of a fleet does."""

    WRITER = "writer"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one opened table.

    Example:
        >>> Settings.read({"halocline.protocol.autoUpgrade": "true"}).auto_upgrade
        True
    """

    release: str | None = text(
        "halocline.release", "a release such as deltalake@1.0.2", "act as this release: refuse what it would refuse"
    )
    check_enabled: bool = switch(
        "halocline.protocol.checkEnabled",
        "false skips the protocol check, for looking into a broken table; changes of tables are refused then",
        default=True,
    )
    auto_upgrade: bool = switch(
        "halocline.protocol.autoUpgrade", "true lets a write raise the protocol when its data needs a feature"
    )
    allow_missing_protocol: bool = switch(
        "halocline.protocol.allowMissing", "true takes a table without a protocol action as (1,1)"
    )
    scan_mode: ScanMode = choice(
        "halocline.scan.mode", ScanMode, "how Spark is told which files to read; auto chooses what works"
    )
    max_bitmap_bytes: int = number(
        "halocline.scan.maxBitmapBytes",
        "how much of deletion vectors is sent to every executor; beyond it, Python workers apply them",
        default=256 * 1024 * 1024,
        expected="a number of bytes",
    )
    rewrite_mode: RewriteMode = choice(
        "halocline.rewrite.mode",
        RewriteMode,
        "who writes files of a Delta table again of which few rows change; auto has Arrow copy them, unless the table "
        "is on a store that Spark reaches by itself and Python may not",
    )
    log_replay: LogReplay = choice(
        "halocline.log.replay",
        LogReplay,
        "who lists the files in a Delta table's checkpoint; spark has tasks do it, for tables of very many files",
    )
    hudi_merge_rules: HudiMergeRules = choice(
        "halocline.hudi.mergeRules",
        HudiMergeRules,
        "whose reading of a Hudi table's merge rule holds; that of the releases that made the table if left at `table`",
    )
    index_cache_folder: str | None = text(
        "halocline.index.cacheFolder",
        "a local path",
        "where machines keep unpacked indexes for the next search; a folder of the user's own below the temporary one",
    )
    index_cache_bytes: int = number(
        "halocline.index.cacheBytes",
        "how much of unpacked indexes a machine keeps; 0 keeps none",
        default=4 * 1024**3,
        expected="a number of bytes",
    )
    hudi_buckets: int = number(
        "halocline.hudi.buckets",
        "how many buckets a Hudi table with a bucket index has; 0 lets its file groups tell",
        default=0,
        expected="a number of buckets",
    )
    hudi_small_file_limit: int = number(
        "halocline.hudi.smallFileLimit",
        "below how many bytes a base file of a Hudi table takes new rows of `insert`, `append` and `upsert` before new "
        "file groups do, as `hoodie.parquet.small.file.limit` of Apache Hudi, where it is 104857600; 0 always makes "
        "new ones, and writes that add rows side by side never meet",
        default=0,
        expected="a number of bytes",
    )
    hudi_keys_at_once: int = number(
        "halocline.hudi.keysAtOnce",
        "how many keys of an `upsert` or `delete` are taken to the file groups of a Hudi table, which are read only "
        "where they may hold one; of more keys, those of all file groups of the touched partitions are taken to them",
        default=500_000,
        expected="a number of keys",
    )
    hudi_bridge: bool = switch(
        "halocline.hudi.bridge",
        "true gets along with both sides of a move of a Hudi table: a write that a move overtakes is done again, "
        "and log files completed in another order than they began (non-blocking concurrency) are refused",
    )
    hudi_drop_indexes: bool = switch(
        "halocline.hudi.dropIndexes",
        "true lets a write take out the indexes in a Hudi table's metadata table, which are not kept up to date here",
    )
    fleet: str | None = text("halocline.fleet", "grpc://host:port", "the fleet that this process joins")
    fleet_name: str | None = text(
        "halocline.fleet.name", "a name", "who the member is, the same across restarts; made of the application's name"
    )
    fleet_role: FleetRole = choice("halocline.fleet.role", FleetRole, "what the member does; a writer also reads")

    @staticmethod
    def read(options: Mapping[str, str] | None = None, spark: SparkSession | None = None) -> Settings:
        """Looks every setting up; options that do not begin with `halocline.` are left alone."""
        given = {key: value for key, value in (options or {}).items() if key.lower().startswith(PREFIX)}
        found = {**_of_session(spark), **{_known(key, ""): value for key, value in given.items()}}
        return Settings(**declarations.parsed(Settings, found))

    def given(self) -> dict[str, str]:
        """The settings that differ from their defaults, by name, as options that `read` takes."""
        told = {each.name: (getattr(self, own.name), own.default) for each, own in _DECLARED.values()}
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, (value, default) in told.items()
            if value != default
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
_DECLARED: Final = declarations.declarations(Settings)
NAMES: Final = tuple(each.name for each, _ in _DECLARED.values())


def in_force(spark: SparkSession | None) -> Settings:
    """The settings of the table whose verb runs, or else of the session."""
    return _in_force.get() or Settings.read(spark=spark)


def documented() -> str:
    """Every setting in a table, as `docs/settings.md` shows it."""
    return declarations.documented(((each, own.default) for each, own in _DECLARED.values()), "setting")


def _of_session(spark: SparkSession | None) -> dict[str, str]:
    if spark is None:
        return {}
    everything = spark.conf.getAll
    for key in everything:
        strange = key.lower().startswith(_SESSION + PREFIX) and not key.startswith(_SESSION + PREFIX)
        if strange or key.lower().startswith(PREFIX):
            raise _unknown(key, _SESSION)
    own = {key: value for key, value in everything.items() if key.startswith(_SESSION + PREFIX)}
    return {_known(key.removeprefix(_SESSION), _SESSION): value for key, value in own.items()}


def _known(key: str, before: str) -> str:
    if key.lower() not in _DECLARED:
        raise _unknown(before + key, before)
    return key.lower()


def _unknown(key: str, before: str) -> InputError:
    message = f"{key} is not a setting" + (" of a session" if before else "")
    return InputError.unknown(message, key, [before + name for name in NAMES])
