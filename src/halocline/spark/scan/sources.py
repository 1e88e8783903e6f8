"""Where the rows of a native scan come from: a manifest, or a list of paths.

A manifest is the normal way. Where a session does not take it, Spark is given the paths of the files instead, which is
public interface but slower to plan: it asks for the status of each file. The setting `halocline.scan.mode` of the
session chooses by hand: `auto`, `manifest`, `paths`, or `arrow` for no native scan at all.

Spark passes over an empty file in a list of paths without a word. So a scan compares the size of each file with the one
that the log knows: of all files in a list of paths, of local ones in a manifest, and wherever Arrow opens a file. Of a
remote file in a manifest that would cost a request each: Spark refuses one that is empty or cut when it reads it, and
does not notice a whole Parquet file that was put in its place.

Every file has a *key*: a number that is its own, its *mark*, and the number of its partition group in the bits above.

The position of a row in its file is `_metadata.row_index` in public. Spark's reader puts it into a column of an inner
name first, and takes it from there into a structure that it makes for every row. Releases that are known to do so are
asked for the inner column, which is far cheaper. They refuse it in a plan that could also ask for the public one: any
plan in which `_metadata` is left over unused. So positions are for scans that use the key wherever they use them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.errors import UnsupportedError
from halocline.spark.scan.manifest import CHECKED, KEY_SQL, READ_OPTIONS, Manifests, literal, url_of
from halocline.spark.session.session import setting, settings
from halocline.spark.session.settings import ScanMode
from halocline.spark.types.columns import quoted
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY: Final = "__halocline_key"
ROW: Final = "__halocline_row"
MOST_FILES: Final = 1 << 26
"""Keys have 53 bits, since Spark multiplies them by a thousand: room for as many files, each with its own group."""

INNER_ROW: Final = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills with positions; a table's own column of this name is beyond it."""

_ROW_SQL: Final = "_metadata.row_index"
_INNER_ROW_SQL: Final = f"coalesce({INNER_ROW}, CAST(raise_error('Spark did not number the rows') AS bigint))"
_READERS: Final = "spark.sql.sources.useV1SourceList"
_PASSED_OVER: Final = "spark.sql.files.ignoredPathSegmentRegex"
_HIDDEN: Final = "^[._]"
_NUMBERING: Final = ("4.0.", "4.1.", "4.2.", "4.3.")
_PATH: Final = "__halocline_path"
_PATH_SQL: Final = (
    "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^file:/+', 'file:/')"  # `+` is itself there
)
_FILE_URL: Final = re.compile(r"^file:/+")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that Spark reads.

    Attributes:
        number: Its number in the scan.
        group: The number of its partition group.
        address: Its unescaped address, by which Spark reaches it.
        size: Its length in bytes.
    """

    number: int
    group: int
    address: str
    size: int


@dataclass(frozen=True, slots=True)
class Source:
    """A native scan, before anything is made of its columns.

    Attributes:
        frame: The columns of the read schema.
        bits: The bits of a key that are the mark.
        key: SQL for the key of a row's file.
        row: SQL for the position of a row in its file.
    """

    frame: DataFrame
    bits: int
    key: str = KEY_SQL
    row: str = _ROW_SQL

    @property
    def mark(self) -> str:
        """SQL for the mark of a row's file."""
        return f"({self.key} & {(1 << self.bits) - 1}L)"

    @property
    def group(self) -> str:
        """SQL for the number of a row's partition group."""
        return f"CAST(shiftright({self.key}, {self.bits}) AS int)"


def _reader_of(spark: SparkSession) -> dict[str, str]:
    """What to set so that Spark reads every file, by the reader that knows manifests and `_metadata`."""
    named = [name.strip().lower() for name in setting(spark, _READERS, "parquet").split(",")]
    reader = {} if "parquet" in named else {_READERS: ",".join(["parquet", *filter(None, named)])}
    # A session may be set to pass over other names. Those that Spark passes over by itself are read through Arrow.
    passes_over = spark.conf.get(_PASSED_OVER, None)
    return reader if passes_over in (None, _HIDDEN) else {**reader, _PASSED_OVER: _HIDDEN}


