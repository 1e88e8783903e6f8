"""How a process comes to belong to the fleet that its settings name.

Tables do not know of fleets. Whatever makes members of processes registers here what does it, and the opener asks for
it when a table is opened whose settings name a fleet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.spark.session.settings import Settings
    from halocline.table.gatekeeper import Gatekeeper

    Join = Callable[[Settings, str, SparkSession | None, bool], Gatekeeper | None]

_join: Join | None = None


def register_fleet(join: Join) -> None:
    """Notes what makes this process a member.

    It is called with the settings that name the fleet, the release that acts, the session if there is one, and whether
    the process lives only for as long as a data source needs it.
    """
    global _join
    _join = join


def join(
    settings: Settings, release: str, spark: SparkSession | None, *, short_lived: bool = False
) -> Gatekeeper | None:
    """Makes this process a member of the fleet that the settings name, unless it is one already.

    Returns who stands in front of the table that is opened; None if it is who stands in front of all.
    """
    return None if _join is None else _join(settings, release, spark, short_lived)
