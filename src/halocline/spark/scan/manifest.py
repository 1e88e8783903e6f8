"""Manifests: how Spark is told exactly which files to read.

A *manifest* is a folder with one small file in it that names data files anywhere, with their sizes. Spark's Parquet
reader takes the list from there instead of listing folders and asking for the status of each file, so planning ten
thousand files takes a fraction of a second. Each file's modification time in a manifest is ours to choose: it holds a
number, the file's *key*, by which rows are matched with what the log says about their file.

Spark reads a manifest when the plan is analysed and never again, so it is deleted at once. On classic Spark it lies in
this machine's temporary folder. A Connect server may be elsewhere: if it does not see that folder, the manifest is put
below the table, in a hidden folder `.halocline-scan-<id>` that a crash may leave behind and that anybody may delete.

The limits: the format of the file is Spark's own (its streaming file sink writes it) and carries no promise, which is
why each session is asked once, without reading any data, whether it still means the same; and file names that begin
with `_` or `.`, or hold a colon, are beyond Spark however they are given.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from halocline.errors import HaloclineError
from halocline.spark.session.file_system import remove_folder
from halocline.spark.session.session import is_connect, remembered
from halocline.storage.base import Store, escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY_SQL: Final = "unix_millis(_metadata.file_modification_time)"
"""SQL for the key of the file that a row is from."""

READ_OPTIONS: Final = {
    # A session may be set to pass over files that are missing or broken; a table never is shorter than its log says.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # How old dates are meant where a file does not say it; Delta has one calendar.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""What a session's settings must not change about reading."""

CHECKED: Final = {"parquet.page.verify-checksum.enabled": "true"}
"""Has Spark's reader compare pages with their checksums, where they have one."""

_INNER: Final = "_spark_metadata/0"
_FOLDER: Final = ".halocline-scan-"
_LINE: Final = (
    '{"path":%s,"size":%d,"isDir":false,"modificationTime":%d,'
    '"blockReplication":1,"blockSize":134217728,"action":"add"}'
)
_ABSENT: Final = "file:///halocline-self-check/absent.parquet"
_GLOB: Final = re.compile(r"[\[\]{}*?\\]")


def content(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """The file in a manifest, of the URL, size and key of each data file.

    Example:
        >>> content([("file:///a%20b.parquet", 10, 0)]).splitlines()[0]
        b'v1'
    """
    lines = [_LINE % (json.dumps(url), size, key) for url, size, key in entries]
    return "\n".join(["v1", *lines]).encode()


def url_of(address: str) -> str:
    """The escaped URL of an address as stores give it.

    Example:
        >>> url_of("/lake/a b.parquet"), url_of("s3a://lake/50%.parquet")
        ('file:///lake/a%20b.parquet', 's3a://lake/50%25.parquet')
    """
    if address.startswith("/"):
        return f"file://{escaped(address)}"
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{escaped(rest)}"


def literal(address: str) -> str:
    r"""The address as Spark's readers take it, which look for patterns in what they are given.

    Example:
        >>> literal("/lake/a[1]")
        '/lake/a\\[1\\]'
    """
    return _GLOB.sub(lambda found: "\\" + found[0], address)


class Manifests:
    """The manifests of one scan; a context manager that deletes them."""

    def __init__(self, spark: SparkSession, store: Store, base: str) -> None:
        self._spark = spark
        self._in_table = partial(_in_table, store, base)
        self._base = base
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Manifests:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def usable(self) -> bool:
        """Whether this session's Spark understands manifests, here or below the table."""
        return self._place() is not None

    def read(
        self, schema: Any, entries: Sequence[tuple[str, int, int]], *, folders: bool = False, checksums: bool = False
    ) -> DataFrame:
        """A native scan of files, given by URL, size and key; only where manifests are usable."""
        place = self._place() or _here
        address = self._made.enter_context(place(content(entries)))
        return _load(self._spark, schema, address, folders=folders, checksums=checksums)

    def _place(self) -> _Place | None:
        if remembered(self._spark, "manifest here", lambda: _understood(self._spark, _here)):
            return _here
        if not is_connect(self._spark):  # the driver is in this process: it has seen the manifest and not understood it
            return None
        key = f"manifest below {self._base}"
        return (
            self._in_table if remembered(self._spark, key, lambda: _understood(self._spark, self._in_table)) else None
        )


_Place: TypeAlias = Callable[[bytes], contextlib.AbstractContextManager[str]]
"""Puts a manifest somewhere, gives its address, and deletes it."""


@contextlib.contextmanager
def _here(data: bytes) -> Iterator[str]:
    """The temporary folder of this machine."""
    folder = tempfile.mkdtemp(prefix="halocline-scan-")
    try:
        target = os.path.join(folder, *_INNER.split("/"))
        os.mkdir(os.path.dirname(target))
        with open(target, "xb") as file:
            file.write(data)
        yield f"file://{folder}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _in_table(store: Store, base: str, data: bytes) -> Iterator[str]:
    """A hidden folder below the table."""
    folder = f"{_FOLDER}{uuid.uuid4().hex}"
    store.put_if_absent(f"{folder}/{_INNER}", data)
    try:
        yield f"{base}/{folder}"
    finally:
        with contextlib.suppress(HaloclineError):
            store.delete(f"{folder}/{_INNER}")
        remove_folder(store, folder)


def _load(
    spark: SparkSession, schema: Any, address: str, *, folders: bool = False, checksums: bool = False
) -> DataFrame:
    reader = spark.read.options(**READ_OPTIONS, **(CHECKED if checksums else {})).schema(schema)
    return (reader if folders else reader.option("recursiveFileLookup", "true")).parquet(literal(address))


def _understood(spark: SparkSession, place: _Place) -> bool:
    """Whether a manifest decides what is read and its keys come back; answered by planning alone.

    The one file it names does not exist. A filter on its key leaves nothing to read, so the count is 0 without a task;
    if the key were not what the manifest says, Spark would try to open the file and fail.
    """
    try:
        with place(content([(_ABSENT, 1, 7)])) as address:
            df = _load(spark, "a int", address)
            named = [url.rpartition("/")[2] for url in df.inputFiles()]
            return named == [_ABSENT.rpartition("/")[2]] and df.where(f"{KEY_SQL} <> 7").count() == 0
    except Exception:  # whatever it is, a table that may only be read or a Spark of the future: no manifests here
        return False
