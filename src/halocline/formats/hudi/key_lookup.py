"""Which keys a file slice holds: asked of the footer first, and of its rows only where the footer cannot say no.

The footer of a base file says which is its smallest and its largest key, and has a bloom filter of all of them. A file
that neither lets any of the wanted keys into is not read. Log files have no such thing; their keys are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.write.bloom_filter import may_hold
from halocline.storage.base import Store

FILTER = b"org.apache.hudi.bloomfilter"
FILTER_CODE = b"hoodie_bloom_filter_type_code"
SMALLEST = b"hoodie_min_record_key"
LARGEST = b"hoodie_max_record_key"


@dataclass(frozen=True)
class KeyLookup:
    """Looks keys up in slices: a small value that can travel to where the work is done.

    Attributes:
        reader: Reads the columns that keys are made of.
        keys: How they are made.
        wanted: The keys that are looked for, by partition; None for all that there are.
    """

    reader: SliceReader
    keys: KeyColumns
    wanted: Mapping[str, pa.Array] | None = None

    def find(self, store: Store, slice: FileSlice) -> Iterator[pa.Array]:
        """The keys of a slice, of those wanted, each once; those that its log files delete may be among them.

        Raises:
            MalformedError: A file is damaged.
        """
        wanted = None if self.wanted is None else self.wanted.get(slice.partition, pa.array([], pa.string()))
        logged = self._among(wanted, store, replace(slice, base=None)) if slice.logs else pa.array([], pa.string())
        if slice.base is not None:
            candidates = wanted if wanted is None else candidate_keys(open_base_file(store, slice.base).footer, wanted)
            if candidates is None or len(candidates):
                for keys in self._batches(candidates, store, replace(slice, logs=())):
                    logged = logged.filter(pc.invert(pc.is_in(logged, keys)))
                    yield keys
        if len(logged):
            yield logged

    def _among(self, wanted: pa.Array | None, store: Store, slice: FileSlice) -> pa.Array:
        found = list(self._batches(wanted, store, slice))
        return pa.concat_arrays(found).unique() if found else pa.array([], pa.string())

    def _batches(self, wanted: pa.Array | None, store: Store, slice: FileSlice) -> Iterator[pa.Array]:
        for batch in self.reader.read(store, slice):
            keys = self.keys.of(batch)
            yield keys if wanted is None else keys.filter(pc.is_in(keys, wanted))


def candidate_keys(footer: Mapping[bytes, bytes], wanted: pa.Array) -> pa.Array:
    """The keys that a base file may hold, as far as its footer tells.

    Example:
        >>> candidate_keys({SMALLEST: b"b", LARGEST: b"d"}, pa.array(["a", "c"])).to_pylist()
        ['c']
    """
    bounds = footer.get(SMALLEST, b"\xff"), footer.get(LARGEST, b"\xff")
    if all(each.isascii() for each in bounds):  # of other texts, Java has another order
        low, high = (pa.scalar(each.decode()) for each in bounds)
        wanted = wanted.filter(pc.and_(pc.greater_equal(wanted, low), pc.less_equal(wanted, high)))
    if FILTER in footer and len(wanted):
        code = footer.get(FILTER_CODE, b"SIMPLE").decode()
        wanted = wanted.filter(pa.array(may_hold(footer[FILTER].decode(), code, wanted.to_pylist())))
    return wanted
