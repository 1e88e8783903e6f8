"""A protocol between the log and the rule: the action on disk and the value that answers questions."""

from __future__ import annotations

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import ProtocolAction


def protocol_of(action: ProtocolAction) -> Protocol:
    """What a `protocol` action requires.

    Example:
        >>> print(protocol_of(ProtocolAction(1, 2)))
        (1,2)
    """
    body = {"minReaderVersion": action.min_reader_version, "minWriterVersion": action.min_writer_version}
    lists = {"readerFeatures": action.reader_features, "writerFeatures": action.writer_features}
    return Protocol.from_action({**body, **{key: value for key, value in lists.items() if value is not None}})


def action_of(protocol: Protocol) -> ProtocolAction:
    """The action that records a protocol, lists in order of name."""
    lists = protocol.reader_features, protocol.writer_features
    return ProtocolAction(
        protocol.reader, protocol.writer, *(None if names is None else sorted(names) for names in lists)
    )
