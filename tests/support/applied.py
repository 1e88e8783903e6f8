"""Lakes on disk with members in a file, and plans for them that tests apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halocline.compat.release import Release
from halocline.formats.hudi.configuration import TableType
from halocline.lake.lake import Lake
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.verify import Verify
from halocline.plan.apply.walk import ApplyOptions, Pause
from halocline.plan.core.plan import Stage
from halocline.plan.file import SavedPlan
from halocline.plan.proposal import propose_rollout
from halocline.plan.target import Target
from halocline.storage import open_store
from tests.support.fleets import make_table
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog, add, metadata, protocol


@dataclass
class Heard:
    """Who is told how it goes, and remembers."""

    stages: list[int] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stage(self, number: int, stage: Stage, done: int) -> None:
        self.stages.append(number)

    def step(self, number: int, subject: str, detail: str = "") -> None:
        self.steps.append(subject)

    def waiting(self, pause: Pause) -> None:
        self.pauses.append(pause)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class LakeOnDisk:
    """A folder with tables, and members in a file."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / "lake"

    @property
    def members(self) -> Path:
        return self.root / "members.toml"

    def delta(self, *names: str) -> LakeOnDisk:
        for name in names:
            make_table(self.path / name)
        return self

    def hudi(self, *names: str, version: int = 6) -> LakeOnDisk:
        for name in names:
            maker = HudiTableMaker.create(open_store(self.path / name), version, TableType.COPY_ON_WRITE)
            maker.upsert([1, 2, 3], 1, "a")
        return self

    def index(self, *names: str, versions: tuple[int, int] = (2, 2)) -> LakeOnDisk:
        """Tables as IndexTables4Spark has made them, at a version of its own."""
        for name in names:
            log = IndexLog(open_store(self.path / name))
            log.commit(0, protocol(*versions), metadata()).commit(1, add("a.split"))
        return self

    def run(self, **releases: str) -> LakeOnDisk:
        """Has members run these releases; they read all tables, and those called load write them."""
        told = (
            f'[[members]]\nname = "{name}"\nrelease = "{release}"\n{"writes" if name == "load" else "reads"} = ["*"]\n'
            for name, release in releases.items()
        )
        self.members.write_text("\n".join(told))
        return self

    def planned(self, **target: Any) -> SavedPlan:
        wanted = {key: tuple(map(Release.parse, each)) if key == "releases" else each for key, each in target.items()}
        found = propose_rollout(Lake.discover(self.path), Target(**wanted), members_file=str(self.members))[0]
        return found.gathered.saved(found.found)

    def applied(self, saved: SavedPlan, heard: Heard | None = None, *, by: str = "ana", **options: Any) -> Pause | None:
        """Applies a plan without waiting, and without rows."""
        chosen = ApplyOptions(**{"verify": Verify.NONE, "wait": False, **options})
        watch = FleetWatch(saved, str(self.members) if self.members.exists() else "")
        return apply_plan(saved, watch, heard or Heard(), by=by, options=chosen)
