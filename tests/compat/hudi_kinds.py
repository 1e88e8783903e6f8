"""Hudi tables of every kind that releases read differently: made by our writer, and by Apache Hudi itself.

Rows are compared as text, because clients differ in the types that they show. What a table must return is stated here
for ours, and by the release that wrote it for Apache Hudi's, which lie beside the project; without them only ours are
tried. What a table asks for is told by the table itself, as for `halocline check`.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from tests.support.hudi_conformance import BEGIN, END, EXPECTED, FORMAT, SPARK, partition_values_as_stored
from tests.support.hudi_groups import upsert_groups
from tests.support.hudi_tables import HudiTableMaker

from halocline.compat.terms import Terms
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import ChangeLogging, KeyGeneratorType, MergeMode, TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact, schedule_compaction
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import FILES, FOLDER, encode, properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.storage import open_store

COLUMNS = ("id", "ts", "name")
AFTER_FIRST = "after the first write"
_COW, _MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
_OLD = {0: "a", 1: "a", 2: "a", 4: "a", 5: "a"}
_TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd/HH",
    "hoodie.keygen.timebased.timezone": "UTC",
}


@dataclass(frozen=True)
class Range:
    """An incremental query, as (begin, end], and what it returns."""

    begin: str
    end: str | None
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class HudiCase:
    """One table and what it must return.

    Attributes:
        name: Short, unique, and what the report calls it.
        build: Writes the table into an empty folder.
        rows: The rows of a snapshot.
        asked: An incremental query.
        changes: How many changes the log of changes has after the first write; None if there is none.
        writable: Whether changing a row of it is tried.
        late: Whether rows came late, that a merge rule shows by; the others look alike under all rules.
        product: The only product that is tried on it; empty for all.
        columns: The columns that are compared.
        must_refuse: The operations that are wrong whatever comes out.
    """

    name: str
    build: Callable[[Path], object]
    rows: Sequence[tuple[str, ...]]
    asked: Range | None = None
    changes: tuple[str, int] | None = None
    writable: bool = False
    late: bool = True
    product: str = ""
    columns: tuple[str, ...] = COLUMNS
    must_refuse: tuple[str, ...] = ()

    @cached_property
    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """The table, made once, for those that only read it."""
        made = tempfile.TemporaryDirectory(prefix="halocline-compat-")
        self.build(Path(made.name))
        return made

    @cached_property
    def range(self) -> Range | None:
        """The incremental query, in times of this table."""
        if self.asked is None or self.asked.begin != AFTER_FIRST:
            return self.asked
        snapshot = HudiSnapshot.load(open_store(self.folder.name))
        first = snapshot.timeline.writes[0]
        return replace(self.asked, begin=(first.completion if snapshot.config.layout > 1 else None) or first.time)

    @cached_property
    def terms(self) -> Terms:
        """What the table asks of whoever uses it, told by the table."""
        return terms_of(open_store(self.folder.name))

    @property
    def protocol(self) -> str:
        return str(self.terms.protocol)


def kinds() -> list[HudiCase]:
    """The tables of our writer, then those of Apache Hudi."""
    return [*_made(), *_of_apache_hudi()]


# ------------------------------------------------------------------ made by our writer


def _made() -> Iterable[HudiCase]:
    for version in (6, 8, 9):
        yield _case(f"copy on write, {version}", _writes(version, _COW, late=False), _expected(200))
        yield _case(f"by event time, {version}", _writes(version, _MOR), _expected(200))
        by_commit = _writes(version, _MOR, merge_mode=MergeMode.COMMIT_TIME_ORDERING, ordering_fields=[])
        yield _case(f"by commit time, {version}", by_commit, _expected(150))
        # Up to version 6 entries of log files compare by the ordering field; from 8 on the mode says what holds.
        ordered = _writes(version, _MOR, merge_mode=MergeMode.COMMIT_TIME_ORDERING)
        yield _case(
            f"by commit time, with an ordering field, {version}", ordered, _expected(200 if version == 6 else 150)
        )
        yield _case(f"a pending compaction, {version}", _pending(version), _expected(200))
        yield _case(f"after every table service, {version}", _served(version, _MOR), _expected(200))
        yield _case(f"copy on write, after every table service, {version}", _served(version, _COW), _expected(200))
        yield _case(f"partitioned by times, {version}", _by_times(version), _TIMED, writable=False)
        whole = _writes(version, _COW, late=False, partition_fields=[])
        yield _case(f"copy on write, without partitions, {version}", whole, _expected(200))
        rows = _expected(200)
        for type, what in ((_COW, "copy on write"), (_MOR, "merge on read")):
            logging = {"change_logging": ChangeLogging.DATA_BEFORE_AFTER}
            logged = _case(f"logged changes, {what}, {version}", _grouped(version, type, **logging), rows)
            yield replace(logged, changes=_CHANGES)
            bare = _case(f"without meta columns, {what}, {version}", _bare(version, type), rows)
            yield replace(bare, asked=Range(AFTER_FIRST, None, [row for row in rows if row[1] == "200"]))
            yield _case(f"a bucket index, {what}, {version}", _grouped(version, type, buckets=3), rows)
    for version in (6, 8):
        changed = _changed(_writes(version, _MOR), _with_new_ordering_key)
        yield _case(f"the ordering key of 1.2, {version}", changed, _expected(200))
        yield _case(
            f"copy on write, the ordering key of 1.2, {version}",
            _changed(_writes(version, _COW, late=False), _with_new_ordering_key),
            _expected(200),
        )
    for payload in ("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"):
        yield _case(f"{payload}, 6", _changed(_writes(6, _MOR), _with_payload(payload)), _expected(200))
    own = _changed(_writes(6, _MOR), _with_payload("OwnPayload", "com.example."))
    yield replace(_case("a payload class of the owner, 6", own, _expected(200)), product="hudi-rs")
    by_type = _changed(_writes(6, _COW, late=False, partition_fields=[]), _with_new_key_generator)
    yield _case("copy on write, without partitions, the key generator of 1.2, 6", by_type, _expected(200))
    for source, target in ((6, 8), (6, 9), (8, 9), (9, 8), (9, 6), (8, 6)):
        for type, what in ((_COW, "copy on write"), (_MOR, "merge on read")):
            moved = _moved(source, target, type)
            yield _case(f"moved from {source} to {target}, {what}", moved, _expected(200))
    whole = _moved(9, 6, _COW, partition_fields=[])
    yield _case("moved from 9 to 6, copy on write, without partitions", whole, _expected(200))


def _case(
    name: str, build: Callable[[Path], object], rows: Sequence[tuple[str, ...]], writable: bool = True
) -> HudiCase:
    return HudiCase(f"ours: {name}", build, rows, writable=writable)


def _expected(ts: int) -> Sequence[tuple[str, ...]]:
    """The rows after three writes: the second row is the later one, or that which was written last."""
    changed = {1: (200, "b"), 2: (ts, "b" if ts == 200 else "late"), 7: (200, "b")}
    both = {number: (100, tag) for number, tag in _OLD.items()} | changed
    return [(f"k{number}", str(at), f"{tag}{number}") for number, (at, tag) in sorted(both.items())]


_CHANGES = ("000", 10)
"""All changes of a table that logs them: six rows are new, then one more, two are changed and one goes."""

_TIMED = [(f"k{number}", "1700000000000", f"a{number}") for number in range(4)]


def _first(folder: Path, version: int, type: TableType, **options: object) -> HudiTableMaker:
    table = HudiTableMaker.create(open_store(folder), version, type, **options)
    table.upsert(range(6), 100, "a")
    return table


def _writes(version: int, type: TableType, *, late: bool = True, **options: object) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        table = _first(folder, version, type, **options)
        table.upsert([1, 2, 7], 200, "b", deletes=[3])
        if late:
            table.upsert([2], 150, "late")

    return build


def _grouped(version: int, type: TableType, **options: object) -> Callable[[Path], HudiTableMaker]:
    """Written with what Spark's tasks write with, which make tables of every kind."""

    def build(folder: Path) -> HudiTableMaker:
        table = HudiTableMaker.create(open_store(folder), version, type, **options)
        upsert_groups(table, range(6), 100, "a")
        upsert_groups(table, [1, 2, 7], 200, "b", deletes=[3])
        return table

    return build


