"""A move as a value: from where to where, what it asks of clients, and its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from halocline.compat.breaks import Forecast
from halocline.compat.terms import Terms
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.move.record import Changes
from halocline.place_names import place_name


class StageKind(StrEnum):
    """What is done in a stage, in the order in which stages come."""

    ROLL_BACK = "roll back"
    COMPLETE = "complete"
    COMPACT = "compact"
    COPY_TIMELINE = "copy timeline"
    COPY_HISTORY = "copy history"
    VERIFY = "verify"
    FLIP = "flip"
    DROP_METADATA_TABLE = "drop metadata table"
    RECORD = "record"
    CLEAN = "clean"


_DONE: Final[Mapping[StageKind, str]] = {
    StageKind.ROLL_BACK: "take back writes that did not finish, by the rules of version {source}",
    StageKind.COMPLETE: "run compactions that are pending, by the rules of version {source}",
    StageKind.COMPACT: "merge log files that version {target} would read differently",
    StageKind.COPY_TIMELINE: "write the timeline as version {target} has it, beside the one in use",
    StageKind.COPY_HISTORY: "write the archived instants as version {target} has them, each once",
    StageKind.VERIFY: "compare the table as version {target} will show it with the table as it is",
    StageKind.FLIP: "replace the properties: the table is at version {target}",
    StageKind.DROP_METADATA_TABLE: "delete the metadata table, which the next writer builds again",
    StageKind.RECORD: "note what was changed, for the way back",
    StageKind.CLEAN: "delete the timeline of version {source}, after the grace period",
}


@dataclass(frozen=True, slots=True)
class MoveStage:
    """One stage of a move.

    Attributes:
        kind: What is done.
        subjects: What it is done to: instants or file groups, where that can be told before.
        files: How many files it writes or deletes, as far as that can be told before.
        size: Their size in bytes, likewise.
    """

    kind: StageKind
    subjects: tuple[str, ...] = ()
    files: int = 0
    size: int = 0


@dataclass(frozen=True)
class HudiMove:
    """A move of a table from one version to another. Made by `plan_move`.

    Attributes:
        root: The table's URL.
        source: What the table is.
        target: What it will be.
        before: What it requires of clients.
        after: What it will require.
        stages: What is done, in order.
        changes: What each step up changes in the properties, by the version that it leads to; empty on the way down.
        warnings: What to know before.
        clients: The verdict on every client that is known, before and after.
    """

    root: str
    source: HudiTableConfig
    target: HudiTableConfig
    before: Terms
    after: Terms
    stages: tuple[MoveStage, ...]
    changes: Mapping[int, Changes] = field(repr=False)
    warnings: tuple[str, ...]
    clients: Forecast = field(repr=False)

    @property
    def is_up(self) -> bool:
        """Whether it leads to a higher version."""
        return self.target.version > self.source.version

    @property
    def changes_layout(self) -> bool:
        """Whether the timeline has another layout afterwards."""
        return self.target.layout != self.source.layout

    @property
    def reverse(self) -> tuple[int, int]:
        """The versions of the move that takes it back: from where, and to where."""
        return self.target.version, self.source.version

    def stage(self, kind: StageKind) -> MoveStage | None:
        """The stage of that kind; None if the move needs none."""
        return next((each for each in self.stages if each.kind is kind), None)

    def told(self, stage: MoveStage) -> str:
        """What a stage does, for people."""
        text = _DONE[stage.kind].format(source=self.source.version, target=self.target.version)
        counts = f" ({stage.files} files, {stage.size} bytes)" if stage.files else ""
        return text + counts + (f": {', '.join(stage.subjects)}" if stage.subjects else "")

    def explain(self) -> str:
        """The move for people: its stages, who is affected, and from where on it takes another move to go back."""
        lines = [f"move {place_name(self.root)} from version {self.source.version} to {self.target.version}"]
        for number, each in enumerate(self.stages, 1):
            lines.append(f"  {number}. {each.kind}: {self.told(each)}")
            if each.kind is StageKind.FLIP:
                source, target = self.reverse
                lines.append(f"     point of no return: from here on the way back is a move from {source} to {target}")
        lines += [f"  warning: {each}" for each in self.warnings]
        broken = self.clients.broken()
        lines.append(f"  would break {len(broken)} of {len(self.clients.outlooks)} known clients")
        lines += [f"    {each.client.release}: {each.breaking[0]}" for each in broken]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "table": self.root,
            "from": self.source.version,
            "to": self.target.version,
            "stages": [
                {
                    "stage": str(each.kind),
                    "does": self.told(each),
                    "subjects": list(each.subjects),
                    "files": each.files,
                    "bytes": each.size,
                }
                for each in self.stages
            ],
            "warnings": list(self.warnings),
            "wouldBreak": [str(each.client.release) for each in self.clients.broken()],
            "reverse": list(self.reverse),
        }
