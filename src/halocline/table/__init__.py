"""The user's table: open it, look at it, read, write, change and maintain it.

`Table` works alone. A fleet, when there is one, stands in front of it as a gatekeeper.
"""

from halocline.table.table import Table

__all__ = ["Table"]
