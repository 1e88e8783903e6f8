"""Terms: what a table asks of whoever uses it, the one input of every verdict.

The *terms* of a table are its protocol and what is in use under it. A feature that the protocol supports is *in use*
when the metadata switches it on, and it is in use in a *mode* where clients tell modes apart: `columnMapping:id`,
`deletionVectors:partitioned`. Which modes there are, and when they hold, stands in the records of features.

Sometimes only a protocol is known, and not what is in use under it. Then the features that the protocol lists count as
in use, those that its numbers only imply as possibly in use, and no mode is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from halocline.compat.features import feature
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.errors import NotFoundError


@dataclass(frozen=True)
class Terms:
    """What a table asks of whoever uses it.

    Attributes:
        protocol: The protocol.
        in_use: The features that are switched on, and their modes; None if only the protocol is known.
    """

    protocol: Protocol
    in_use: frozenset[str] | None = None

    @staticmethod
    def of(protocol: Protocol, metadata: TableMetadata) -> Terms:
        """The terms of a table with this protocol and metadata.

        Example:
            >>> Terms.of(Protocol.delta(1, 4), TableMetadata({"delta.appendOnly": "true"})).in_use
            frozenset({'appendOnly'})
        """
        enabled = protocol.enabled(metadata)
        modes = (
            f"{name}:{mode}"
            for name in enabled
            for mode, condition in feature(protocol.format, name).modes.items()
            if condition.holds(metadata)
        )
        return Terms(protocol, enabled.union(modes))

    @staticmethod
    def using(format: str, names: Iterable[str]) -> Terms:
        """The terms of a table that uses these features and what they require, and nothing else.

        Args:
            format: The table format.
            names: Features, or modes of features.

        Raises:
            NotFoundError: A feature has no such mode.

        Example:
            >>> sorted(Terms.using("delta", ["columnMapping:id"]).requires("read"))
            ['columnMapping', 'columnMapping:id', 'reader 2']
        """
        asked = frozenset(names)
        for name in asked:
            _check_mode(format, name)
        protocol = Protocol.of(format, (base(name) for name in asked))
        return Terms(protocol, protocol.features | asked)

    @staticmethod
    def read(text: str | Protocol | Terms) -> Terms:
        """Terms as they are, or those of a protocol or its text, where it is not known what is in use."""
        if isinstance(text, Terms):
            return text
        return Terms(text if isinstance(text, Protocol) else Protocol.parse(text))

    @property
    def to_come(self) -> frozenset[str]:
        """The features that are listed and not in use, which any writer may begin to use; empty if that is not known.

        Example:
            >>> Terms(Protocol.parse("(3,7|R: deletionVectors|W: deletionVectors)"), frozenset()).to_come
            frozenset({'deletionVectors'})
        """
        return frozenset() if self.in_use is None else self.protocol.listed - self.in_use

    def with_use_of(self, names: Iterable[str]) -> Terms:
        """The same protocol with more in use: what a feature does once it is supported may depend on rows to come."""
        return Terms(self.protocol, (self.in_use or frozenset()) | frozenset(names))

    @property
    def features_in_use(self) -> frozenset[str]:
        """The features in use without their modes; empty if that is not known."""
        return frozenset(name for name in self.in_use or () if ":" not in name)

    def requires(self, operation: str) -> frozenset[str]:
        """The tokens that a party must provide: numbers, features, and modes of features in use.

        Example:
            >>> terms = Terms.of(Protocol.delta(2, 5), TableMetadata({"delta.columnMapping.mode": "id"}))
            >>> sorted(terms.requires("read"))
            ['columnMapping', 'columnMapping:id', 'reader 2']
        """
        plain = self.protocol.requires(operation, self.in_use)
        return plain | {name for name in self.in_use or () if ":" in name and base(name) in plain}

    def asks_beyond(self, before: Terms | None, operation: str) -> frozenset[str]:
        """What a party must newly provide, or newly cope with because it is in use, to do an operation.

        A reader or writer version is the least that will do, so a lower one than before is nothing new.

        Args:
            before: The terms so far; None for a table that is being created.
            operation: What the party does.

        Example:
            >>> plain = Terms(Protocol.delta(1, 7), frozenset())
            >>> sorted(Terms.using("delta", ["deletionVectors"]).asks_beyond(plain, "read"))
            ['deletionVectors', 'reader 3']
        """
        required = self.requires(operation)
        if before is None:
            return required
        lower = {f"reader {self.protocol.reader}"} if self.protocol.reader <= before.protocol.reader else set()
        lower |= {f"writer {self.protocol.writer}"} if self.protocol.writer <= before.protocol.writer else set()
        known = before.requires(operation) | lower
        return (required - known) | {name for name in required - lower if self._uses(name) and not before._uses(name)}

    def without(self, name: str, *, protect_history: bool = False) -> Terms:
        """The terms after a feature has been dropped; see `Protocol.without_feature`.

        Example:
            >>> Terms.using("delta", ["deletionVectors"]).without("deletionVectors").in_use
            frozenset()
        """
        dropped = feature(self.protocol.format, name).name
        protocol = self.protocol.without_feature(dropped, protect_history=protect_history)
        if self.in_use is None:
            return Terms(protocol)
        # A feature that comes in to protect history is in use by being there.
        left = frozenset(each for each in self.in_use if base(each) != dropped)
        return Terms(protocol, left | (protocol.features - self.protocol.features))

    def _uses(self, name: str) -> bool:
        return self.in_use is None or name in self.in_use


@dataclass(frozen=True, slots=True)
class ProtocolChange:
    """A change of what one table requires.

    Args:
        table: The table's URL.
        before: The terms it has; None for a table that is being created.
        after: The terms it would have.
    """

    table: str
    before: Terms | None
    after: Terms

    @property
    def gained(self) -> frozenset[str]:
        """The features that the table would newly support or use."""
        if self.before is None:
            return self.after.protocol.features
        supported = self.after.protocol.features - self.before.protocol.features
        return supported | (self.after.features_in_use - self.before.features_in_use)


def base(name: str) -> str:
    """The feature that a mode belongs to."""
    return name.partition(":")[0]


def _check_mode(format: str, name: str) -> None:
    modes = [f"{base(name)}:{mode}" for mode in feature(format, base(name)).modes]
    if ":" in name and name not in modes:
        message = f"{base(name)} has no mode {name.partition(':')[2]!r} that clients tell apart"
        step = f"Ask for {base(name)}."
        raise NotFoundError.unknown(message, name, modes, condition="FEATURE_UNKNOWN", next_step=step)
