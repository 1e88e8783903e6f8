"""What can be wrong with a real Hudi table, mostly with its properties, and the repair where there is one.

Releases of Apache Hudi have left all of these behind. A finding says what is the matter and whom it hurts. A repair
changes the properties alone, and only in a way that every release reads as before or better. It is one
compare-and-swap: what another writer has changed meanwhile is never undone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow.compute as pc

from halocline.compat.breaks import Client
from halocline.compat.reports import Fixed, LintReport
from halocline.errors import ConflictError, HaloclineError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.avro.avro_names import (
    is_java_name,
    is_strict_name,
    names_in,
    record_names_in,
    with_avro_names,
)
from halocline.formats.hudi.completeness import lost_files
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType, TableType
from halocline.formats.hudi.names import BaseFile, LogFile
from halocline.formats.hudi.partition_folders import DEFAULT_PARTITION, path_problem
from halocline.formats.hudi.properties import CHECKSUM, FILES, FOLDER, checksum, encode, read_properties
from halocline.formats.hudi.slices import FileGroup, data_files, file_groups, files_beside_timeline, late_files
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import newest_schema, terms_of
from halocline.formats.hudi.timeline.instant import WRITES
from halocline.formats.hudi.timeline.metadata import CommitMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.storage.base import Store

HURTS: Final[Mapping[str, str]] = {
    "NEW_ORDERING_KEY": "releases before 1.1 do not know the key, and let late rows win without a word",
    "OLD_PAYLOAD_CLASS": "of rows in log files, releases from 1.0 on keep the one written last",
    "COMPLEX_ONE_KEY": "releases spell such keys in two ways, so an update of one becomes a second row of another",
    "CHECKSUM_MISSING": "a half-written file cannot be told from a whole one",
    "METADATA_TABLE_MISSING": "clients that list files with it find none, or fail",
    "INDEXES_NOT_KEPT": "a write by Halocline is refused, or takes them out if halocline.hudi.dropIndexes is set",
    "BACKUP_LEFT": "a client that finds the properties half-written goes back to those of the backup",
    "RECORD_NAME": "neither Apache Hudi nor hudi-rs opens the table, whose name is made part of the schema",
    "COLUMN_NAMES": "clients that parse the schema by Avro's rules do not open the table",
    "PARTITION_MISTAKEN": "clients leave rows of that partition out, show other values, or read nothing",
    "FILES_LOST": "readers find fewer rows than were written, some of them without a word",
    "LATE_FILES": "clients that list folders find the rows of those files twice, or refuse the table",
    "PENDING_WRITES": "what they wrote takes room and counts for nobody; the next writer takes them back",
}
"""The codes of findings, and whom each one hurts."""

_METADATA_FOLDER: Final = f"{FOLDER}/metadata"


@dataclass(frozen=True)
class HudiFinding:
    """Something that is wrong.

    Attributes:
        code: Its name.
        what: What is the matter.
        sets: The properties that would put it right.
        removes: Those that would have to go.
        by_hand: What to do where there is no repair.
    """

    code: str
    what: str
    sets: Mapping[str, str] = field(default_factory=dict)
    removes: frozenset[str] = frozenset()
    by_hand: str = ""

    @property
    def hurts(self) -> str:
        """Whom it hurts, and how."""
        return HURTS[self.code]

    @property
    def safe(self) -> bool:
        """Whether it can be repaired."""
        return bool(self.sets or self.removes)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {"code": self.code, "what": self.what, "hurts": self.hurts, "safe": self.safe, "byHand": self.by_hand}


def lint(store: Store, *, clients: Sequence[Client] = ()) -> LintReport[HudiFinding]:
    """Looks for what is wrong with a table's properties, and for files that are gone.

    Raises:
        MalformedError: They cannot be read at all.
        NotFoundError: There is no table.
    """
    pairs = read_properties(store).pairs
    config = HudiTableConfig.parse(pairs, store.root)
    protocol = terms_of(store).protocol
    return LintReport(store.root, protocol.reader, protocol, protocol, tuple(_findings(store, config)))


def fix(store: Store, approve: Callable[..., str], *, clients: Sequence[Client] = ()) -> Fixed:
    """Repairs what can be repaired; no client is asked more than before, so none has to approve.

    Raises:
        ConflictError: Another writer has changed the properties meanwhile; nothing was changed here.
    """
    codes = _repaired(store)
    found = lint(store)
    return Fixed(None, found.protocol, found.protocol, (), codes, "", found.findings)


def _repaired(store: Store) -> tuple[str, ...]:
    stored = read_properties(store)
    config = HudiTableConfig.parse(stored.pairs, store.root)
    found = [each for each in _findings(store, config) if each.safe]
    if not found or stored.etag is None:
        return ()
    if stored.path != f"{FOLDER}/{FILES[0]}":
        raise ConflictError(
            f"the properties of {store.root} are being replaced by another writer",
            sides={"found": stored.path, "expected": f"{FOLDER}/{FILES[0]}"},
            next_step="Run it again when that writer has finished, or restore the file from its backup.",
        )
    pairs = dict(stored.pairs)
    for each in found:
        pairs |= each.sets
        for key in each.removes:
            pairs.pop(key, None)
    store.put_if_match(stored.path, encode(pairs, datetime.now(UTC)), stored.etag)
    return tuple(each.code for each in found)


def _findings(store: Store, config: HudiTableConfig) -> Iterator[HudiFinding]:
    pairs = config.pairs
    modes = terms_of(store).in_use or frozenset()
    if "mergeOnRead:newOrderingKey" in modes and config.version <= 8 and len(config.ordering_fields) == 1:
        what = f"{keys.ORDERING_FIELDS} at table version {config.version}, without {keys.PRECOMBINE_FIELD}"
        yield HudiFinding("NEW_ORDERING_KEY", what, {keys.PRECOMBINE_FIELD: config.ordering_fields[0]})
    if not modes.isdisjoint({"mergeOnRead:overwriteWithLatest", "mergeOnRead:overwriteNonDefaults"}):
        what = f"{config.payload_class} with an ordering field, made by a release before 1.0"
        hand = "let one kind of release read it, or read it here with halocline.hudi.mergeRules"
        yield HudiFinding("OLD_PAYLOAD_CLASS", what, by_hand=hand)
    if config.key_generator is KeyGeneratorType.COMPLEX and len(config.record_keys) == 1:
        what = f"a complex key generator with the one key {config.record_keys[0]}"
        yield HudiFinding("COMPLEX_ONE_KEY", what, by_hand="write with one kind of release; look at stored keys first")
    if CHECKSUM not in pairs and config.version >= 4:
        yield HudiFinding("CHECKSUM_MISSING", f"no {CHECKSUM}", {CHECKSUM: checksum(pairs)})
    if config.metadata_partitions and next(iter(store.list(_METADATA_FOLDER)), None) is None:
        what = f"{keys.METADATA_PARTITIONS} names partitions, and {_METADATA_FOLDER} is empty"
        yield HudiFinding("METADATA_TABLE_MISSING", what, removes=frozenset({keys.METADATA_PARTITIONS}))
    elif config.indexes:
        hand = "write with the writer that made them, or let them go and build them again"
        yield HudiFinding("INDEXES_NOT_KEPT", f"the metadata table has {', '.join(config.indexes)}", by_hand=hand)
    if store.exists(f"{FOLDER}/{FILES[1]}"):
        hand = "delete it if no writer is at work"
        yield HudiFinding("BACKUP_LEFT", f"{FOLDER}/{FILES[1]} lies beside the properties", by_hand=hand)
    timeline = HudiTimeline.load(store, config)
    files = [*data_files(store), *files_beside_timeline(timeline)]
    replaced = timeline.replaced_groups()
    groups = [each for each in file_groups(timeline, files) if (each.partition, each.file_id) not in replaced]
    yield from _unusual_names(timeline, groups)
    yield from _mistaken_partitions(timeline, {each.partition for each in groups})
    if lost := _lost(timeline, files):
        what = f"{len(lost)} files of completed writes are not there, the first {lost[0]}"
        yield HudiFinding("FILES_LOST", what, by_hand="restore them from a copy")
    if late := sorted(each.path for each in late_files(timeline, files)):
        what = f"{len(late)} files of attempts that came too late lie beside those that count, the first {late[0]}"
        yield HudiFinding("LATE_FILES", what, by_hand="clean()")
    pending = [each for each in timeline.instants if not each.is_completed and each.is_write]
    if pending:
        hand = "write to the table, or run the table service that is pending"
        yield HudiFinding("PENDING_WRITES", f"{len(pending)} not completed, the first {pending[0]}", by_hand=hand)


def _unusual_names(timeline: HudiTimeline, groups: Sequence[FileGroup]) -> Iterator[HudiFinding]:
    """Names in the schema that Avro does not allow. Those of records are of no use to rows, so they can be changed."""
    created = timeline.config.pairs.get(keys.CREATE_SCHEMA, "")
    newest = newest_schema(timeline.store, timeline.instants) or created
    names = sorted(each for each in set(names_in(_parsed(newest))) if not is_strict_name(each))
    if names:
        who = "hudi-rs does not read them" if all(map(is_java_name, names)) else "Apache Hudi and hudi-rs do not"
        what = f"columns or fields are named {', '.join(map(repr, names[:5]))}: {who}"
        yield HudiFinding("COLUMN_NAMES", what, by_hand="copy the rows to a new table with other names")
    merging = timeline.config.type is TableType.MERGE_ON_READ
    if not all(map(is_strict_name, record_names_in(_parsed(newest)))):
        hand = "write to the table once, then compact()" if merging else "write to the table once"
        yield HudiFinding("RECORD_NAME", f"the newest write says the schema of {timeline.config.name}", by_hand=hand)
    elif not all(map(is_strict_name, record_names_in(_parsed(created)))):
        what = f"{keys.CREATE_SCHEMA} says the schema of {timeline.config.name}"
        if merging and any(each.logs for group in groups if (each := group.slice_at())):
            yield HudiFinding("RECORD_NAME", f"{what}, and log files may", by_hand="compact()")
        else:
            made = json.dumps(with_avro_names(_parsed(created)), separators=(",", ":"))
            yield HudiFinding("RECORD_NAME", what, {keys.CREATE_SCHEMA: made})


def _parsed(schema: str) -> Any:
    """A schema, or nothing if it is none: whoever reads the table says so."""
    with suppress(ValueError):
        return json.loads(schema)
    return None


def _mistaken_partitions(timeline: HudiTimeline, partitions: Collection[str]) -> Iterator[HudiFinding]:
    """Partitions whose folders clients take for something else; there is no repair that keeps the rows' values."""
    config = timeline.config
    for partition in sorted(partitions):
        if problem := path_problem(partition, config):
            hand = f"read its rows here, delete_partition({partition!r}), and write them with another value"
            if not (config.url_encoded and config.hive_style):
                hand += ", or copy all rows to a table created with url_encoded=True, hive_style=True"
            yield HudiFinding("PARTITION_MISTAKEN", f"partition {partition!r}: {problem}", by_hand=hand)
    for name, partition in _values_named_as_null(timeline, partitions):
        what = f"partition {partition!r}: rows have the name of null as the value of {name}, which others show as null"
        yield HudiFinding("PARTITION_MISTAKEN", what, by_hand=f"write those rows with another value of {name}")


