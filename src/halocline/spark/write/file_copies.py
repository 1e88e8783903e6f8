"""Files written again by copying them: some rows left out, some values replaced, everything else as it was.

Where few rows of a file change, Spark would decode and encode all the others for nothing but to write them again; Arrow
does that several times as fast. A *copy* is one file with what is to become of it: the positions of the rows to leave
out, and a *patch*, which has for some positions the values of some columns, as Spark has computed them. Rows stay in
their order. One file comes of one, or several of a large one; files that are to become one are copied *together*.

With a local master the driver copies, in as many threads as Spark has cores; else tasks do, in Python workers, which
need Halocline installed.

The limits, where a copier is not to be had: types that Arrow does not have, stores that Spark reaches and this process
may not, settings for Spark's own Parquet writer, and the one that has its reader shift timestamps. A file with dates in
the calendar of old releases of Spark cannot be copied either; see `notes_of`. Of others it shows only on the way:
values that Arrow does not take, such as text that is no UTF-8, or nested ones that are too much for it at once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from halocline._version import __version__
from halocline.errors import InternalError, UnsupportedError
from halocline.formats.delta.actions.locations import is_absolute, locate
from halocline.schema.arrow import PRIMITIVES
from halocline.schema.types import DataType, Field, Primitive, Struct, decimal_of
from halocline.schema.visitor import types
from halocline.spark.scan.arrow_scan import ArrowFile, ArrowReader, is_julian
from halocline.spark.scan.packing import packed
from halocline.spark.session.file_system import spark_address
from halocline.spark.session.session import is_connect, remembered, setting, tagged
from halocline.spark.session.settings import RewriteMode, in_force
from halocline.spark.session.tasks import in_tasks
from halocline.spark.session.worker_errors import raised_by_worker
from halocline.spark.types.file_columns import without_void
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.arrow_fit import ArrowFit, logical_column
from halocline.spark.write.arrow_write import CODECS, ArrowWriter, WrittenFile
from halocline.spark.write.physical import Physical
from halocline.spark.write.writer import TAG, all_or_nothing
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POSITION: Final = "__halocline_position"
_TASK_BYTES: Final = 64 * 1024 * 1024
_MOST_THREADS: Final = 8
"""Each holds a row group or two, decoded."""

_LOCAL: Final = re.compile(r"local(\[.*\])?")
_CODEC: Final = "spark.sql.parquet.compression.codec"
_RELEASE: Final = "org.apache.spark.version"
_FOR_SPARKS_WRITER: Final = ("parquet.", "spark.hadoop.parquet.")
_SHIFTED: Final = "spark.sql.parquet.int96TimestampConversion"
"""Has Spark take old timestamps of other writers for times of the session's zone."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Values that replace those of some rows of a file.

    Attributes:
        positions: The positions of the rows, in order; none of them is left out.
        values: The new values of each, by the names of the columns.
    """

    positions: npt.NDArray[np.int64]
    values: pa.Table


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file to copy.

    Attributes:
        file: The file; what is deleted of it is left out.
        values: Its partition values as the log has them.
        patch: The values that replace others, if any do.
        notes: What the footers of the new files say beside the columns; see `notes_of`.
    """

    file: ArrowFile
    values: Mapping[str, str | None]
    patch: Patch | None
    notes: Mapping[str, str]


def notes_of(footer: Any) -> dict[str, str] | None:
    """What the copies of a file must say as well, by its footer; None for a file that cannot be copied.

    Releases of Spark before 4.0 take old dates only from files that say which release wrote them.
    """
    if is_julian(footer):
        return None
    release = (footer.metadata or {}).get(_RELEASE.encode())
    return {} if release is None else {_RELEASE: release.decode(errors="replace")}


