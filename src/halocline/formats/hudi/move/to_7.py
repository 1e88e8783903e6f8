"""6 and 7: the bridge. Nothing on disk differs; the number says that every reader knows both sides of what comes."""

from __future__ import annotations

from typing import Final

from halocline.formats.hudi.move.step import VersionStep
from halocline.formats.hudi.properties import VERSION

STEP: Final = VersionStep(6, lambda pairs: {**pairs, VERSION: "7"}, lambda pairs: {**pairs, VERSION: "6"})
