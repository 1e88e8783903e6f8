"""An index built anew from the rows of a split whose own cannot be used.

The rows are the truth and the index is made from them, so a split with a damaged index still has all of its answers;
they take as long as building it took. Rows that are damaged themselves are an error as ever.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from halocline.errors import IncompatibleError, MalformedError
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.writer import SplitWriter
from halocline.storage.local import LocalStore

_NAME: Final = "rebuilt.split.parquet"


@contextmanager
def rebuilt(
    damaged: OpenedSplit, scratch: str | None = None, *, fields: Sequence[IndexField] = ()
) -> Iterator[OpenedSplit]:
    """The split with a new index, while the context lasts.

    Args:
        damaged: The split.
        scratch: A folder to build in; the system's own if not given.
        fields: What the index is to have of each column, where the split itself cannot say.

    Raises:
        IncompatibleError: The split is of a later layout, and nobody says what its index is to have.
        MalformedError: Its rows are damaged as well.
    """
    try:
        known: Sequence[IndexField] = damaged.layout.fields
    except (MalformedError, IncompatibleError):
        known = [each for each in fields if each.column in damaged.parquet.schema.names]
        if not known:
            raise
    with tempfile.TemporaryDirectory(prefix="halocline-rebuilt-", dir=scratch) as folder:
        with (
            open(os.path.join(folder, _NAME), "wb") as sink,
            SplitWriter(sink, damaged.parquet.schema, known, scratch=folder) as writer,
        ):
            for batch in damaged.batches():
                writer.write(batch)
            writer.close()
        with OpenedSplit(LocalStore(folder), _NAME, scratch=folder) as opened:
            yield opened
