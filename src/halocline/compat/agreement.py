"""Whether a protocol and the metadata of the same table agree.

The protocol says which features a table supports, the metadata switches them on. They disagree when the metadata
switches on what is not supported, when a feature lacks another that it requires, when two exclude each other, or when
requests (see `halocline.compat.request`) are stored, which ask for a protocol and are never kept.

A fatal disagreement is one that writers refuse. Old protocols without lists may leave out what the metadata switches
on, since writers of their time never listed anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline.compat.features import Feature, feature, features
from halocline.compat.findings import Finding
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request


def added_by(metadata: TableMetadata, protocol: Protocol) -> frozenset[str]:
    """The features that the metadata adds by itself, without what they require.

    A stable feature is not added where a preview that the same metadata switches on is supported, so that clients
    which know only the preview stay in.

    Example:
        >>> added_by(TableMetadata({"delta.enableTypeWidening": "true"}), Protocol.delta(1, 2))
        frozenset({'typeWidening'})
    """
    return frozenset(
        each.name
        for each in features(protocol.format).values()
        if each.added_by_metadata
        and any(rule.holds(metadata) for rule in each.enabled_by)
        and not _preview_suffices(each, protocol)
    )


def _preview_suffices(record: Feature, protocol: Protocol) -> bool:
    previews = (feature(protocol.format, name) for name in record.previews & protocol.features)
    return any(not set(each.enabled_by).isdisjoint(record.enabled_by) for each in previews)


def disagreements(protocol: Protocol, metadata: TableMetadata) -> tuple[Finding, ...]:
    """Everything in which the protocol and the metadata of a table disagree, fatal ones first."""
    enabled = protocol.enabled(metadata)
    found = [*_stray(metadata), *_unsupported(protocol, metadata)]
    for name in sorted(protocol.features):
        record = feature(protocol.format, name)
        found += _requirements(record, protocol, enabled)
        if name in enabled:
            found += _exclusions(record, protocol, enabled, metadata)
    return tuple(sorted(found, key=lambda each: not each.fatal))


def enabling_clause(record: Feature, metadata: TableMetadata) -> str:
    """What in the metadata switches the feature on, for people."""
    return next((str(rule) for rule in record.enabled_by if rule.holds(metadata)), "")


def _stray(metadata: TableMetadata) -> Iterator[Finding]:
    for key in sorted(filter(is_request, metadata.configuration)):
        yield Finding("REQUEST_STORED", f"{key} is stored, and belongs into the protocol", fatal=False)


def _unsupported(protocol: Protocol, metadata: TableMetadata) -> Iterator[Finding]:
    for name in sorted(added_by(metadata, protocol) - protocol.features):
        clause = enabling_clause(feature(protocol.format, name), metadata)
        yield Finding(
            "ENABLED_NOT_SUPPORTED",
            f"{clause} is set, and {name} is not supported",
            fatal=protocol.has_lists,
            feature=name,
        )


def _requirements(record: Feature, protocol: Protocol, enabled: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(record.requires - protocol.features):
        yield Finding(
            "REQUIREMENT_NOT_SUPPORTED", f"{record.name} requires {name}, which is not supported", feature=record.name
        )
    if record.name in enabled:
        for name in sorted(record.requires_enabled & protocol.features - enabled):
            yield Finding(
                "REQUIREMENT_NOT_ENABLED",
                f"{record.name} requires {name}, which is not switched on",
                feature=record.name,
            )


def _exclusions(
    record: Feature, protocol: Protocol, enabled: frozenset[str], metadata: TableMetadata
) -> Iterator[Finding]:
    for name in sorted((record.excludes_supported & protocol.features) | (record.excludes_enabled & enabled)):
        yield Finding("EXCLUDED", f"{record.name} and {name} exclude each other", feature=record.name)
    if record.excludes_partitioning and metadata.partition_columns:
        columns = ", ".join(metadata.partition_columns)
        # Not fatal: a partitioned version that was restored has both, and makes no use of the feature.
        text = f"{record.name} excludes partition columns ({columns})"
        yield Finding("EXCLUDED", text, fatal=False, feature=record.name)
