"""Tables that streams read, one name after the other, and what Spark does with the reader of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from halocline.formats.delta.actions.action import Add, CommitInfo, Metadata, ProtocolAction, Remove, encode_commit
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.incremental import settled_time
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import DELTA, INDEX
from halocline.schema import Struct
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.json_edge import dump
from halocline.source.hudi import HudiStreamReader
from halocline.source.index import IndexStreamReader
from halocline.source.options import SourceOptions
from halocline.source.read_limits import ReadAllAvailable
from halocline.source.stream import DeltaStreamReader
from halocline.spark.types.columns import spark_schema
from halocline.storage import open_store
from tests.support import columns
from tests.support.hudi_tables import COLUMNS as HUDI_COLUMNS
from tests.support.hudi_tables import HudiTableMaker

COLUMNS = Struct([columns.field("id", "long")])


class IndexStreams:
    """An index table whose splits do not exist."""

    layout, reader, columns = INDEX, IndexStreamReader, COLUMNS

    def __init__(self, path) -> None:
        self.path, self.store = str(path), open_store(str(path))
        IndexTransaction.create(self.store, COLUMNS).commit([], "CREATE TABLE")

    def add(self, name) -> None:
        added = SplitAdd(name, {}, 9, 0, True, num_records=1)
        IndexTransaction(IndexSnapshot.load(self.store, operation="write")).commit([added], "WRITE")

    @staticmethod
    def names(partitions):
        return [part.path for each in partitions for part in each.parts]


class DeltaStreams:
    """A Delta table whose files do not exist."""

    layout, reader, columns = DELTA, DeltaStreamReader, COLUMNS

    def __init__(self, path) -> None:
        self.path, self.store = str(path), open_store(str(path))
        self.version = -1
        self._commit(ProtocolAction(1, 2), Metadata("t", schema_string=dump(COLUMNS)))

    def _commit(self, *actions) -> None:
        self.version += 1
        self.store.put_if_absent(DELTA.commit_path(self.version), encode_commit([CommitInfo({}), *actions]))

    def add(self, name) -> None:
        self._commit(Add(name, {}, 9, 0, True))

    def rewrite(self, name, other) -> None:
        """Puts the rows of a file into another one, as compaction does."""
        self._commit(Remove(name, 1, False), Add(other, {}, 9, 0, False))

    @staticmethod
    def names(partitions):
        return [file.file.path for each in partitions for file in each.files]


class HudiStreams:
    """A Hudi table of one row for each name, which is a number."""

    version, reader, columns = 8, HudiStreamReader, struct_of_arrow(HUDI_COLUMNS)

    def __init__(self, path) -> None:
        self.path, self.store = str(path), open_store(str(path))
        self.maker = HudiTableMaker.create(self.store, self.version, TableType.COPY_ON_WRITE)

    def add(self, name) -> None:
        self.maker.upsert([ord(name)], 100, "a")

    def time(self) -> str:
        """How far the table has come."""
        return settled_time(self.maker.snapshot.timeline)

    def names(self, partitions):
        reader = opened(self)
        batches = (batch for part in partitions for batch in reader.read(part))
        return [chr(int(key[1:])) for batch in batches for key in batch["id"].to_pylist()]


class HudiStreamsOfLayout1(HudiStreams):
    """The same, whose positions are other times."""

    version = 6


def opened(table, **options):
    """A new reader of a stream."""
    asked = SourceOptions.read({"path": table.path, **{key.lower(): value for key, value in options.items()}})
    return table.reader(asked, spark_schema(table.columns.fields), None)


class Death(StrEnum):
    """When a query dies."""

    BEFORE = "before the batch is planned"
    DURING = "when the batch is planned and read, and its target does not have it"
    AFTER = "when the target has the batch, and Spark has not noted it"


class DiedError(Exception):
    """The query has died."""


@dataclass
class StreamedQuery:
    """What Spark does with a reader: it stores the end of a batch before it runs it, and runs it again after a crash.

    Attributes:
        open: Opens a reader, as each start of the query does.
        names: What partitions deliver.
        says_start: Whether this Spark says where a stream is when it asks how far to go.
        offsets: The ends of the batches that were planned.
        done: How many batches Spark has noted as done.
        target: What each batch has brought to the target, which takes each batch once.
    """

    open: Callable[[], Any]
    names: Callable[[Any], list[str]]
    says_start: bool
    offsets: list[str] = field(default_factory=list)
    done: int = 0
    target: dict[int, list[str]] = field(default_factory=dict)

    @property
    def delivered(self) -> list[str]:
        return sorted(name for names in self.target.values() for name in names)

    def run(self, meanwhile: Callable[[], bool], dies: tuple[int, Death] | None = None) -> None:
        """Runs until nothing is new and nothing happens any more.

        Args:
            meanwhile: What happens to the table while a batch is planned; says whether anything did.
            dies: The batch, and when in it.
        """
        reader = self.open()
        while True:
            number = self.done

            def may_die(now: Death, number: int = number) -> None:
                if dies == (number, now):
                    raise DiedError

            start = json.loads(self.offsets[number - 1]) if number else None
            if len(self.offsets) == number:
                end, happened = self._planned(reader, start, meanwhile)
                if json.dumps(end) == json.dumps(start):
                    if happened:
                        continue
                    return
                may_die(Death.BEFORE)
                self.offsets.append(json.dumps(end))
            begins = json.loads(json.dumps(reader.initialOffset())) if start is None else start
            names = self.names(reader.partitions(begins, json.loads(self.offsets[number])))
            may_die(Death.DURING)
            self.target.setdefault(number, names)
            may_die(Death.AFTER)
            self.done += 1

    def _planned(self, reader: Any, start: Any, meanwhile: Callable[[], bool]) -> tuple[Any, bool]:
        if not self.says_start:
            end = reader.latestOffset()
            return end, meanwhile()
        begins = json.loads(json.dumps(reader.initialOffset())) if start is None else start
        happened = meanwhile()
        limit = reader.getDefaultReadLimit() if ReadAllAvailable is not None else None
        return reader.latestOffset(begins, limit), happened
