"""Writing rows into new files of a table.

Spark writes Parquet into a fresh folder below the table, and the files stay where they are: nothing is renamed, which
on an object store would be a copy. The folder is this write's own, and Spark's committer leaves in it only what
successful tasks wrote, so its content is exactly the result. Partition folders inside have the usual names.

Files come back described as a log wants them, with statistics from their footers. Until a log names them they are
nobody's: a write that fails deletes its folder, and what a crash leaves behind is found by vacuum.

Tables on stores that Spark has no file system for are written by Python workers; see
`halocline.spark.write.arrow_write`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from halocline.errors import ConstraintError, HaloclineError, StorageFullError
from halocline.formats.delta.actions.folders import parse_folder
from halocline.spark.scan.footers import at_once, footers
from halocline.spark.session.file_system import remove_folder, spark_address
from halocline.spark.session.session import check_session, settings, tagged, unabridged
from halocline.spark.types.columns import holds
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.arrow_write import ArrowWriter, WrittenFile, write_through_workers
from halocline.spark.write.file_stats import Wanted, stats_text
from halocline.spark.write.physical import Physical
from halocline.storage.base import ObjectMeta, Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["WrittenFile", "all_or_nothing", "write_files"]

TAG: Final = "halocline-write"
"""The tag of Spark jobs that write."""

# Not every release takes these as options of a write, so they are set on the session while it lasts.
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # Twelve-byte timestamps have no bounds, and other readers have dropped them.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
# Variants are stored whole; taking them apart is a table feature of its own.
_VARIANT_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
}
_PAUSES: Final = (0.0, 0.2, 0.4, 0.8)
_NO_ROOM: Final = re.compile(r"No space left on device|Disk quota exceeded")
_NO_FOLDER: Final = re.compile(r"Mkdirs failed to create (.+?) \(exists=", re.DOTALL)
_LONGEST_NAME: Final = 255
"""How many bytes a local disk takes in the name of a folder."""

_OPTIONS: Final[Mapping[str, str]] = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


def write_files(
    df: DataFrame,
    store: Store,
    layout: FileLayout,
    configuration: Mapping[str, str] | None = None,
    *,
    under: str = "",
    name: str | None = None,
    max_records: int | None = None,
) -> list[WrittenFile]:
    """Writes rows with a table's logical columns into new files, in the order of their paths; none without rows.

    The table's properties say what statistics to keep and how to compress. Files go into a folder of their own, below
    the root or below another folder, such as `_change_data`; its name is a fresh one unless it is given.
    """
    spark = df.sparkSession
    check_session(spark)
    writer = ArrowWriter.of(store, layout, configuration or {}, under=under, name=name, max_records=max_records)
    physical, folder = writer.physical, writer.folder
    rows = physical.frame(df)
    address = None if isinstance(store, MemoryStore) else spark_address(spark, store.address(folder))
    variant = any(holds(field.type, ("variant",)) for field in physical.data)
    with all_or_nothing(store, folder), tagged(spark, TAG), unabridged(rows):
        if address is None:
            return write_through_workers(rows, writer)
        with settings(spark, {**_SETTINGS, **(_VARIANT_SETTINGS if variant else {})}):
            saving = rows.write.options(**_OPTIONS).option("maxRecordsPerFile", max_records or 0)
            saving = saving.option("compression", writer.codec) if writer.codec else saving
            (saving.partitionBy(*physical.keys) if physical.keys else saving).parquet(address)
        return _adopted(store, folder, physical, writer.wanted)


def _adopted(store: Store, folder: str, physical: Physical, wanted: Wanted) -> list[WrittenFile]:
    """The files of a folder that Spark has committed."""
    found: list[ObjectMeta] = []
    waste: list[str] = []
    for meta in store.list(folder):
        inner = meta.path[len(folder) + 1 :]
        hidden = any(part.startswith((".", "_")) and "=" not in part for part in inner.split("/"))
        (waste.append(meta.path) if hidden else found.append(meta))
    read = footers(store, [(meta.path, meta.size) for meta in found])
    # A frame without rows leaves a file without rows.
    waste += [meta.path for meta, footer in zip(found, read, strict=True) if not footer.num_rows]
    at_once(store.delete, waste)
    if not any(footer.num_rows for footer in read):
        remove_folder(store, folder)
    return [
        WrittenFile(
            path=meta.path,
            size=meta.size,
            modification_time=meta.modified_ms,
            partition_values=physical.values(dict(map(parse_folder, meta.path[len(folder) + 1 :].split("/")[:-1]))),
            num_records=footer.num_rows,
            stats=stats_text(footer, wanted),
        )
        for meta, footer in zip(found, read, strict=True)
        if footer.num_rows
    ]


@contextlib.contextmanager
def all_or_nothing(store: Store, folder: str) -> Iterator[None]:
    """Deletes the folder if writing fails, and says so if the disk is full or cannot name a partition's folder."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(HaloclineError, OSError):
            _swept(store, folder)
        if _NO_ROOM.search(str(error)):
            raise StorageFullError(
                f"{store.root} has no room left for the rows",
                sides={"folder": folder},
                next_step="Make room on the disk, or raise the quota, and try again.",
            ) from None
        if any(map(_cannot_be_named, _NO_FOLDER.findall(str(error)))):
            raise ConstraintError(
                f"a partition value makes no name of a folder below {store.root}; nothing was written",
                sides={"store": "names of at most 255 bytes, without NUL", "rows": "a longer value, or one with NUL"},
                next_step="Shorten the values of the partition columns, or partition by another column.",
            ) from None
        raise


def _cannot_be_named(folder: str) -> bool:
    """Whether a part of a path is no name for a local disk, which a partition value makes it."""
    return any("\0" in part or len(part.encode()) > _LONGEST_NAME for part in folder.split("/"))


def _swept(store: Store, folder: str) -> None:
    """Deletes all files of a folder, also those that tasks of the ended job still finish in the next moment.

    What a task writes even later is nobody's, and left to vacuum.
    """
    for pause in _PAUSES:
        time.sleep(pause)
        found = [meta.path for meta in store.list(folder)]
        store.delete_many(found)
        remove_folder(store, folder)
        if pause and not found:
            return
