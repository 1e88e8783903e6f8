"""The user's table: open it, look at it, read, write, change and maintain it.

`Table` works alone. A fleet, when there is one, stands in front of it as a gatekeeper. Each format has a room of its
own, and is known to `Table` once its class is loaded, which happens when a name here is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halocline.table.delta.table import DeltaLakeTable
    from halocline.table.hudi.table import HudiTable
    from halocline.table.index.table import IndexTable
    from halocline.table.table import Table

__all__ = ["DeltaLakeTable", "HudiTable", "IndexTable", "Table"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from halocline.table.delta.table import DeltaLakeTable
    from halocline.table.hudi.table import HudiTable
    from halocline.table.index.table import IndexTable
    from halocline.table.table import Table

    globals().update(DeltaLakeTable=DeltaLakeTable, HudiTable=HudiTable, IndexTable=IndexTable, Table=Table)
    return globals()[name]
