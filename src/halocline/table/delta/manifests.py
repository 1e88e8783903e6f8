"""Manifests of symbolic links: lists of a table's files for engines that read folders of Parquet and no log.

Each partition has one file, `_symlink_format_manifest/<partition>/manifest`, with a URL per line, not escaped. They
show the version that was the newest when they were made, and nothing tells their readers when they are old. Such
engines know neither deletion vectors nor column mapping, so a table with mapped columns, or with a file that has a
vector, is refused: they would show rows that are gone, or no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from halocline.errors import InputError, UnsupportedError
from halocline.formats.delta.actions.folders import folder_name
from halocline.formats.delta.actions.locations import locate
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionValues
from halocline.table.delta.opened import Opened

FOLDER: Final = "_symlink_format_manifest"
MODES: Final = ("symlink_format_manifest",)


def generate_manifests(table: Opened, mode: str = MODES[0]) -> Sequence[str]:
    """Writes the manifests of the newest version, deletes those of partitions that are gone, and returns their paths.

    Args:
        table: The table.
        mode: What to make: `symlink_format_manifest`.

    Raises:
        InputError: There is no such mode.
        UnsupportedError: Readers of manifests would read the table wrong.

    Example:
        >>> Table.for_path("lake/orders").generate()  # doctest: +SKIP
        ['_symlink_format_manifest/manifest']
    """
    if mode.lower() not in MODES:
        raise InputError.unknown(f"there is no manifest of kind {mode!r}", mode, MODES)
    snapshot = table.snapshot()
    files, layout = snapshot.files(), FileLayout.of(snapshot.configuration)
    marked = len(files) - files["deletion_vector"].null_count
    if marked or layout.mapping_mode != "none":
        found = f"{marked} files with deletion vectors" if marked else f"column mapping by {layout.mapping_mode}"
        raise UnsupportedError(
            f"who reads manifests would read {table.url} wrong",
            sides={"table": found, "readers of manifests": "know neither deletion vectors nor column mapping"},
            next_step="optimize().execute_purge() writes files without vectors; switch them off first."
            if marked
            else "Let such readers use another table.",
        )
    values = PartitionValues(files, layout.partition_keys, table.zone)
    manifests: dict[str, list[str]] = {} if layout.partition_keys else {f"{FOLDER}/manifest": []}
    for path, group in zip(files["path"].to_pylist(), values.group_of.tolist(), strict=True):
        texts = zip(values.columns, values.texts[group], strict=True)
        folders = [folder_name(column.key, text) for column, text in texts]
        store, inner = locate(table.store, path)
        address = store.address(inner)
        line = f"file:{address}" if address.startswith("/") else address
        manifests.setdefault("/".join([FOLDER, *folders, "manifest"]), []).append(line)
    old = [meta.path for meta in table.store.list(FOLDER)]
    for name, lines in manifests.items():
        table.store.put(name, "".join(f"{line}\n" for line in sorted(lines)).encode())
    table.store.delete_many([path for path in old if path not in manifests])
    return sorted(manifests)
