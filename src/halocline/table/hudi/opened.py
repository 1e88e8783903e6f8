"""A Hudi table that has been opened: its instants behind the gate."""

from __future__ import annotations

from datetime import UTC, datetime

from halocline.errors import InputError
from halocline.formats.hudi.bridge import check_written_in_turn
from halocline.formats.hudi.merge.rules import Dialect
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.spark.session.settings import HudiMergeRules
from halocline.table.opening import Opening


class HudiOpened(Opening[HudiSnapshot]):
    """A Hudi table that has been found, or a place where one is to be."""

    def _loaded(self, operation: str, version: int | None, timestamp_ms: int | None) -> HudiSnapshot:
        # The instants of a bootstrap, ...01 and ...02, lose their zeros as numbers.
        as_of: str | datetime | None = (
            None if version is None else f"{version:014}" if version in (1, 2) else str(version)
        )
        if timestamp_ms is not None:
            if version is not None:
                raise InputError("give a version or a timestamp, not both")
            as_of = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        rules = self.settings.hudi_merge_rules
        dialect = None if rules is HudiMergeRules.OF_TABLE else Dialect(rules.value)
        snapshot = HudiSnapshot.load(
            self.store, as_of=as_of, dialect=dialect, release=self.release, operation=operation
        )
        if self.settings.hudi_bridge:
            check_written_in_turn(snapshot)
        return snapshot
