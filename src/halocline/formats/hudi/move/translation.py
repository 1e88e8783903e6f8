"""One timeline, two layouts: each file of an instant as the other layout has it.

Up, the time at which a completed file was written becomes its completion time; but never one before the instant began,
nor before that of an earlier instant, because copies of a table lose those times. Down, the completion time becomes the
time at which the file was written, where the store lets us say so. What commits tell is JSON below and Avro above, with
the same names; plans are the same bytes on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from halocline.formats.hudi.avro.containers import MAGIC, write_record
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.timeline.bodies import decode_body
from halocline.formats.hudi.timeline.instant import (
    CLUSTERING,
    REPLACE_COMMIT,
    WRITES,
    HudiInstant,
    InstantState,
    file_name,
    instant_text,
    moment_of,
    order,
)
from halocline.formats.hudi.timeline.timeline import timeline_files
from halocline.formats.hudi.write import schemas
from halocline.storage.base import Store

_OF_LOGS: Final = frozenset({"logVersion", "logOffset", "baseFile", "logFiles"})
_ONLY_ABOVE: Final = frozenset({"totalLogFiles"})


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """A file of the timeline as the other layout has it.

    Attributes:
        source: Where it lies.
        instant: What it stands for there; its path is where it belongs.
        modified_ms: When it is to have been written; None for whenever it is.
    """

    source: str
    instant: HudiInstant
    modified_ms: int | None

    @property
    def path(self) -> str:
        """Where it belongs."""
        return self.instant.path


def translated_files(store: Store, source: HudiTableConfig, target: HudiTableConfig) -> list[TimelineFile]:
    """Every file of the active timeline as another layout has it, oldest instant first.

    Args:
        store: Where the table lies.
        source: What it is.
        target: What it is to be.
    """
    files = sorted(timeline_files(store, source), key=_age)
    clusterings = _clusterings(store, files)
    return list(_upward(files, clusterings, target) if target.layout > 1 else _downward(files, target))


def translated_body(data: bytes, file: TimelineFile, layout: int) -> bytes:
    """What a file says, as a layout has it.

    Raises:
        MalformedError: It is torn.
    """
    if file.instant.action not in WRITES or file.instant.state is InstantState.REQUESTED or not data.strip():
        return data
    if (layout > 1) == data.startswith(MAGIC):
        return data
    record = decode_body(data, file.source).record
    return _to_avro(record, file.instant.action) if layout > 1 else _to_json(record, file.instant.action)


def _upward(
    files: Iterable[HudiInstant], clusterings: frozenset[str], target: HudiTableConfig
) -> Iterator[TimelineFile]:
    latest = ""
    for each in files:
        found = each
        if each.is_completed:
            written = instant_text(datetime.fromtimestamp(each.written_ms / 1000, UTC), target)
            latest = max(latest, each.time, written, key=order)
            found = replace(each, completion=latest)
        elif each.action == REPLACE_COMMIT and each.time in clusterings:
            found = replace(each, action=CLUSTERING)
        yield TimelineFile(each.path, _placed(found, target), None)


def _downward(files: Iterable[HudiInstant], target: HudiTableConfig) -> Iterator[TimelineFile]:
    for each in files:
        action = REPLACE_COMMIT if each.action == CLUSTERING else each.action
        moment = None if each.completion is None else moment_of(each.completion, target)
        modified = each.written_ms if moment is None else round(moment.timestamp() * 1000)
        yield TimelineFile(each.path, _placed(replace(each, action=action, completion=None), target), modified)


def _placed(instant: HudiInstant, target: HudiTableConfig) -> HudiInstant:
    return replace(instant, path=f"{target.timeline_folder}/{file_name(instant)}")


def _age(instant: HudiInstant) -> tuple[str, str, str]:
    return order(instant.time), instant.action, instant.path


def _clusterings(store: Store, files: Iterable[HudiInstant]) -> frozenset[str]:
    """The replace commits that are clusterings: their plan says so, their name does not."""
    plans = [each for each in files if each.action == REPLACE_COMMIT and each.state is InstantState.REQUESTED]
    bodies = store.get_many(each.path for each in plans)
    return frozenset(
        each.time
        for each, data in zip(plans, bodies, strict=True)
        if decode_body(data, each.path).record.get("operationType") == "CLUSTER"
    )


def _to_avro(record: Mapping[str, Any], action: str) -> bytes:
    said = {**record, "version": record.get("version") or 1}
    said["extraMetadata"] = {
        key: value for key, value in (record.get("extraMetadata") or {}).items() if value is not None
    }
    return write_record(schemas.REPLACE_COMMIT if action == REPLACE_COMMIT else schemas.COMMIT, said)


def _to_json(record: Mapping[str, Any], action: str) -> bytes:
    said = {key: value for key, value in record.items() if key != "version"}
    said["partitionToWriteStats"] = {
        partition: [_stat(each) for each in stats]
        for partition, stats in (record.get("partitionToWriteStats") or {}).items()
    }
    if action == REPLACE_COMMIT:
        said["partitionToReplaceFileIds"] = record.get("partitionToReplaceFileIds") or {}
    return msgspec.json.format(msgspec.json.encode(said), indent=2)


def _stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    """A write as older releases tell it: what is about log files only where it wrote one."""
    left_out = _ONLY_ABOVE | (_OF_LOGS if stat.get("logVersion") is None else frozenset())
    return {key: value for key, value in stat.items() if key not in left_out}
