"""What this process has read of splits and needs again for the next search: footers, layouts and filters of terms.

Reading a footer and checking it costs more than finding a row once that is done, so what was read is kept, by the state
that the store says the file is in. A file that is written anew, or damaged where the store notices, is another one, and
is read again. What was used the longest ago goes first.

The limit: a machine that changes bytes under an unchanged state of a file is noticed only by what is read again, which
are the rows and the index, each with checksums.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.location import below_root
from halocline.storage.base import Store

if TYPE_CHECKING:
    from halocline.formats.index.split.layout import SplitLayout
    from halocline.formats.index.split.presence import TermFilter

_MOST_BYTES: Final = 256 * 1024 * 1024
_UNPACKED: Final = 4
"""How many times as large a footer is in memory."""

Identity = tuple[object, ...]


@dataclass
class SplitFacts:
    """What has been read of one state of a split, and holds as long as its file is in that state.

    Attributes:
        footer: Its Parquet footer, once it was checked.
        footer_bytes: How long that is in the file.
        layout: What it says about its index.
        terms: Which terms it may have.
    """

    footer: Any = None
    footer_bytes: int = 0
    layout: SplitLayout | None = None
    terms: TermFilter | None = None

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return _UNPACKED * self.footer_bytes + (0 if self.terms is None else self.terms.size)


class KnownSplits:
    """The facts of the splits that were used last. Safe to use from several threads.

    Args:
        most_bytes: How much is kept at most.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._facts: OrderedDict[Identity, SplitFacts] = OrderedDict()
        self._lock = Lock()

    def of(self, identity: Identity) -> SplitFacts | None:
        """The facts of a split in a state; None if nothing is known of it."""
        with self._lock:
            found = self._facts.get(identity)
            if found is not None:
                self._facts.move_to_end(identity)
            return found

    def keep(self, identity: Identity, facts: SplitFacts) -> None:
        """Keeps facts that were checked, and drops those that were not used for the longest time."""
        with self._lock:
            self._facts[identity] = facts
            self._facts.move_to_end(identity)
            left = sum(each.weight for each in self._facts.values())
            while left > self._most and len(self._facts) > 1:
                left -= self._facts.popitem(last=False)[1].weight

    def __len__(self) -> int:
        return len(self._facts)


KNOWN: Final = KnownSplits()
"""Those of this process."""


def identity_of(store: Store, split: SplitAdd) -> Identity:
    """What tells the present state of a split's file from every other.

    Raises:
        NotFoundError: There is no such file.
    """
    path = below_root(store, split.path)
    found = store.head(path)
    told = split.size, split.num_records, split.footer_start_offset, *sorted((split.tags or {}).items(), key=str)
    return store.root, path, found.size, found.etag or found.modified_ms, told


def at_hand(store: Store, splits: Iterable[SplitAdd]) -> bool:
    """Whether splits lie on this machine and their facts are known, so that there is nothing to wait for.

    Raises:
        NotFoundError: A file is gone.
    """
    local = store.address().startswith("/")
    return local and all(KNOWN.of(identity_of(store, each)) is not None for each in splits)
