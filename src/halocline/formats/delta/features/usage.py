"""Where a feature shows in a table: in its metadata, its files, its domains and its checkpoints.

A *trace* is something in the log that a client without the feature would misread or not know what to do with. Metadata
carries traces when it switches the feature on, or when columns still carry the feature's annotations. Deletion vectors
show in file actions as well, V2 checkpoints in the log's own files, row ids in live files.

The protocol is no trace: it names the feature until the very commit that drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.compat.features import Feature
from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import Action, Add, DomainMetadata, Metadata, Remove, decode_commit
from halocline.formats.delta.configuration.metadata_rules import table_metadata
from halocline.formats.delta.configuration.row_tracking import bare
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.snapshot.writers import commit_bytes
from halocline.formats.log.names import DELTA, FileKind
from halocline.formats.log.segment import CheckpointFiles, complete_checkpoints, list_files
from halocline.storage.base import Store

_V2_CHECKPOINT: Final = "v2Checkpoint"


@dataclass(frozen=True, slots=True)
class Trace:
    """Something in the log that uses a feature.

    Attributes:
        version: The version it belongs to.
        where: What it is, for people.
    """

    version: int
    where: str

    def __str__(self) -> str:
        return f"{self.where} of version {self.version}"


def uses_always(record: Feature) -> bool:
    """Whether to support the feature is to use it, so that no trace can tell."""
    return any(rule.always for rule in record.enabled_by)


def annotations_of(record: Feature) -> frozenset[str]:
    """The field annotations that go when the feature is dropped."""
    steps = record.drop.steps if record.drop is not None else ()
    return frozenset(key for step in steps if step.name == "strip-annotations" for key in step.detail)


def in_metadata(record: Feature, metadata: Metadata) -> bool:
    """Whether metadata switches the feature on, or columns still carry its annotations."""
    table = table_metadata(metadata)
    enabled = any(rule.holds(table) for rule in record.enabled_by if not rule.always)
    return enabled or not table.field_annotations.isdisjoint(annotations_of(record))


def in_action(record: Feature, action: Action) -> bool:
    """Whether an action uses the feature.

    Example:
        >>> from halocline.compat.features import feature
        >>> in_action(feature("delta", "deletionVectors"), Add("a.parquet", {}, 1, 1, True))
        False
    """
    if isinstance(action, Metadata):
        return in_metadata(record, action)
    test = _IN_ACTIONS.get(record.name)
    return test is not None and test(action)


_IN_ACTIONS: Final[Mapping[str, Callable[[Action], bool]]] = {
    "deletionVectors": lambda action: isinstance(action, Add | Remove) and action.deletion_vector is not None,
    "rowTracking": lambda action: isinstance(action, Add) and bare(action) is not action,
    "domainMetadata": lambda action: isinstance(action, DomainMetadata),
}
"""How features show in actions other than metadata."""


def history_traces(store: Store, record: Feature, upto: int) -> Iterator[Trace]:
    """Every trace of a feature in what the log still holds up to a version, oldest first.

    Tombstones in checkpoints do not count: nobody reads a file through them.
    """
    files = [file for file in list_files(store, DELTA) if file.version <= upto]
    checkpoints = complete_checkpoints(files)
    if checkpoints:
        earliest = min(checkpoints, key=lambda each: each.version)
        yield from _in_checkpoint_state(store, record, earliest)
    if record.name == _V2_CHECKPOINT:
        yield from (Trace(each.version, each.name) for each in checkpoints if is_v2(store, each))
    for file, data in commit_bytes(store, [file for file in files if file.kind is FileKind.COMMIT]):
        if any(in_action(record, action) for action in decode_commit(data, file.name).actions):
            yield Trace(file.version, "the commit")


def is_v2(store: Store, checkpoint: CheckpointFiles) -> bool:
    """Whether a checkpoint follows the V2 specification; one that cannot be read counts as if."""
    try:
        return Checkpoint(store, DELTA, checkpoint).others.is_v2
    except (MalformedError, NotFoundError):
        return True


def _in_checkpoint_state(store: Store, record: Feature, files: CheckpointFiles) -> Iterator[Trace]:
    checkpoint = Checkpoint(store, DELTA, files)
    metadata = checkpoint.others.header.metadata
    if metadata is not None and in_metadata(record, metadata):
        yield Trace(files.version, f"the metadata in checkpoint {files.name}")
    if record.name == "deletionVectors":
        for batch in checkpoint.adds(["path", "deletionVector"]):
            if _any_vector(batch.get("deletionVector")):
                yield Trace(files.version, f"a deletion vector in checkpoint {files.name}")
                return


def _any_vector(vectors: Any) -> bool:
    if vectors is None or not pa.types.is_struct(vectors.type):
        return False
    return bool(pc.any(pc.is_valid(pc.struct_field(vectors, "storageType"))).as_py())