def _bare(version: int, type: TableType) -> Callable[[Path], None]:
    """Without meta columns; base files that were written last hold rows of other writes as well."""

    def build(folder: Path) -> None:
        table = _grouped(version, type, meta_columns=False)(folder)
        if type is _MOR:
            compact(table.store)
            upsert_groups(table, [1], 200, "b")

    return build


def _pending(version: int) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        table = _first(folder, version, _MOR)
        table.upsert([1, 2, 7], 150, "c", deletes=[3])
        assert schedule_compaction(table.store) is not None
        table.upsert([1, 2, 7], 200, "b")

    return build


def _served(version: int, type: TableType) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        table = _first(folder, version, type)
        table.upsert([1, 7], 200, "b", deletes=[3])
        if type is _MOR:
            compact(table.store)
        cluster(table.store, sort_by=["id"])
        table.upsert([2], 200, "b")
        clean(table.store, keep=1)
        archive(table.store, keep=1, at_most=1)

    return build


def _by_times(version: int) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        by = {"partition_fields": ["ts"], "key_generator": KeyGeneratorType.TIMESTAMP, "key_settings": _TIMES}
        table = HudiTableMaker.create(open_store(folder), version, _COW, **by)
        table.upsert(range(4), 1_700_000_000_000, "a")

    return build


