"""The user's table: open it, look at it, read, write, change and maintain it.

`Table` works alone. A fleet, when there is one, stands in front of it as a gatekeeper. Each format has a room of its
own, and is known to `Table` once its class is loaded, which happens here.
"""

from halocline.table.delta.table import DeltaLakeTable
from halocline.table.table import Table

__all__ = ["DeltaLakeTable", "Table"]