def _values_named_as_null(timeline: HudiTimeline, partitions: Collection[str]) -> Iterator[tuple[str, str]]:
    """The fields, and the partitions of null, of which a row has Hive's name for null as its real value."""
    names = [each.name for each in timeline.config.partition_fields]
    wanted = {each for each in partitions if DEFAULT_PARTITION in each}
    if not wanted:
        return
    with suppress(HaloclineError):  # a table that cannot be read has findings of its own
        snapshot = HudiSnapshot.load(timeline.store)
        for slice in (each for each in snapshot.slices if each.partition in wanted):
            batches = list(snapshot.reader(names, merging=bool(slice.logs)).read(timeline.store, slice))
            for name in names:
                if any(DEFAULT_PARTITION in pc.unique(batch[name]).to_pylist() for batch in batches):
                    yield name, slice.partition


def _lost(timeline: HudiTimeline, files: Sequence[BaseFile | LogFile]) -> list[str]:
    """Files that are not there, told by all writes that the table remembers."""
    active = [(each.time, metadata) for each, metadata in timeline.metadata_of_writes()]
    older = [
        (each.time, CommitMetadata.parse(each.body, f"{each.time} of the history of {timeline.store.root}"))
        for each in timeline.history()
        if each.action in WRITES
    ]
    return [file.path for file, _ in lost_files(timeline, files, [*older, *active])]
