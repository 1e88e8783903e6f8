"""Manifests on demand; see `halocline.formats.delta.commit.manifests`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from halocline.errors import InputError
from halocline.formats.delta.commit.manifests import write_manifests
from halocline.table.delta.opened import Opened

MODES: Final = ("symlink_format_manifest",)


def generate_manifests(table: Opened, mode: str = MODES[0]) -> Sequence[str]:
    """Writes the manifests of the newest version, deletes those of partitions that are gone, and returns their paths.

    A table with `delta.compatibility.symlinkFormatManifest.enabled=true` has that done after each of its commits.

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
    table.check_may_change("generate")
    return write_manifests(table.snapshot())
