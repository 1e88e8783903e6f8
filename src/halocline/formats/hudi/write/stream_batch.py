"""Micro-batches of streams: which of them a table has.

The commit of a micro-batch says the id of its query and the number of the batch, under the key and in the form that
Apache Hudi's own sink uses. The newest commit of a query tells how far it has come.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

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
        """Whether the table has it, or one that came after it."""
        for instant in reversed(timeline.writes):
            said = (timeline.commit_metadata(instant).extra_metadata or {}).get(_CHECKPOINT)
            with suppress(ValueError, TypeError, KeyError):
                return int(json.loads(said or "")[self.query]) >= self.number
        return False
