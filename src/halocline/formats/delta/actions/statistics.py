"""What the statistics of a file say of it as a whole; of its columns see `halocline.formats.delta.stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa


class _Statistics(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_decode = msgspec.json.Decoder(_Statistics).decode


def num_records(stats: str | None) -> int | None:
    """How many rows a file holds, deleted ones included; None if its statistics do not say."""
    try:
        return _decode(stats).num_records if stats else None
    except msgspec.MsgspecError:
        return None


def records_in(files: pa.Table) -> list[int | None]:
    """How many rows each file holds, deleted ones included; None where its statistics do not say."""
    return [num_records(stats) for stats in files["stats"].to_pylist()]


def live_rows(files: pa.Table) -> list[int | None]:
    """How many rows each file holds that are not deleted; None where its statistics do not say."""
    vectors = files["deletion_vector"].to_pylist()
    deleted = (0 if vector is None else vector["cardinality"] for vector in vectors)
    return [None if count is None else count - gone for count, gone in zip(records_in(files), deleted, strict=True)]


def all_live_rows(files: pa.Table) -> int | None:
    """How many rows files hold together that are not deleted; None where the log does not say."""
    counts = live_rows(files)
    return None if None in counts else sum(filter(None, counts))
