"""Micro-batches of streams: which of them a table has.

The commit of a micro-batch says the id of its query and the number of the batch, under the key and in the form that
Apache Hudi's own sink uses. The newest commit of a query tells how far it has come. Others may write so much in between
that it leaves the active timeline; then it is looked for in the table's history, which nothing is taken out of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halocline.errors import NotFoundError
from halocline.formats.hudi.timeline.instant import WRITES
from halocline.formats.hudi.timeline.metadata import CommitMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline

_CHECKPOINT: Final = "_hudi_streaming_sink_checkpoint"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A micro-batch.

    Attributes:
        query: The id of its query.
        number: Its number.
    """

    query: str
    number: int

    @property
    def told(self) -> dict[str, str]:
        """What its commit says."""
        return {_CHECKPOINT: json.dumps({self.query: str(self.number)})}

    def is_in(self, timeline: HudiTimeline) -> bool:
        """Whether the table has it, or one that came after it.

        Raises:
            MalformedError: The history, which alone could tell, is damaged.
        """
        for instant in reversed(timeline.writes):
            try:
                number = self._number_in(timeline.commit_metadata(instant).extra_metadata)
            except NotFoundError:  # it was archived since the timeline was listed
                return self.is_in(HudiTimeline.load(timeline.store, timeline.config))
            if number is not None:
                return number >= self.number
        writes = (each for each in timeline.history() if each.action in WRITES and each.body)
        said = (CommitMetadata.parse(each.body, f"{each.time} in the history") for each in writes)
        numbers = (self._number_in(each.extra_metadata) for each in said)
        return any(number >= self.number for number in numbers if number is not None)

    def _number_in(self, extra: Mapping[str, str | None] | None) -> int | None:
        """The number of the batch of the same query that a commit is of, if it is of one."""
        try:
            return int(json.loads((extra or {}).get(_CHECKPOINT) or "{}")[self.query])
        except (ValueError, TypeError, KeyError):
            return None
