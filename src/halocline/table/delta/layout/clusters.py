"""Clusters: which files of a table hold rows that were brought together by its clustering columns.

A *cluster* is what one run has written: files whose rows lie along one curve. Each of them names the *provider*, which
is who wrote it, as the format asks for; its tags name the cluster and the columns. A file without a provider is
*loose*. Loose files are clustered together with the clusters that are still small. What another provider has written,
or what was clustered by other columns, stays as it is until all of it is asked for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from halocline.formats.delta.actions.action import Add
from halocline.schema.types import Path
from halocline.table.delta.layout.bins import DELETED_SHARE, deleted_shares

PROVIDER: Final = "halocline"
SMALL: Final = 100 * 1024**3
"""A cluster of fewer bytes is written again when loose files join it."""

_CLUSTER: Final = "halocline.cluster"
_COLUMNS: Final = "halocline.clusteredBy"


def to_cluster(files: pa.Table, columns: Sequence[Path], *, full: bool) -> list[int]:
    """The numbers of the files that are to be clustered by some columns, which go by their physical names.

    Example:
        >>> files = {"size": [1, 1], "clustering_provider": [None, "liquid"], "tags": [None, None]}
        >>> files = pa.table(files | {"stats": pa.nulls(2, pa.string()), "deletion_vector": pa.nulls(2)})
        >>> [to_cluster(files, [("id",)], full=full) for full in (False, True)]
        [[0], [0, 1]]
    """
    loose, foreign, clusters = list[int](), list[int](), dict[str | None, list[int]]()
    wanted, sizes = json.dumps(list(columns)), files["size"].to_pylist()
    pairs = zip(files["clustering_provider"].to_pylist(), files["tags"].to_pylist(), strict=True)
    for number, (provider, tags) in enumerate(pairs):
        said = dict(tags or ())
        if provider is None:
            loose.append(number)
        elif provider != PROVIDER or said.get(_COLUMNS) != wanted:
            foreign.append(number)
        else:
            clusters.setdefault(said.get(_CLUSTER), []).append(number)
    small = [numbers for numbers in clusters.values() if sum(sizes[each] or 0 for each in numbers) < SMALL]
    shares = deleted_shares(files)
    holed = any(shares[each] > DELETED_SHARE for numbers in small for each in numbers)
    taken = [*loose, *(foreign if full else ())]
    if not taken and len(small) < 2 and not holed:
        return []
    return sorted([*taken, *(each for numbers in small for each in numbers)])


def clustered(adds: Sequence[Add], columns: Sequence[Path]) -> list[Add]:
    """New files as those of one cluster."""
    tags = {_CLUSTER: str(uuid.uuid4()), _COLUMNS: json.dumps(list(columns))}
    return [
        msgspec.structs.replace(add, clustering_provider=PROVIDER, tags={**(add.tags or {}), **tags}) for add in adds
    ]
