"""What an index table is, for people and programs, also where its splits may not be read.

The header always tells; splits are counted only for a table that may be read, and what is in the way otherwise is told
in their place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from warnings import catch_warnings, simplefilter

from halocline.compat.features import find_feature
from halocline.compat.protocol import Protocol
from halocline.compat.reports import FeatureProposal, Inspection, rows_text, schema_in
from halocline.compat.verdict import can
from halocline.errors import HaloclineError, InputError
from halocline.formats.index.history import writers as writers
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, terms_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.log.gate import own_release
from halocline.storage.base import Store


def inspect(store: Store, version: int | None = None) -> Inspection:
    """Tells what an index table is, whatever its protocol.

    Args:
        store: Where it lies.
        version: The version; the newest if not given.

    Raises:
        MalformedError: The log is damaged.
        NotFoundError: There is no table, or no such version.
    """
    replay = check_readable(store, version)
    protocol, metadata = replay.header.protocol, replay.metadata
    found = Inspection(
        root=store.root,
        version=replay.version,
        terms=terms_of(protocol or LEGACY, has_avro_state=replay.has_avro_state),
        writers=writers(store),
        state=f"version {replay.version}",
        properties=metadata.configuration,
        schema=schema_in(metadata.schema_string),
        partition_columns=tuple(metadata.partition_columns),
        notes={} if protocol else {"log": "holds no protocol"},
        facts={"hasProtocol": protocol is not None},
    )
    try:
        with catch_warnings():
            simplefilter("ignore")  # that there is no protocol is part of what is told
            snapshot = IndexSnapshot.load(store, version=found.version)
        files = snapshot.files.values()
    except HaloclineError as error:
        unknown = {"splits": None, "ownSplits": 0, "resting": 0}
        return replace(found, uncounted=f"{error.condition}: {error.message}", facts={**found.facts, **unknown})
    now_ms = time.time_ns() // 1_000_000
    resting, rows = sum(each.rests_at(now_ms) for each in snapshot.skips.values()), snapshot.rows
    notes = {"resting": f"{resting:,} splits that an operation could not use"} if resting else {}
    counts = {"splits": len(files), "ownSplits": sum(each.is_own for each in files), "resting": resting}
    return replace(
        found,
        counted=f"{len(files):,} splits · {rows_text(rows)}",
        files=len(files),
        rows=rows,
        size=sum(each.size for each in files),
        notes={**found.notes, **notes},
        facts={**found.facts, **counts},
    )


def check_readable(store: Store, version: int | None = None) -> IndexReplay:
    """Makes sure that the log of a table is not damaged, as far as this release may tell, and gives it.

    Raises:
        MalformedError: The log is damaged.
        NotFoundError: There is no table, or no such version.
    """
    replay = IndexReplay.open(store, version)
    replay.check_newest()
    terms = terms_of(replay.header.protocol or LEGACY, has_avro_state=replay.has_avro_state)
    if can(own_release(), terms, "read").ok:
        _ = replay.state
    return replay


def propose(
    store: Store, *, enable: Sequence[str] = (), drop: Sequence[str] = (), truncate_history: bool | None = None
) -> FeatureProposal:
    """What features that come in would make of a table.

    Raises:
        NotFoundError: No feature of that name is known.
        InputError: A feature is to go.
    """
    if drop:
        raise InputError(
            f"{store.root} is an index table, whose protocol only rises",
            sides={"asked for": f"drop {', '.join(drop)}", "possible": "features that come in"},
            next_step="Write its rows into a new table.",
        )
    replay = check_readable(store)
    now = replay.header.protocol or LEGACY
    names = [find_feature("index", each).name for each in enable]
    ways = {"after": now.merged(Protocol.of("index", names))} if names else {}
    terms = {way: terms_of(each, has_avro_state=replay.has_avro_state) for way, each in {"now": now, **ways}.items()}
    return FeatureProposal(replay.version, terms.pop("now"), terms)
