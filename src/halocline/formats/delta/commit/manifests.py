"""Manifests of symbolic links: lists of a table's files for engines that read folders of Parquet and no log.

Each partition has one file, `_symlink_format_manifest/<partition>/manifest`, with a URL per line, not escaped. They
show the version that was the newest when they were made, and nothing tells their readers when they are old. Such
engines know neither deletion vectors nor column mapping, so a table that uses either is refused: they would show rows
that are gone, or no values.

A table with the property `ENABLED` has its manifests written anew after every commit that changes files: those of the
partitions that it touches, or all of them where the commit switches that on or partitions the table otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import pyarrow.compute as pc

from halocline.errors import UnsupportedError
from halocline.formats.delta.actions.action import Action, Add, Remove
from halocline.formats.delta.actions.folders import folder_name
from halocline.formats.delta.actions.locations import locate
from halocline.formats.delta.configuration import properties
from halocline.formats.delta.configuration.metadata_rules import MANIFESTS as ENABLED
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.snapshot.snapshot import Snapshot

FOLDER: Final = "_symlink_format_manifest"


def are_due(before: TableConfiguration | None, after: TableConfiguration, actions: Iterable[Action]) -> bool:
    """Whether a commit leaves manifests behind that are not those of the table any more."""
    if not properties.flag(after.metadata.configuration, ENABLED):
        return False
    comes_on = before is not None and not properties.flag(before.metadata.configuration, ENABLED)
    return comes_on or any(isinstance(each, Add | Remove) for each in actions)


def touched_by(
    before: TableConfiguration | None, after: TableConfiguration, actions: Iterable[Action]
) -> frozenset[str] | None:
    """The manifests that a commit makes old; None for all of them."""
    keys = after.partition_columns
    if before is None or not properties.flag(before.metadata.configuration, ENABLED):
        return None
    if before.partition_columns != keys:
        return None
    values = [each.partition_values for each in actions if isinstance(each, Add | Remove)]
    known = [each for each in values if each is not None]
    return None if len(known) < len(values) else frozenset(_name(keys, each) for each in known)


def write_manifests(snapshot: Snapshot, only: Collection[str] | None = None) -> Sequence[str]:
    """Writes the manifests of a version, deletes those of partitions that are gone, and returns their paths.

    Args:
        snapshot: The version.
        only: The paths of those to bring up to date; all if not given.

    Raises:
        UnsupportedError: Readers of manifests would read the table wrong.
    """
    files, store, keys = snapshot.files(), snapshot.store, snapshot.partition_columns
    mode, marked = snapshot.configuration.mapping_mode, len(files) - files["deletion_vector"].null_count
    if marked or mode != "none":
        found = f"{marked} files with deletion vectors" if marked else f"column mapping by {mode}"
        raise UnsupportedError(
            f"who reads manifests would read {store.root} wrong",
            sides={"table": found, "readers of manifests": "know neither deletion vectors nor column mapping"},
            next_step="optimize().execute_purge() writes files without vectors; switch them off first."
            if marked
            else "Let such readers use another table.",
        )
    manifests: dict[str, list[str]] = {} if keys else {_name((), {}): []}
    values = (pc.map_lookup(files["partition_values"].combine_chunks(), key, "first").to_pylist() for key in keys)
    names: dict[tuple[str | None, ...], str] = {}
    for path, *texts in zip(files["path"].to_pylist(), *values, strict=True):
        group = tuple(texts)
        if group not in names:
            names[group] = _name(keys, dict(zip(keys, group, strict=True)))
        if only is None or names[group] in only:
            place, inner = locate(store, path)
            address = place.address(inner)
            line = f"file:{address}" if address.startswith("/") else address
            manifests.setdefault(names[group], []).append(line)
    old = [meta.path for meta in store.list(FOLDER)] if only is None else only
    for name, lines in manifests.items():
        store.put(name, "".join(f"{line}\n" for line in sorted(lines)).encode())
    store.delete_many([path for path in old if path not in manifests])
    return sorted(manifests)


def _name(keys: Sequence[str], values: Mapping[str, str | None]) -> str:
    return "/".join([FOLDER, *(folder_name(key, values.get(key)) for key in keys), "manifest"])
