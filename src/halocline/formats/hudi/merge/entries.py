"""What the log files of a slice say, block by block.

Blocks of instants that did not take effect, that lie behind the instant asked for, or that a command block took back,
do not count. A block that merges older ones stands in for them, where the last of them stood.

Bytes that are no block are what a writer left that died, and are skipped, but only where no completed write says that
it wrote them: a damaged file of a completed write is an error, never a smaller table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from halocline.errors import MalformedError, NotFoundError, UnsupportedError
from halocline.formats.hudi.base_file import files_gone
from halocline.formats.hudi.blocks.content import ROWS
from halocline.formats.hudi.blocks.frame import BlockType, CorruptSpan, HeaderKey, LogBlock, read_blocks
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.names import LogFile
from halocline.formats.hudi.properties import read_properties
from halocline.formats.hudi.timeline.instant import WRITES, order
from halocline.formats.hudi.timeline.lost import check_has_trace
from halocline.formats.hudi.timeline.metadata import CommitMetadata
from halocline.formats.hudi.timeline.timeline import CommittedInstants, HudiTimeline
from halocline.storage.base import Store

_ROLLBACK: Final = "0"


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """Which blocks count.

    Attributes:
        committed: Which instants took effect.
        as_of: The last instant that counts; all if None.
        only: The instants that count; all if None.
    """

    committed: CommittedInstants
    as_of: str | None = None
    only: frozenset[str] | None = None

    def counts(self, instant: str) -> bool:
        """Whether what an instant wrote counts."""
        if self.as_of is not None and order(instant) > order(self.as_of):
            return False
        return (self.only is None or instant in self.only) and instant in self.committed


def log_blocks(store: Store, logs: Sequence[LogFile], counting: BlockFilter) -> list[LogBlock]:
    """The data and delete blocks of a slice that count, in the order in which they apply.

    Raises:
        MalformedError: A file of a completed write is damaged.
        UnsupportedError: A block is of a kind that this release does not know.
    """
    blocks: list[LogBlock] = []
    undone: set[str] = set()
    for log, data in zip(logs, _contents(store, logs), strict=True):
        for each in read_blocks(data, log.path) if data else [CorruptSpan(log.path, 0, 1, "it is empty")]:
            if isinstance(each, CorruptSpan):
                _check_skippable(store, each)
            elif each.type is BlockType.COMMAND:
                undone.add(_target(each))
            elif each.type in ROWS or each.type is BlockType.DELETE:
                blocks.append(each)
    blocks = [each for each in blocks if each.instant not in undone]
    for each in blocks:
        if not counting.committed.knows(each.instant):
            check_has_trace(store, each.instant, str(each))
    return _compacted([each for each in blocks if counting.counts(each.instant)])


def _contents(store: Store, logs: Sequence[LogFile]) -> Iterator[bytes]:
    try:
        yield from store.get_many([each.path for each in logs])
    except NotFoundError as error:
        raise files_gone(store.root, error) from error


def _target(block: LogBlock) -> str:
    """The instant whose blocks a command takes back."""
    kind = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE, _ROLLBACK)
    target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
    if kind != _ROLLBACK:
        raise UnsupportedError(
            f"{block} has command {kind}, which this release does not know",
            sides={"file": f"command {kind}", "halocline knows": f"command {_ROLLBACK}, a rollback"},
            next_step="Compact the table with the writer that made it.",
        )
    if target is None:
        raise block.malformed("an instant to take back", "none")
    return target


def _compacted(blocks: list[LogBlock]) -> list[LogBlock]:
    """Blocks that merge older ones, where the last of those stood; the older ones go."""
    merging = [each for each in blocks if HeaderKey.COMPACTED_BLOCK_TIMES in each.header]
    if not merging:
        return blocks
    merged_by: dict[str, LogBlock] = {}
    for each in merging:
        merged_by |= dict.fromkeys(_times(each), each)
    last = {id(merged_by[each.instant]): at for at, each in enumerate(blocks) if each.instant in merged_by}
    placed = [(last.get(id(each), at), at, each) for at, each in enumerate(blocks) if each.instant not in merged_by]
    return [each for _, _, each in sorted(placed, key=lambda entry: entry[:2])]


def _times(block: LogBlock) -> Iterable[str]:
    return (each.strip() for each in block.header[HeaderKey.COMPACTED_BLOCK_TIMES].split(","))


def _check_skippable(store: Store, span: CorruptSpan) -> None:
    """Refuses bytes that a completed write says it wrote. This is rare, so the timeline is read again for it."""
    timeline = HudiTimeline.load(store, HudiTableConfig.parse(read_properties(store).pairs, store.root))
    active = ((each.time, timeline.commit_metadata(each)) for each in timeline.writes)
    older = (
        (each.time, CommitMetadata.parse(each.body, f"{each.time} of the history"))
        for each in timeline.history()
        if each.action in WRITES
    )
    for time, metadata in chain(active, older):
        for _, stat in metadata.stats:
            start = stat.log_offset or 0
            end = start + (stat.total_write_bytes or stat.file_size_in_bytes or 0)
            if stat.path == span.path and start < span.end and span.start < end:
                raise MalformedError(
                    f"{span.path} of {store.root} is damaged: {span.problem}",
                    condition="MALFORMED_LOG",
                    sides={
                        "commit": f"{time} wrote bytes {start} to {end}",
                        "file": f"no block from byte {span.start} to {span.end}",
                    },
                    next_step="Restore the file from a copy.",
                )
