"""What a Hudi table asks of whoever uses it, told by its properties alone."""

from __future__ import annotations

from collections.abc import Mapping

from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.formats.hudi.properties import table_version


def table_terms(pairs: Mapping[str, str], table: str) -> Terms:
    """The terms of a table with these properties.

    Example:
        >>> pairs = {"hoodie.table.version": "8", "hoodie.table.type": "MERGE_ON_READ"}
        >>> "mergeOnRead" in table_terms(pairs, "t").features_in_use
        True
    """
    return Terms.of(Protocol.hudi(table_version(pairs, table)), TableMetadata(pairs))
