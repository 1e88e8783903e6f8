"""Bundles, the splits of IndexTables4Spark: their rows, and ranges over their numbers.

A bundle is the files of an index one after another, a *file table* (four bytes of magic, a version, and JSON that says
where each file is), its length, a cache of what opening touches, and that one's length. Rows are the stored fields of
the index. Each file of the index ends with a checksum of its own, which is verified here because the library does not.

The term dictionaries are SSTables, which this release's library does not search: words, phrases and prefixes are
refused by name until the rows are indexed anew. Columns that the index keeps in a form that is not theirs (decimals as
doubles, nested values as JSON) are refused as well, and so are companions, which hold an index of somebody else's rows.

The limit: the description of an index, a small JSON file, has no checksum. It must name every column that is asked for.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from halocline.errors import IncompatibleError, UnsupportedError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.library import damaged, guarded, library
from halocline.formats.index.split.location import below_root
from halocline.formats.index.split.scratch import remove_folder
from halocline.schema.arrow import PRIMITIVES, arrow_type
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage.base import Store

if TYPE_CHECKING:
    import tantivy

_MAGIC: Final = bytes.fromhex("aebe1218")
_VERSION: Final = 1
_CHECKED: Final = 1337
_WITHOUT_CHECKSUM: Final = ("meta.json", ".managed.json", "split_fields", "_doc_mapping.json")
_PARQUET_MANIFEST: Final = "_parquet_manifest.json"


@dataclass(frozen=True)
class FastRange:
    """A condition on a column of numbers; None leaves an end open.

    Attributes:
        column: The column.
        low: The least value.
        high: The greatest value.
        includes_low: Whether the least value itself counts.
        includes_high: Whether the greatest value itself counts.
    """

    column: str
    low: float | None = None
    high: float | None = None
    includes_low: bool = True
    includes_high: bool = True


class Bundle:
    """A split of IndexTables4Spark that is being read. A context: leaving it removes the unpacked index.

    Args:
        store: Where the table lies.
        add: What the log says of the split.
        schema: The columns of the table that splits hold.
        scratch: A folder for the unpacked index; the system's own if not given.

    Raises:
        MalformedError: The bytes are no bundle.
        NotFoundError: It does not exist.
        UnsupportedError: It holds no rows of its own.
    """

    def __init__(self, store: Store, add: SplitAdd, schema: Struct, *, scratch: str | None = None) -> None:
        self.path = add.path
        self.schema = schema
        self._add = add
        self._scratch = scratch
        self._folder: str | None = None
        self._files = _files(store.get(below_root(store, add.path)), add.path)
        if add.companion_source_files is not None or _PARQUET_MANIFEST in self._files:
            raise UnsupportedError(
                f"{add.path} is a companion: it holds an index of rows that lie in another table",
                sides={"split": "companion", "read here": "splits that hold their rows"},
                next_step="Read the table that the companion belongs to.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes the unpacked index."""
        for name in ("_index", "_searcher"):
            self.__dict__.pop(name, None)
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None

    def rows(self, columns: Sequence[str] | None = None, ranges: Sequence[FastRange] = ()) -> pa.Table:
        """The rows that meet every condition, in their order.

        Args:
            columns: The columns; all if not given.
            ranges: Conditions on columns of numbers.

        Raises:
            IncompatibleError: A condition is on a column that the index cannot be asked about.
            MalformedError: The bytes are damaged, or are not of the columns' types.
            UnsupportedError: A column is kept in a form that is not its own.
        """
        known = {field.name: field for field in self.schema.fields}
        chosen = [known[name] for name in (known if columns is None else columns)]
        if missing := [field.name for field in chosen if field.name not in self._fast_fields]:
            raise damaged(self.path, f"it has no column {missing[0]!r}")
        with guarded(self.path):
            searcher, found = self._searcher, self._matching(ranges)
            documents = [searcher.doc(address).to_dict() for address in found]
        arrays = [_column(field, documents, self.path) for field in chosen]
        return pa.Table.from_arrays(arrays, names=[field.name for field in chosen])

    @property
    def count(self) -> int:
        """How many rows it has, deleted ones among them."""
        with guarded(self.path):
            return int(self._searcher.num_docs)

    def _matching(self, ranges: Sequence[FastRange]) -> list[tantivy.DocAddress]:
        query = library().Query
        occur = library().Occur.Must
        asked = [(occur, query.all_query()), *((occur, self._query(each)) for each in ranges)]
        limit = max(self._searcher.num_docs, 1)
        hits = self._searcher.search(query.boolean_query(asked), limit=limit, count=False).hits
        return sorted((address for _, address in hits), key=lambda each: (each.segment_ord, each.doc))

    def _query(self, asked: FastRange) -> Any:
        kinds = {"i64": library().FieldType.Integer, "u64": library().FieldType.Unsigned}
        kinds["f64"] = library().FieldType.Float
        type, fast = self._fast_fields.get(asked.column, ("nothing", False))
        if type not in kinds or not fast:
            raise IncompatibleError(
                f"{self.path} cannot be searched by {asked.column!r} without tantivySstable",
                condition="READER_TOO_OLD",
                sides={"column": f"{type}{', fast' if fast else ''}", "searched here": "fast columns of numbers"},
                next_step="Read the rows and filter them, or index the table anew.",
            )
        return library().Query.range_query(
            self._index.schema,
            asked.column,
            kinds[type],
            asked.low,
            asked.high,
            include_lower=asked.includes_low or asked.low is None,
            include_upper=asked.includes_high or asked.high is None,
        )

    @cached_property
    def _fast_fields(self) -> dict[str, tuple[str, bool]]:
        try:
            listed = json.loads(self._files["meta.json"])["schema"]
            return {each["name"]: (each["type"], bool(each["options"].get("fast"))) for each in listed}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(self.path, f"its description cannot be read: {error}") from error

    @cached_property
    def _index(self) -> tantivy.Index:
        self._folder = tempfile.mkdtemp(prefix="halocline-bundle-", dir=self._scratch)
        for name, data in self._files.items():
            with open(os.path.join(self._folder, name), "wb") as file:
                file.write(data)
        return library().Index.open(self._folder)  # type: ignore[no-any-return]

    @cached_property
    def _searcher(self) -> tantivy.Searcher:
        searcher = self._index.searcher()
        told = self._add.num_records
        if told is not None and searcher.num_docs != told:
            raise damaged(self.path, f"it has {searcher.num_docs} rows, and the log says {told}")
        return searcher


