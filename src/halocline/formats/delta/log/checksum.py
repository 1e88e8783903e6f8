"""Version checksums: a summary of one version beside its commit, `<version>.crc`.

Some readers take a table's protocol, metadata and totals from here without replaying the log, so a wrong checksum is
a wrong table to them. A checksum is written only if every number in it is known: counted in full when a checkpoint is
written, or carried on from an earlier checksum through commits whose movements are exact. Otherwise there is none,
which every reader must live with. One that exists is never overwritten.

Lists that are long, and transactions that expire, are left out as a whole: a list that is there is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from halocline.errors import AlreadyExistsError, MalformedError, NotFoundError
from halocline.formats.delta.actions import domains
from halocline.formats.delta.actions.action import Commit, DomainMetadata, Metadata, ProtocolAction, Txn
from halocline.formats.delta.configuration.in_commit_timestamps import is_enabled
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.log.table_size import Histogram, TableSize
from halocline.formats.log.names import DELTA
from halocline.storage.base import Store

LONGEST_LIST: Final = 100
"""How many transactions or domains a checksum lists at most."""


@dataclass(frozen=True)
class Summary:
    """What a checksum says of a version.

    Attributes:
        table_size: Its live files, counted.
        protocol: Its protocol.
        metadata: Its metadata.
        txns: The newest transaction of each application; None if that is not known.
        domains: The live domains; None if that is not known.
        in_commit_timestamp: Its timestamp, where commits carry one.
        txn_id: The identifier of the commit.
    """

    table_size: TableSize
    protocol: ProtocolAction
    metadata: Metadata
    txns: Mapping[str, Txn] | None = None
    domains: Mapping[str, DomainMetadata] | None = None
    in_commit_timestamp: int | None = None
    txn_id: str | None = None

    def encode(self) -> bytes:
        """The file, as Delta writes it."""
        counts_vectors = "deletionVectors" in (self.protocol.writer_features or ())
        configuration = self.metadata.configuration
        expire = "delta.setTransactionRetentionDuration" in configuration
        content: dict[str, Any] = {
            "txnId": self.txn_id,
            "tableSizeBytes": self.table_size.bytes,
            "numFiles": self.table_size.files,
            "numDeletedRecordsOpt": self.table_size.deleted if counts_vectors else None,
            "numDeletionVectorsOpt": self.table_size.vectors if counts_vectors else None,
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": self.in_commit_timestamp if is_enabled(configuration) else None,
            "setTransactions": None if expire else _listed(self.txns),
            "domainMetadata": _listed(self.domains),
            "metadata": self.metadata.to_json(),
            "protocol": msgspec.to_builtins(self.protocol),
            "fileSizeHistogram": self.table_size.histogram and self.table_size.histogram.to_json(),
        }
        return msgspec.json.encode({key: value for key, value in content.items() if value is not None}) + b"\n"


def first(commit: Commit) -> Summary | None:
    """The summary of a table's first version; None if it cannot be told."""
    if commit.protocol is None or commit.metadata is None:
        return None
    return after(Summary(TableSize(), commit.protocol, commit.metadata, {}, {}), commit)


def after(summary: Summary, commit: Commit) -> Summary | None:
    """The summary of the next version; None if it cannot be told from this one."""
    size = summary.table_size.after(commit)
    if size is None:
        return None
    metadata, info = commit.metadata or summary.metadata, commit.commit_info
    expires = TableProperties(metadata.configuration).transaction_retention_ms is not None
    named = {each.app_id: each for each in commit.txns}
    return Summary(
        size,
        commit.protocol or summary.protocol,
        metadata,
        None if summary.txns is None or expires else {**summary.txns, **named},
        None if summary.domains is None else domains.after(summary.domains, commit.domains),
        None if info is None else info.in_commit_timestamp,
        None if info is None else info.txn_id,
    )


def read_summary(store: Store, version: int) -> Summary | None:
    """The checksum of a version; None if there is none that can be used."""
    try:
        return decode_summary(store.get(path_of(version)))
    except NotFoundError:
        return None


def decode_summary(data: bytes) -> Summary | None:
    """Reads a checksum; None if it lacks something or contradicts itself."""
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
        histogram = Histogram.from_json(content.get("fileSizeHistogram") or content.get("histogramOpt"))
        size = TableSize(
            files=content["numFiles"],
            bytes=content["tableSizeBytes"],
            vectors=content.get("numDeletionVectorsOpt"),
            deleted=content.get("numDeletedRecordsOpt"),
            histogram=histogram,
        )
        if type(size.files) is not int or type(size.bytes) is not int or min(size.files, size.bytes) < 0:
            return None
        if histogram is not None and (sum(histogram.counts), sum(histogram.totals)) != (size.files, size.bytes):
            return None
        txns, named = content.get("setTransactions"), content.get("domainMetadata")
        return Summary(
            table_size=size,
            protocol=msgspec.convert(content["protocol"], ProtocolAction),
            metadata=Metadata.from_json(content["metadata"]),
            txns=None if txns is None else {t.app_id: t for t in msgspec.convert(txns, list[Txn])},
            domains=None if named is None else {d.domain: d for d in msgspec.convert(named, list[DomainMetadata])},
            in_commit_timestamp=content.get("inCommitTimestampOpt"),
            txn_id=content.get("txnId"),
        )
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, MalformedError, RecursionError):
        return None


def write_summary(store: Store, version: int, summary: Summary) -> bool:
    """Writes the checksum of a version, unless there is one; tells whether it was written."""
    try:
        store.put_if_absent(path_of(version), summary.encode())
    except AlreadyExistsError:
        return False
    return True


def path_of(version: int) -> str:
    """Where the checksum of a version lies."""
    return f"{DELTA.prefix(version)}.crc"


def _listed(values: Mapping[str, Txn] | Mapping[str, DomainMetadata] | None) -> list[Any] | None:
    if values is None or len(values) > LONGEST_LIST:
        return None
    return [msgspec.to_builtins(each) for each in values.values()]
