"""The layout of a split: where its index lies, what is in it, and what it was built with.

It is an entry of the Parquet footer: eight hexadecimal digits of a checksum, and JSON. A layout that can be read is one
whose checksum holds; whether this release can search the index is another question, and `check_searchable` answers it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from halocline.errors import IncompatibleError
from halocline.formats.index.split.analyzers import ANALYZERS, DEFINITIONS
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.library import damaged

KEY: Final = b"halocline.index"
LAYOUT: Final = 1
INDEX_FORMAT: Final = 7
DICTIONARY: Final = "fst"
PART_BITS: Final = 32
"""A document has the number of its part and, in so many bits below it, the number of its row in the part."""


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """One file of the index.

    Attributes:
        name: Its name.
        offset: Where it begins in the split.
        length: Its bytes there.
        raw_length: Its bytes once decompressed.
        crc: The checksum of the bytes in the split.
    """

    name: str
    offset: int
    length: int
    raw_length: int
    crc: int


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Rows that were indexed together, and keep their numbers when indexes are put together.

    Attributes:
        number: What the numbers of its rows begin with in the index.
        offset: The row of the split that its first row is.
    """

    number: int
    offset: int


class SplitLayout(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a split says about its index.

    Attributes:
        layout: The version of this description.
        rows: How many rows the split has.
        fields: What the index has of each column.
        blobs: The files of the index.
        terms: The filter of the terms; None if there is none.
        parts: Which rows were indexed together.
        unindexed: How many values of a column are not in the index, where some are not.
        lengths: How many words the texts of a column have together.
        index_format: The number of the library's format.
        dictionary: The kind of its term dictionaries.
        analyzers: The version of the analyzers.
        library: The release of the library, for people.
    """

    layout: int = LAYOUT
    rows: int
    fields: list[IndexField]
    blobs: list[Blob]
    terms: Blob | None = None
    parts: list[Part] = []
    unindexed: dict[str, int] = {}
    lengths: dict[str, int] = {}
    index_format: int = INDEX_FORMAT
    dictionary: str = DICTIONARY
    analyzers: int = DEFINITIONS
    library: str = ""

    @property
    def index_size(self) -> int:
        """The bytes of the index in the split."""
        return sum(each.length for each in self.blobs) + (self.terms.length if self.terms else 0)


class _Version(msgspec.Struct, frozen=True):
    layout: int


def encode_layout(layout: SplitLayout) -> bytes:
    """The entry of the footer."""
    text = msgspec.json.encode(layout)
    return b"%08x" % zlib.crc32(text) + text


def decode_layout(metadata: Mapping[bytes, bytes] | None, name: str) -> SplitLayout:
    """The layout in the metadata of a footer.

    Raises:
        IncompatibleError: It is of a later version.
        MalformedError: It is missing or damaged.
    """
    entry = (metadata or {}).get(KEY)
    if entry is None:
        raise damaged(name, "its footer says nothing of an index")
    text = entry[8:]
    if entry[:8] != b"%08x" % zlib.crc32(text):
        raise damaged(name, "the description of the index does not fit its checksum")
    try:
        version = msgspec.json.decode(text, type=_Version).layout
        if version != LAYOUT:
            raise _too_new(name, f"layout {version}", f"layout {LAYOUT}", f"splitLayout{version}")
        layout = msgspec.json.decode(text, type=SplitLayout)
    except (msgspec.MsgspecError, ValueError) as error:
        raise damaged(name, f"the description of the index cannot be read: {error}") from error
    if any(each.offset < 0 or each.length < 0 or each.raw_length < 0 for each in layout.blobs):
        raise damaged(name, "a blob has no place in the file")
    return layout


def check_searchable(layout: SplitLayout, name: str) -> None:
    """Returns if this release can search the index.

    Raises:
        IncompatibleError: It was built in a way that this release does not know.
    """
    if (layout.index_format, layout.dictionary) != (INDEX_FORMAT, DICTIONARY):
        found = f"tantivy{layout.dictionary.capitalize()}{layout.index_format}"
        raise _too_new(name, found, f"tantivy{DICTIONARY.capitalize()}{INDEX_FORMAT}", found)
    unknown = {each.analyzer for each in layout.fields if each.analyzer} - set(ANALYZERS)
    if layout.analyzers != DEFINITIONS or unknown:
        found = ", ".join(sorted(unknown)) or f"version {layout.analyzers}"
        raise _too_new(name, f"analyzers {found}", f"analyzers version {DEFINITIONS}", f"analyzers{layout.analyzers}")


def _too_new(name: str, found: str, known: str, feature: str) -> IncompatibleError:
    return IncompatibleError(
        f"{name} has an index with {feature}, which this release does not search",
        condition="READER_TOO_OLD",
        sides={"split": found, "this release searches": known},
        next_step="Its rows can be read. Upgrade, or build the index anew from them.",
    )
