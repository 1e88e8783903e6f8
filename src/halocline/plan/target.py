"""The target of a rollout: what tables and products are to become."""

from __future__ import annotations

from dataclasses import dataclass

from halocline.compat.features import features, find_switchable
from halocline.compat.release import Release
from halocline.errors import InputError
from halocline.formats.hudi.move.planning import VERSIONS


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted.

    Attributes:
        enable: Features that tables are to use; each is about tables of the format that has it, Delta or index.
        drop: Features that Delta tables are to lose. What an index table requires only grows.
        truncate: Whether old versions that use a dropped feature are deleted; None to compare both ways.
        table_version: The version that Hudi tables are to have; 0 to leave them.
        releases: What products are to have.
        select: Names of the tables that it is about, where `*` stands for any characters; all if empty.

    Example:
        >>> Target(enable=("deletionvectors",)).enable
        ('deletionVectors',)
    """

    enable: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    truncate: bool | None = None
    table_version: int = 0
    releases: tuple[Release, ...] = ()
    select: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("enable", "drop"):
            known = tuple(find_switchable(each).name for each in getattr(self, field))
            object.__setattr__(self, field, tuple(dict.fromkeys(known)))
        if lasting := [each for each in self.drop if each not in features("delta")]:
            raise InputError(
                f"{', '.join(lasting)} cannot be taken out: what an index table requires only grows",
                sides={"asked for": f"drop {', '.join(lasting)}", "possible": "features of Delta tables"},
                next_step="Write the rows into a new table.",
            )
        if both := set(self.enable) & set(self.drop):
            raise InputError(
                f"{', '.join(sorted(both))} cannot be switched on and taken out at once",
                sides={"enable": ", ".join(self.enable), "drop": ", ".join(self.drop)},
                next_step="Leave it out of one of them.",
            )
        if self.table_version and self.table_version not in VERSIONS:
            raise InputError(
                f"there is no table version {self.table_version} to move Hudi tables to",
                sides={"asked for": str(self.table_version), "known": ", ".join(map(str, VERSIONS))},
                next_step="Choose one of them.",
            )
        if self.truncate is not None and not self.drop:
            raise InputError(
                "what becomes of history is asked when a feature is dropped, and none is",
                next_step="Leave --history out, or name a feature with --drop.",
            )
        if not (self.enable or self.drop or self.table_version or self.releases):
            raise InputError(
                "nothing is said about what is to change",
                sides={"known": "--enable, --drop, --table-version, --release"},
                next_step="halocline plan LAKE --enable deletionVectors",
            )