class Sources:
    """The sources of one scan. Leave `opened` only after the plan has been analysed."""

    def __init__(self, spark: SparkSession, manifests: Manifests, by_manifest: bool) -> None:
        self._spark = spark
        self._manifests = manifests
        self.by_manifest: Final = by_manifest

    @staticmethod
    @contextlib.contextmanager
    def opened(spark: SparkSession, store: Store, base: str, mode: ScanMode) -> Iterator[Sources]:
        """Chooses between manifest and paths, and cleans up afterwards."""
        reader = _reader_of(spark)
        with Manifests(spark, store, base) as manifests, settings(spark, reader):
            # Files in a manifest are passed over by their names when the plan runs, those in a list when it is made.
            if mode is not ScanMode.PATHS and _PASSED_OVER not in reader and manifests.usable():
                yield Sources(spark, manifests, by_manifest=True)
                return
            if mode is ScanMode.MANIFEST:
                found = {_PASSED_OVER: "set"} if _PASSED_OVER in reader else {}
                raise UnsupportedError(
                    f"Spark {spark.version} does not take manifests as they are written here",
                    sides={"session": f"Spark {spark.version}", "halocline.scan.mode": str(mode), **found},
                    next_step=f"spark.conf.unset({next(iter(found), 'spark.halocline.scan.mode')!r})",
                )
            # More than a few paths would otherwise be looked up by a Spark job with a task for each.
            with settings(spark, {"spark.sql.sources.parallelPartitionDiscovery.threshold": "2147483647"}):
                yield Sources(spark, manifests, by_manifest=False)

    def read(
        self,
        files: Sequence[SourceFile],
        schema: Any,
        *,
        marks: Sequence[int],
        key: bool = False,
        row: bool = False,
        folders: bool = False,
        checksums: bool = False,
    ) -> Source:
        """Opens a native scan of files, each with a mark.

        It is told whether the keys of files are going to be used, and with them the positions of rows. With a manifest
        alone, Spark can take partition columns from folders. Pages can be compared with their checksums.
        """
        bits = max(*marks, 1).bit_length()
        keys = [file.group << bits | mark for file, mark in zip(files, marks, strict=True)]
        if self.by_manifest:
            entries = [(url_of(file.address), file.size, key) for file, key in zip(files, keys, strict=True)]
            inner = row and self._spark.version.startswith(_NUMBERING)
            if inner:
                schema = type(schema)([*schema.fields]).add(INNER_ROW, "long")
            df = self._manifests.read(schema, entries, folders=folders, checksums=checksums)
            return Source(df, bits, row=_INNER_ROW_SQL if inner else _ROW_SQL)
        options = {**READ_OPTIONS, **(CHECKED if checksums else {}), "recursiveFileLookup": "true"}
        reader = self._spark.read.options(**options).schema(schema)
        df = reader.parquet(*(literal(file.address) for file in files))
        if not key:
            return Source(df, bits)
        paths = pa.array([_FILE_URL.sub("file:/", file.address) for file in files], pa.string())
        side = self._spark.createDataFrame(pa.table({_PATH: paths, KEY: pa.array(keys, pa.int64())}))
        columns = list(map(quoted, df.columns))
        placed = df.selectExpr(*columns, *([f"{_ROW_SQL} AS {ROW}"] if row else []), f"{_PATH_SQL} AS {_PATH}")
        # A path that Spark spells otherwise than expected must not make rows vanish.
        known = f"CASE WHEN {KEY} IS NULL THEN CAST(raise_error({_PATH}) AS bigint) ELSE {KEY} END"
        return Source(placed.join(side.hint("broadcast"), _PATH, "left"), bits, known, ROW)