def _files(data: bytes, name: str) -> dict[str, bytes]:
    """The files of a bundle, each with its checksum verified."""
    try:
        end = len(data) - 4 - struct.unpack_from("<I", data, len(data) - 4)[0]
        start = end - 4 - struct.unpack_from("<I", data, end - 4)[0]
        magic, version = data[start : start + 4], struct.unpack_from("<I", data, start + 4)[0]
        if start < 0 or magic != _MAGIC or version != _VERSION:
            raise damaged(name, "its file table is not where it should be")
        found: dict[str, bytes] = {}
        for each, place in json.loads(data[start + 8 : end - 4])["files"].items():
            if os.path.basename(each) != each or each in ("", ".", "..") or not 0 <= place["start"] <= place["end"]:
                raise damaged(name, f"its file table has {each!r}")
            if place["end"] > start:
                raise damaged(name, f"{each} ends behind the files")
            found[each] = data[place["start"] : place["end"]]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(name, f"it is no bundle: {error}") from error
    for each, content in found.items():
        if each not in _WITHOUT_CHECKSUM and each != _PARQUET_MANIFEST and not _is_sound(content):
            raise damaged(name, f"{each} does not fit its checksum")
    if "meta.json" not in found:
        raise damaged(name, "it has no description of its index")
    return found


def _is_sound(content: bytes) -> bool:
    """Whether a file of the index fits the checksum at its end."""
    try:
        length, magic = struct.unpack_from("<II", content, len(content) - 8)
        footer = json.loads(content[len(content) - 8 - length : -8])
        return bool(magic == _CHECKED and zlib.crc32(content[: len(content) - 8 - length]) == footer["crc"])
    except (struct.error, ValueError, KeyError, TypeError):
        return False


def _as_is(value: Any) -> Any:
    return value


def _moment(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _day(value: datetime | date) -> date:
    return value.date() if isinstance(value, datetime) else value


_FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "timestamp": _moment,
    "timestamp_ntz": lambda value: _moment(value).replace(tzinfo=None),
    "date": _day,
    "binary": bytes,
}


def _column(field: Field, documents: Sequence[Mapping[str, Sequence[Any]]], name: str) -> pa.Array:
    if not isinstance(field.type, Primitive) or field.type.name not in PRIMITIVES:
        raise UnsupportedError(
            f"column {field.name!r} of {name} is kept in another form than {field.type}",
            sides={"column": str(field.type), "read from bundles": ", ".join(PRIMITIVES)},
            next_step="Leave the column out.",
        )
    form = _FORMS.get(field.type.name, _as_is)
    values = [found[0] if (found := each.get(field.name)) else None for each in documents]
    try:
        return pa.array([None if each is None else form(each) for each in values], arrow_type(field.type))
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(name, f"column {field.name!r} is not {field.type}: {error}") from error
