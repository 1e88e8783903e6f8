"""A protocol between the log and the rule: the action on disk and the value that answers questions."""

from __future__ import annotations

import msgspec

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import ProtocolAction


def protocol_of(action: ProtocolAction) -> Protocol:
    """What a `protocol` action requires.

    Example:
        >>> print(protocol_of(ProtocolAction(1, 2)))
        (1,2)
    """
    return Protocol.from_action(msgspec.to_builtins(action))


def action_of(protocol: Protocol) -> ProtocolAction:
    """The action that records a protocol, lists in order of name."""
    return msgspec.convert(protocol.to_action(), ProtocolAction)
