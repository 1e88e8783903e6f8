"""The encodings of commit and checkpoint files, which their names do not tell.

Plain JSON; gzip, as IndexTables4Spark writes it from 0.5.5 on; and two bytes, a mark and the number of the codec, with
gzip behind them, as it did before. Plain text is read by every release, so that is what others must read.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final

from halocline.formats.log.damage import malformed

_GZIP: Final = b"\x1f\x8b"
_MARK: Final = 0x01
_CODEC_GZIP: Final = 0x01
_MOST: Final = 2 * 1024**3
_WINDOW_GZIP: Final = 31


def decoded(data: bytes, name: str) -> bytes:
    """The text of a file of the log.

    Raises:
        MalformedError: It is cut off, damaged, of an unknown codec, or larger than any log.

    Example:
        >>> decoded(encoded(b"{}", compress=True), "0.json"), decoded(b"{}", "0.json")
        (b'{}', b'{}')
    """
    if data[:1] == bytes([_MARK]):
        if len(data) < 2 or data[1] != _CODEC_GZIP:
            raise malformed(name, f"is compressed with codec {data[1] if len(data) > 1 else 'none'}, and 1 is known")
        data = data[2:]
    elif data[:2] != _GZIP:
        return data
    pieces: list[bytes] = []
    left = _MOST
    while data:
        inflating = zlib.decompressobj(_WINDOW_GZIP)
        try:
            pieces.append(inflating.decompress(data, left))
        except zlib.error as error:
            raise malformed(name, f"cannot be decompressed: {error}") from error
        left -= len(pieces[-1])
        if not inflating.eof:
            raise malformed(name, f"is cut off, or larger than {_MOST} bytes")
        data = inflating.unused_data
    return b"".join(pieces)


def encoded(text: bytes, *, compress: bool) -> bytes:
    """A file of the log.

    Args:
        text: What it says.
        compress: Whether it is compressed, which some releases of others do not expect.
    """
    return gzip.compress(text, 6, mtime=0) if compress else text