@dataclass(frozen=True, slots=True)
class FileCopier:
    """Copies files of one table into a folder of it.

    Attributes:
        reader: Reads the columns that files hold, and the position of each row.
        writer: Writes the columns.
    """

    reader: ArrowReader
    writer: ArrowWriter

    @staticmethod
    def find(
        spark: SparkSession,
        store: Store,
        layout: FileLayout,
        properties: Mapping[str, str],
        name: str,
        paths: Iterable[str],
    ) -> FileCopier | None:
        """One that copies the files of these paths as Spark would write them; None if there is none.

        The copies are in the folder of that name.
        """
        layout = layout.with_nulls
        writer = ArrowWriter.of(store, layout, properties, name=name)
        writer = replace(writer, codec=writer.codec or setting(spark, _CODEC, "snappy").lower())
        reader = ArrowReader(store, layout.mapping_mode, without_void(layout.data), (), {}, row=_POSITION, alone=True)
        possible = (
            writer.codec in CODECS
            and all(_is_copied(field.type) for field in layout.data)
            and not any(key.startswith(_FOR_SPARKS_WRITER) for key in spark.conf.getAll)
            and setting(spark, _SHIFTED, "false").lower() != "true"
            and _are_reached(spark, store, paths)
        )
        return FileCopier(reader, writer) if possible else None

    def copy_all(
        self, spark: SparkSession, together: Sequence[Sequence[FileCopy]], *, file_bytes: int | None = None
    ) -> list[WrittenFile]:
        """Copies files, each with those that it is together with, and describes the new ones by the order of paths.

        New files are not much longer than is said, or than a usual one.

        Raises:
            UnsupportedError: Arrow cannot copy what is in a file; nothing of the copies is left.
        """
        store, folder = self.writer.store, self.writer.folder
        made = self if file_bytes is None else replace(self, writer=replace(self.writer, file_bytes=file_bytes))
        with all_or_nothing(store, folder), tagged(spark, TAG):
            if _is_here(spark, store):
                found = made._in_threads(spark, together)
            else:
                found = made._in_tasks(spark, together)
                counted = {file.path for file in found}
                store.delete_many(meta.path for meta in store.list(folder) if meta.path not in counted)
        return sorted(found, key=lambda file: file.path)

    def copy(self, together: Sequence[FileCopy]) -> list[WrittenFile]:
        """Copies files of one partition into one, if it is not too long; there is none if no row is left."""
        data = Struct(self.reader.fields)
        fit = ArrowFit(data, Physical(FileLayout(data, (), self.reader.mode)), self.writer.store.root)
        batches = (fit(batch) for copy in together for batch in self._batches(copy))
        notes = together[0].notes if all(copy.notes for copy in together) else {}
        try:
            return self.writer.write_partition(together[0].values, batches, notes)
        except pa.ArrowException as error:
            paths = ", ".join(copy.file.path for copy in together)
            raise UnsupportedError(
                f"Arrow cannot copy {paths[:200]}",
                sides={"found": str(error)[:200]},
                next_step="Set halocline.rewrite.mode to spark.",
            ) from error

    def __call__(self, parts: Sequence[Sequence[FileCopy]]) -> bytes:
        """What a task does."""
        return msgspec.json.encode([file for together in parts for file in self.copy(together)])

    def _in_threads(self, spark: SparkSession, together: Sequence[Sequence[FileCopy]]) -> list[WrittenFile]:
        cores = 1 if is_connect(spark) else spark.sparkContext.defaultParallelism
        # One more than there are cores: one of them waits until its file is on disk.
        with ThreadPoolExecutor(max(1, min(cores + 1, len(together), _MOST_THREADS)), "halocline") as pool:
            under_way = [pool.submit(self.copy, copies) for copies in together]
            try:
                return [file for each in under_way for file in each.result()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _in_tasks(self, spark: SparkSession, together: Sequence[Sequence[FileCopy]]) -> list[WrittenFile]:
        parts = list(packed(together, lambda copies: sum(copy.file.size for copy in copies), _TASK_BYTES))
        try:
            told = in_tasks(spark, self, parts)
        except Exception as error:  # the classes differ between classic Spark and Connect
            raise raised_by_worker(error) or error from error
        return [file for each in told for file in msgspec.json.decode(each, type=list[WrittenFile])]

    def _batches(self, copy: FileCopy) -> Iterator[pa.RecordBatch]:
        fields = self.reader.fields
        for batch in self.reader.read(copy.file):
            if batch.num_rows:
                rows = batch.select(range(len(fields)))
                positions = batch.column(len(fields)).to_numpy()
                yield rows if copy.patch is None else _patched(rows, positions, copy.patch, fields)


def _patched(
    rows: pa.RecordBatch, positions: npt.NDArray[np.int64], patch: Patch, fields: Sequence[Field]
) -> pa.RecordBatch:
    """The rows with the values of the patch that are for their positions."""
    first, last = np.searchsorted(patch.positions, [positions[0], positions[-1] + 1])
    if first == last:
        return rows
    values = patch.values.slice(first, last - first).combine_chunks().to_batches()[0]
    wanted, taken = patch.positions[first:last], np.arange(rows.num_rows)
    places = np.searchsorted(positions, wanted)
    if not np.array_equal(positions[places], wanted):
        raise InternalError("values are for rows that are not there; nothing was committed")
    taken[places] = rows.num_rows + np.arange(last - first)
    columns = rows.columns
    for number, field in enumerate(fields):
        if field.name in values.schema.names:
            both = pa.concat_arrays([rows.column(number), logical_column(values, field)])
            columns[number] = both.take(pa.array(taken))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _is_copied(type: DataType) -> bool:
    """Whether Arrow has the type, and everything in it."""
    inside = (each for _, each in types(type) if isinstance(each, Primitive))
    return all(each.name in PRIMITIVES or decimal_of(each) is not None for each in inside)


def _is_here(spark: SparkSession, store: Store) -> bool:
    """Whether this process is the one that copies."""
    local = not is_connect(spark) and _LOCAL.fullmatch(setting(spark, "spark.master", "")) is not None
    return local or isinstance(store, MemoryStore)


def _are_reached(spark: SparkSession, store: Store, paths: Iterable[str]) -> bool:
    """Whether those who copy reach the store and the files: folders are everywhere the same.

    So is what only they reach; of a store that Spark reaches as well, this process may not have the keys.
    """
    mode = in_force(spark).rewrite_mode
    if mode is RewriteMode.SPARK:
        return False
    if mode is RewriteMode.AUTO:
        holders = (locate(store, path) for path in paths if is_absolute(path))
        addresses = itertools.chain([store.address()], (holder.address(inner) for holder, inner in holders))
        if any(not each.startswith("/") and spark_address(spark, each) for each in addresses):
            return False
    return _is_here(spark, store) or remembered(spark, "copying workers", lambda: _workers_copy(spark))


def _workers_copy(spark: SparkSession) -> bool:
    """Whether Python workers have this release of Halocline; that they do not is no error here."""

    def answer(_: int) -> bytes:  # sent as it stands, so that workers without Halocline can answer as well
        try:
            from halocline._version import __version__ as theirs
        except ImportError:
            return b""
        return theirs.encode()

    try:
        return in_tasks(spark, answer, [0]) == [__version__.encode()]
    except Exception:
        return False
