"""What a Hudi table is, for people and programs, also where its rows cannot be read.

The properties and the timeline always tell; the slices are counted only for a table that may be read, and what is in
the way otherwise is told in their place. Commits name nobody, so their writer is inferred from the table version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from halocline.compat.reports import FeatureProposal, Inspection, Observed, Writers, lowest_writer
from halocline.compat.verdict import can
from halocline.errors import HaloclineError, InputError
from halocline.formats.hudi.configuration import PARTITION_FIELDS, HudiTableConfig
from halocline.formats.hudi.properties import TYPE, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import table_terms, terms_of
from halocline.formats.hudi.timeline.timeline import HudiTimeline, active_writes
from halocline.formats.log.gate import own_release
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.json_edge import to_json
from halocline.storage.base import Store


def inspect(store: Store, version: int | None = None) -> Inspection:
    """Tells what a Hudi table is.

    Args:
        store: Where it lies.
        version: An instant; the newest if not given.

    Raises:
        MalformedError: Its properties cannot be read.
        NotFoundError: There is no table, or its files of that instant are gone.
    """
    check_readable(store)
    pairs = properties(store)
    terms, writes, type = terms_of(store), active_writes(store), pairs.get(TYPE, "")
    last = writes[-1].time if writes else None
    found = Inspection(
        root=store.root,
        version=int(last or 0),
        terms=terms,
        writers=writers(store),
        state=f"{type.lower().replace('_', ' ')} · {last or 'no write yet'}",
        properties=pairs,
        partition_columns=tuple(filter(None, pairs.get(PARTITION_FIELDS, "").split(","))),
        facts={"tableVersion": terms.protocol.reader, "type": type, "lastWrite": last, "writes": len(writes)},
    )
    try:
        snapshot = HudiSnapshot.load(store, as_of=None if version is None else str(version))
    except HaloclineError as error:
        if version is not None:
            raise
        return replace(found, uncounted=f"{error.condition}: {error.message}")
    files = sum((each.base is not None) + len(each.logs) for each in snapshot.slices)
    pending = [str(each) for each in snapshot.timeline.instants if not each.is_completed]
    return replace(
        found,
        schema=to_json(struct_of_arrow(snapshot.schema.columns)),
        counted=f"{files:,} files",
        files=files,
        size=sum(each.size for each in snapshot.slices),
        notes={"pending": ", ".join(pending)} if pending else {},
        facts={**found.facts, "pending": pending},
    )


def writers(store: Store) -> Writers:
    """Who writes the table: the lowest release that may, since commits name nobody."""
    terms, writes = terms_of(store), active_writes(store)
    last = max((each.written_ms for each in writes), default=None)
    return Writers((Observed(lowest_writer("hudi", terms.protocol), len(writes), 0, last, inferred=True),), len(writes))


def check_readable(store: Store) -> None:
    """Makes sure that a table is not damaged, as far as this release may tell.

    Raises:
        MalformedError: Its properties or its timeline are damaged.
        NotFoundError: There is no table.
    """
    pairs = properties(store)
    if can(own_release(), table_terms(pairs, store.root), "read").ok:
        HudiTimeline.load(store, HudiTableConfig.parse(pairs, store.root)).metadata_of_writes()


def propose(
    store: Store, *, enable: Sequence[str] = (), drop: Sequence[str] = (), truncate_history: bool | None = None
) -> FeatureProposal:
    """The table as it is: it has one version, and no features to switch.

    Raises:
        InputError: A feature is to change.
    """
    if enable or drop:
        raise InputError(
            f"{store.root} is a Hudi table, which has one version and no features to switch",
            sides={"asked for": ", ".join([*enable, *drop]), "possible": "another table version"},
            next_step=f"halocline move {store.root} --to VERSION --dry-run",
        )
    check_readable(store)
    writes = active_writes(store)
    return FeatureProposal(int(writes[-1].time) if writes else 0, terms_of(store))
