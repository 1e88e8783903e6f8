"""What every table format offers: which one lies at a place, and what a version of a table is to whoever opens it.

A format shows by its log: a folder with a file that every table of that format has. Looking costs one short listing
per format. A folder without any is no table, which is an error with a name; one with several is a table in the middle
of moving, and the caller must say which side is meant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Protocol, Self

from halocline.compat.breaks import Client
from halocline.compat.protocol import Protocol as TableProtocol
from halocline.compat.reports import FeatureProposal, Fixed, Inspection, LintReport, Writers
from halocline.compat.terms import Terms
from halocline.errors import InputError, NotFoundError
from halocline.formats.hudi import properties
from halocline.formats.log.names import LOG_FOLDERS
from halocline.storage.base import Store


class TableVersion(Protocol):
    """A version of a table, opened behind the gate: what every format says of it."""

    @property
    def store(self) -> Store:
        """Where the table lies."""

    @property
    def version(self) -> int:
        """The number of the version."""

    @property
    def protocol(self) -> TableProtocol:
        """What the table requires at this version."""

    @property
    def terms(self) -> Terms:
        """The protocol, and what is in use under it."""

    def reopened(self, operation: str) -> Self:
        """The same version for another operation, behind the gate once more."""

    def is_newest(self) -> bool:
        """Whether no later version has been committed meanwhile."""

    def at_level(self, level: int) -> Self:
        """The same version, used at a level of its format's ladder and no higher."""


class Inspector(Protocol):
    """What the room of a format tells of a table without reading its rows."""

    def inspect(self, store: Store, version: int | None = None) -> Inspection:
        """What the table is, whatever its protocol, as far as this release may tell."""

    def check_readable(self, store: Store) -> object:
        """Makes sure that the table is not damaged, as far as this release may tell; raises `MalformedError` if so."""

    def writers(self, store: Store) -> Writers:
        """Who wrote the table."""

    def propose(
        self,
        store: Store,
        *,
        enable: Sequence[str] = (),
        drop: Sequence[str] = (),
        truncate_history: bool | None = None,
    ) -> FeatureProposal:
        """What switching features on and taking others out would make of the table."""


class Linter(Protocol):
    """What the room of a format finds wrong with a table, and repairs."""

    def lint(self, store: Store, *, clients: Sequence[Client] = ()) -> LintReport[Any]:
        """What is wrong with the table; clients are some that its log does not tell of."""

    def fix(self, store: Store, approve: Callable[..., str], *, clients: Sequence[Client] = ()) -> Fixed:
        """Repairs what is safe to repair, if who is asked approves."""


class TableFormat(StrEnum):
    """The formats that are known."""

    DELTA = "delta"
    HUDI = "hudi"
    INDEX = "index"


_VERSIONED: Final = re.compile(r"\d{20}\.(?:json|checkpoint\..+)|state-v\d{20}/.+")
_ENOUGH: Final = 10_000
_LOOKED_AT: Final = 1000


def formats_at(store: Store) -> tuple[TableFormat, ...]:
    """Every format that has a log at the store's root; empty for a folder that is no table."""
    return tuple(each for each in TableFormat if _has_log(store, each))


def detect_format(store: Store) -> TableFormat:
    """The format of the table at the store's root."""
    found = formats_at(store)
    if len(found) == 1:
        return found[0]
    if not found:
        expected = ", ".join(f"{folder}/ ({each})" for each, folder in LOG_FOLDERS.items())
        there, next_step = _found_instead(store)
        raise NotFoundError(
            f"no table at {store.root}",
            condition="TABLE_NOT_FOUND",
            sides={"looked for": expected, "found": there},
            next_step=next_step,
        )
    raise InputError(
        f"{store.root} is more than one table",
        sides={"found": " and ".join(found), "expected": "one format"},
        next_step="Say which one is meant.",
    )


def inspector_of(format: TableFormat) -> Inspector:
    """Who tells of tables of a format."""
    # Imported here: most who ask for the format of a table do not look into it.
    match format:
        case TableFormat.DELTA:
            from halocline.formats.delta.maintain import inspection as delta

            return delta
        case TableFormat.HUDI:
            from halocline.formats.hudi import inspection as hudi

            return hudi
        case TableFormat.INDEX:
            from halocline.formats.index import inspection as index

            return index


def linter_of(format: TableFormat) -> Linter:
    """Who finds what is wrong with tables of a format."""
    match format:
        case TableFormat.DELTA:
            from halocline.formats.delta.maintain import lint as delta

            return delta
        case TableFormat.HUDI:
            from halocline.formats.hudi import lint as hudi

            return hudi
        case TableFormat.INDEX:
            from halocline.formats.index.maintain import lint as index

            return index


def _found_instead(store: Store) -> tuple[str, str]:
    """What lies where no table is, and what to do about it."""
    root = store.root.rstrip("/")
    above, _, name = root.rpartition("/")
    if name in LOG_FOLDERS.values():
        return "the log of a table", f"Open the folder above it: {above}"
    paths = [meta.path for meta in islice(store.list(""), _LOOKED_AT)]
    for path in paths:
        folders = path.split("/")[:-1]
        at = next((at for at, each in enumerate(folders) if each in LOG_FOLDERS.values()), 0)
        if at:
            inner = "/".join(folders[:at])
            return f"a table below it: {inner}", f"Open {root}/{inner}, or all of them with Lake.discover."
    if any(path.endswith(".parquet") for path in paths):
        return "Parquet files, and no log", "Make a table of them: Table.convert_to_delta(path, spark)"
    if paths:
        return f"other files, such as {paths[0]}", "Check the path; a table is the folder that holds its log."
    if os.path.isfile(store.address()):
        return "a file", "Check the path; a table is the folder that holds its log, not a file in it."
    return "nothing", "Check the path, and create a table there with Table.create if there is to be one."


def _has_log(store: Store, format: TableFormat) -> bool:
    folder = LOG_FOLDERS[format]
    if format is TableFormat.HUDI:
        return any(store.exists(f"{folder}/{name}") for name in properties.FILES)
    names = (meta.path.removeprefix(f"{folder}/") for meta in islice(store.list(folder), _ENOUGH))
    return any(_VERSIONED.fullmatch(name) for name in names)
