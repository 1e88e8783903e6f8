"""What a user can set for a table, and where it is looked up.

A setting has one name everywhere. It is taken from the options given with the table, else from the Spark session under
the same name with `spark.` before it, else its default holds:

    halocline.release                 act as this release, e.g. deltalake@1.0.2: refuse what it would refuse
    halocline.protocol.checkEnabled   true; false skips the protocol check, for looking into a broken table
    halocline.protocol.autoUpgrade    false; true lets a write raise the protocol when its data needs a feature
    halocline.protocol.allowMissing   false; true takes a table without a protocol action as (1,1)
    halocline.scan.mode               manifest or paths: how Spark is told which files to read
    halocline.fleet                   grpc://host:port of the fleet that this process joins
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = "halocline."
NAMES: Final = frozenset(
    {
        "halocline.fleet",
        "halocline.protocol.allowMissing",
        "halocline.protocol.autoUpgrade",
        "halocline.protocol.checkEnabled",
        "halocline.release",
        "halocline.scan.mode",
    }
)
_SWITCH: Final = {"true": True, "false": False}
_SCAN_MODES: Final = ("manifest", "paths")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one opened table.

    Example:
        >>> Settings.read({"halocline.protocol.autoUpgrade": "true"}).auto_upgrade
        True
    """

    check_enabled: bool = True
    auto_upgrade: bool = False
    allow_missing_protocol: bool = False
    scan_mode: str | None = None
    release: str | None = None
    fleet: str | None = None

    @staticmethod
    def read(options: Mapping[str, str] | None = None, spark: SparkSession | None = None) -> Settings:
        """Looks every setting up.

        Raises:
            InputError: A name is not a setting, or a value does not fit it.
        """
        given = {key: value for key, value in (options or {}).items() if key.startswith(PREFIX)}
        if unknown := sorted(given.keys() - NAMES):
            raise InputError(f"{unknown[0]} is not a setting", sides={"settings": ", ".join(sorted(NAMES))})
        if spark is not None:
            for name in NAMES - given.keys():
                if (value := spark.conf.get(f"spark.{name}", None)) is not None:
                    given[name] = value
        scan_mode = given.get("halocline.scan.mode")
        if scan_mode is not None and scan_mode not in _SCAN_MODES:
            raise _unfit("halocline.scan.mode", scan_mode, " or ".join(_SCAN_MODES))
        return Settings(
            check_enabled=_switch(given, "halocline.protocol.checkEnabled", True),
            auto_upgrade=_switch(given, "halocline.protocol.autoUpgrade", False),
            allow_missing_protocol=_switch(given, "halocline.protocol.allowMissing", False),
            scan_mode=scan_mode,
            release=given.get("halocline.release"),
            fleet=given.get("halocline.fleet"),
        )


def _switch(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = str(given.get(name, default)).strip().lower()
    if value not in _SWITCH:
        raise _unfit(name, value, "true or false")
    return _SWITCH[value]


def _unfit(name: str, found: str, expected: str) -> InputError:
    return InputError(f"{name} cannot be {found!r}", sides={"expected": expected, "found": found})
