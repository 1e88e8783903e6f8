"""What the statistics of a file say of it as a whole; of its columns see `halocline.formats.delta.stats`."""

from __future__ import annotations

import msgspec


class _Statistics(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_decode = msgspec.json.Decoder(_Statistics).decode


def num_records(stats: str | None) -> int | None:
    """How many rows a file holds, deleted ones included; None if its statistics do not say."""
    try:
        return _decode(stats).num_records if stats else None
    except msgspec.MsgspecError:
        return None
