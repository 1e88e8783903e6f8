"""What can be told about a table by looking at its log: what it is, what it requires, and what a change would bring.

Inspecting needs no permission: it starts from the header, which any table has, and goes on as far as this release may.
Only the number of files is behind the gate; where that stays shut, the reason is told instead. Behind it, everything is
read that a reader would read, so a log that is damaged is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from halocline.compat.reports import FeatureProposal, Inspection, rows_text, schema_in
from halocline.errors import HaloclineError
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.configuration.column_mapping import mode_of, physical_name
from halocline.formats.delta.features import support
from halocline.formats.delta.log.header import TableHeader, read_sound_header
from halocline.formats.delta.snapshot.detail import checksum_finding
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.snapshot.writers import writers as writers
from halocline.schema.visitor import walk
from halocline.storage.base import Store

MAPPING: Final = "columnMapping"


def inspect(store: Store, version: int | None = None) -> Inspection:
    """Looks at a table, whatever its protocol."""
    header = check_readable(store, version)
    metadata = header.metadata
    found = Inspection(
        root=header.root,
        version=header.version,
        terms=header.terms,
        writers=writers(store),
        state=f"version {header.version}",
        properties=metadata.configuration,
        schema=schema_in(metadata.schema_string),
        partition_columns=metadata.partition_columns,
        findings=header.findings(),
    )
    try:
        snapshot = Snapshot.load(store, version=header.version)
    except HaloclineError as error:
        return replace(found, uncounted=f"{error.condition}: {error.message}")
    files, size = snapshot.totals
    rows = all_live_rows(snapshot.files(columns=["stats", "deletion_vector"]))
    wrong = checksum_finding(snapshot)
    findings = (*found.findings, *((wrong,) if wrong else ()))
    counted = f"{files:,} files · {rows_text(rows)}"
    return replace(found, counted=counted, files=files, rows=rows, size=size, findings=findings)


def check_readable(store: Store, version: int | None = None) -> TableHeader:
    """Makes sure that a table is not damaged, as far as this release may tell, and gives its header.

    Raises:
        MalformedError: Its log is damaged, or its columns are not what its properties say.
    """
    header = read_sound_header(store, version)
    if header.lenient_protocol.supports(MAPPING):
        mode = mode_of(header.metadata.configuration)
        for _, field in walk(header.metadata.schema) if mode != "none" else ():
            physical_name(field, mode)
    return header


def propose(
    store: Store, *, enable: Sequence[str] = (), drop: Sequence[str] = (), truncate_history: bool | None = None
) -> FeatureProposal:
    """What switching features on and taking others out would make of a table; see `features.support.propose`."""
    return support.propose(check_readable(store), enable=enable, drop=drop, truncate_history=truncate_history)