def _moved(source: int, target: int, type: TableType, **options: object) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        _writes(source, type, late=type is _MOR, **options)(folder)
        store = open_store(folder)
        apply_move(store, plan_move(store, target), grace_s=0)

    return build


def _changed(
    build: Callable[[Path], None], change: Callable[[dict[str, str]], dict[str, str]]
) -> Callable[[Path], None]:
    """A table whose properties another writer would have written so."""

    def built(folder: Path) -> None:
        build(folder)
        store = open_store(folder)
        store.put(f"{FOLDER}/{FILES[0]}", encode(change(dict(properties(store))), datetime.now(UTC)))

    return built


def _with_new_ordering_key(pairs: dict[str, str]) -> dict[str, str]:
    field = pairs.pop(keys.PRECOMBINE_FIELD)
    return pairs | {keys.ORDERING_FIELDS: field}


def _with_new_key_generator(pairs: dict[str, str]) -> dict[str, str]:
    del pairs[keys.KEY_GENERATOR_CLASS]
    return pairs | {keys.KEY_GENERATOR_TYPE: str(KeyGeneratorType.NON_PARTITION)}


def _with_payload(
    name: str, package: str = "org.apache.hudi.common.model."
) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda pairs: pairs | {keys.PAYLOAD_CLASS: package + name}


# ------------------------------------------------------------------ made by Apache Hudi


def _of_apache_hudi() -> Iterable[HudiCase]:
    if not SPARK.is_dir():
        return
    for name, said in EXPECTED.items():
        queries = {query["id"]: query for query in said["queries"]}
        columns = _columns(said)
        rows = _shown(partition_values_as_stored(name, queries["snapshot"]), columns)
        asked = queries.get("incr_c1_last")
        range_ = None if asked is None else _range(name, asked, columns)
        logged = next((query for query in said["queries"] if query["options"].get(FORMAT) == "cdc"), None)
        changes = None if logged is None else (logged["options"][BEGIN], len(logged["rows"]))
        late = name.endswith(("_commit", "_event"))
        yield HudiCase(name, _unpacking(SPARK / f"{name}.zip"), rows, range_, changes, late=late, columns=columns)


def _columns(said: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in ("id", "ts", "name", "region", "qty", "price") if name in _first_row(said))


def _first_row(said: Mapping[str, object]) -> Mapping[str, object]:
    queries = said["queries"]
    assert isinstance(queries, list)
    row: Mapping[str, object] = queries[0]["rows"][0]
    return row


def _range(name: str, query: Mapping[str, object], columns: Sequence[str]) -> Range:
    """The range as (begin, end]. 1.0.2, which wrote the tables `v8_…`, counts the begin in."""
    options = query["options"]
    assert isinstance(options, dict)
    begin = str(int(options[BEGIN]) - 1) if name.startswith("v8_") else options[BEGIN]
    return Range(begin, options.get(END), _shown(partition_values_as_stored(name, dict(query)), columns))


def _shown(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(str(row[name]) for name in columns) for row in rows]


def _unpacking(archive: Path) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                inside = Path(*Path(member.filename).parts[1:])
                if member.is_dir() or not inside.parts:
                    continue
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).write_bytes(packed.read(member))

    return build
