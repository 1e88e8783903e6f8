"""Protocols: what a table requires of everyone who reads or writes it.

A protocol is a set of features, written down as two version numbers and, from certain numbers on, two lists. Old
clients look at the numbers only, so a `Protocol` keeps numbers and lists exactly as they were found; `features` is the
set they mean. In Delta tables a protocol with lists supports what is listed, one without supports what its numbers
imply. In index tables lists add to the numbers, and in Hudi tables there is one number and no list.

    (1,2)                        a pair of numbers: reader 1, writer 2
    (1,7|W: changeDataFeed)      features for writers only
    (2,7|W: columnMapping)       reader 2 stands for columnMapping, the one reader feature that needs no list
    (3,7|R: a|W: a,b)            both lists; every reader feature is in the writers' list too
    hudi(8)   index(4,4)         other formats say their name

*Normal form* writes a set with the lowest numbers: as a plain pair if some pair implies exactly that set, with lists
otherwise. *Denormal form* spells a pair out as lists. Both leave `features` as it is.

The operations here are sums over feature sets. What metadata asks for, and how a table gets from one protocol to
another, is in `halocline.compat.evolution`; what can be wrong with one is in `halocline.compat.findings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from halocline.compat.dropping import CHECKPOINT_PROTECTION, check_droppable
from halocline.compat.features import feature, find_feature, rules
from halocline.compat.findings import Finding, read_text, read_written, to_text, with_empty_lists
from halocline.compat.metadata import TableMetadata
from halocline.compat.normal_form import (
    Form,
    feature_lists,
    implied_by,
    lowest,
    required_closure,
    spelled_out,
    uses_lists,
    with_listed,
)
from halocline.compat.requirement import Requirements, is_write, reading, writing
from halocline.errors import IncompatibleError, InputError, MalformedError

_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, eq=False, repr=False)
class Protocol:
    """What a table requires, kept as it is written down.

    The plain constructor takes anything, so that a damaged protocol can be held and repaired; `Protocol.delta`,
    `Protocol.index`, `Protocol.hudi`, `Protocol.parse` and `Protocol.from_action` make valid ones only.

    Args:
        format: `delta`, `index` or `hudi`.
        reader: The lowest reader version that may read; for Hudi the table version.
        writer: The lowest writer version that may write; for Hudi the table version.
        reader_features: Features listed for readers; None if there is no list.
        writer_features: Features listed for writers; None if there is no list.

    Example:
        >>> protocol = Protocol.delta(1, 4)
        >>> sorted(protocol.features)
        ['appendOnly', 'changeDataFeed', 'checkConstraints', 'generatedColumns', 'invariants']
        >>> print(protocol.upgraded("deletionVectors").without_feature("deletionVectors"))
        (1,4)
    """

    format: str
    reader: int
    writer: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for name in ("reader_features", "writer_features"):
            listed = getattr(self, name)
            if listed is not None and not isinstance(listed, frozenset):
                object.__setattr__(self, name, frozenset(listed))

    # ------------------------------------------------------------------ making one

    @staticmethod
    def delta(
        reader: int,
        writer: int,
        reader_features: Iterable[str] | None = None,
        writer_features: Iterable[str] | None = None,
    ) -> Protocol:
        """A valid Delta protocol; where the numbers call for lists, a list left out is empty.

        Example:
            >>> print(Protocol.delta(3, 7, ["deletionVectors"], ["deletionVectors", "appendOnly"]))
            (3,7|R: deletionVectors|W: appendOnly,deletionVectors)
        """
        return _valid("delta", reader, writer, reader_features, writer_features)

    @staticmethod
    def index(
        reader: int,
        writer: int,
        reader_features: Iterable[str] | None = None,
        writer_features: Iterable[str] | None = None,
    ) -> Protocol:
        """A valid protocol of an index table.

        Example:
            >>> "avroState" in Protocol.index(4, 4).features
            True
        """
        return _valid("index", reader, writer, reader_features, writer_features)

    @staticmethod
    def hudi(table_version: int) -> Protocol:
        """The protocol of a Hudi table.

        Example:
            >>> Protocol.hudi(8).requires("read")
            frozenset({'table version 8'})
        """
        return _valid("hudi", table_version, table_version, None, None)

    @staticmethod
    def of(format: str, names: Iterable[str], *, unknown_for_readers: Iterable[str] = ()) -> Protocol:
        """The protocol with the lowest numbers that supports these features and what they require.

        Args:
            format: The table format.
            names: The features; names without a record are listed for writers.
            unknown_for_readers: Those names without a record that are listed for readers as well.

        Example:
            >>> print(Protocol.of("delta", ["appendOnly", "invariants"]), Protocol.of("delta", ["rowTracking"]))
            (1,2) (1,7|W: domainMetadata,rowTracking)
        """
        return Protocol(format, *lowest(format, required_closure(format, names), frozenset(unknown_for_readers)))

    @staticmethod
    def parse(text: str) -> Protocol:
        """Reads what `str` of a protocol prints.

        Example:
            >>> Protocol.parse("(3,7|R: deletionVectors|W: deletionVectors)").reader_features
            frozenset({'deletionVectors'})
        """
        format, action = read_text(text)
        return _strict(format, with_empty_lists(format, action), text.strip())

    @staticmethod
    def from_action(action: Mapping[str, Any], format: str = "delta") -> Protocol:
        """Reads the body of a `protocol` action; one that contradicts itself is a `MalformedError`.

        Example:
            >>> print(Protocol.from_action({"minReaderVersion": 1, "minWriterVersion": 2}))
            (1,2)
        """
        return _strict(format, action, "a protocol action")

    @staticmethod
    def read_leniently(action: Mapping[str, Any], format: str = "delta") -> tuple[Protocol, tuple[Finding, ...]]:
        """Reads the body of a `protocol` action as far as possible, and says what is wrong with it.

        Example:
            >>> protocol, findings = Protocol.read_leniently({"minReaderVersion": 1, "minWriterVersion": True})
            >>> print(protocol, findings[0])
            (1,1) minWriterVersion is True, which is not a whole number
        """
        form, findings = read_written(action, format)
        return Protocol(format, *form), findings

    def to_action(self) -> dict[str, Any]:
        """The body of a `protocol` action, lists in order of name.

        Example:
            >>> Protocol.delta(1, 7, None, ["rowTracking", "domainMetadata"]).to_action()
            {'minReaderVersion': 1, 'minWriterVersion': 7, 'writerFeatures': ['domainMetadata', 'rowTracking']}
        """
        action: dict[str, Any] = {"minReaderVersion": self.reader, "minWriterVersion": self.writer}
        if self.reader_features is not None:
            action["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            action["writerFeatures"] = sorted(self.writer_features)
        return action

    # ------------------------------------------------------------------ what it means

    @cached_property
    def defined(self) -> bool:
        """False if a number is higher than any that is defined: then nobody here knows what else it asks for."""
        how = rules(self.format)
        return self.reader <= how.readers[-1] and self.writer <= how.writers[-1]

    @cached_property
    def has_lists(self) -> bool:
        """True if the numbers are such that features are listed."""
        return uses_lists(self.format, self.reader, self.writer)

    @cached_property
    def implied(self) -> frozenset[str]:
        """The features that the numbers alone stand for."""
        if self.has_lists and rules(self.format).lists_replace_numbers:
            return _NOTHING
        return implied_by(self.format, self.reader, self.writer)

    @cached_property
    def listed(self) -> frozenset[str]:
        """The features in either list, under the names of their records."""
        names = (self.reader_features or _NOTHING) | (self.writer_features or _NOTHING)
        return frozenset(feature(self.format, name).name for name in names)

    @cached_property
    def features(self) -> frozenset[str]:
        """The supported features: implied or listed. Unknown names are among them."""
        return self.implied | self.listed

    @property
    def unknown_features(self) -> frozenset[str]:
        """The supported features that have no record."""
        return frozenset(name for name in self.listed if not feature(self.format, name).known)

    def supports(self, name: str) -> bool:
        """True if the feature is implied or listed, under this name or an alias."""
        return name in self.features or feature(self.format, name).name in self.features

    def enabled(self, metadata: TableMetadata) -> frozenset[str]:
        """The supported features that the metadata switches on. An unknown one counts as switched on.

        Example:
            >>> sorted(Protocol.delta(1, 4).enabled(TableMetadata({"delta.appendOnly": "true"})))
            ['appendOnly']
        """
        records = (feature(self.format, name) for name in self.features)
        return frozenset(
            each.name for each in records if not each.known or any(rule.holds(metadata) for rule in each.enabled_by)
        )

    def requires(self, operation: str, enabled: frozenset[str] | None = None) -> frozenset[str]:
        """The tokens that a party must provide: `reader 3`, `writer 7`, `table version 8` and feature names.

        See `halocline.compat.requirement` for what counts as in use.

        Args:
            operation: `read`, `write` or a finer one such as `read.changes`. Who writes must also be able to read.
            enabled: The features known to be in use, e.g. from `enabled`.

        Example:
            >>> sorted(Protocol.delta(2, 5).requires("write"))
            ['columnMapping', 'reader 2', 'writer 5']
        """
        return (self._writing if is_write(operation) else self._reading).tokens(enabled)

    @cached_property
    def _reading(self) -> Requirements:
        return reading(self.format, self._form, self.features)

    @cached_property
    def _writing(self) -> Requirements:
        return writing(self.format, self._form, self.features, self.implied)

    # ------------------------------------------------------------------ algebra

    def normalised(self) -> Protocol:
        """The same features with the lowest numbers; a protocol without lists stays as it is.

        Example:
            >>> print(Protocol.delta(3, 7, [], ["appendOnly", "invariants"]).normalised())
            (1,2)
        """
        how = rules(self.format)
        if not how.lists_replace_numbers or self.writer != how.writer_lists_from or not self.defined:
            return self
        return self._of(self.listed)

    def denormalised(self) -> Protocol:
        """The same features spelled out as lists; a protocol with lists stays as it is.

        Example:
            >>> print(Protocol.delta(1, 2).denormalised())
            (1,7|W: appendOnly,invariants)
        """
        how = rules(self.format)
        if not how.lists_replace_numbers or how.writer_lists_from is None or self.writer >= how.writer_lists_from:
            return self
        return Protocol(self.format, *spelled_out(self.format, self.features, self.unknown_for_readers))

    def simplest(self) -> Protocol:
        """Denormal, then normal form: the lowest numbers, also for an odd pair such as (2,3), which becomes (1,3)."""
        return self.denormalised().normalised()

    def merged(self, *others: Protocol) -> Protocol:
        """Everything that any of them supports, with the lowest numbers.

        Example:
            >>> print(Protocol.delta(1, 6).merged(Protocol.delta(2, 5)))
            (2,6)
        """
        everyone = (self, *others)
        for each in others:
            if each.format != self.format:
                raise InputError(
                    "protocols of different formats cannot be merged",
                    sides={"one": self.format, "other": each.format},
                    next_step="Merge protocols of one format only.",
                )
        reader, writer = max(each.reader for each in everyone), max(each.writer for each in everyone)
        how = rules(self.format)
        if not how.lists_replace_numbers:
            lists = (
                _union(each.reader_features for each in everyone),
                _union(each.writer_features for each in everyone),
            )
            return Protocol(self.format, reader, writer, *lists)
        if not uses_lists(self.format, reader, writer):
            return Protocol(self.format, reader, writer).simplest()
        names = _NOTHING.union(*(each.features for each in everyone))
        unknown = _NOTHING.union(*(each.unknown_for_readers for each in everyone))
        if not all(each.defined for each in everyone):
            # Nobody here knows what such a number means, so it stays.
            return Protocol(self.format, reader, writer, *feature_lists(self.format, names, unknown, reader))
        return Protocol(self.format, *lowest(self.format, names, unknown))

    def with_feature(self, name: str) -> Protocol:
        """This protocol with one more feature and all that it requires, at the numbers it has.

        It never raises the numbers: a feature that they have no room for is an `IncompatibleError`. `upgraded` does.

        Example:
            >>> print(Protocol.delta(1, 7).with_feature("rowTracking"))
            (1,7|W: domainMetadata,rowTracking)
        """
        wanted = find_feature(self.format, name)
        protocol = self.with_features(*sorted(wanted.requires))
        if wanted.name in protocol.features:
            return protocol
        form = with_listed(self.format, protocol._form, wanted)
        if form is None:
            reader, writer = wanted.minimum
            raise IncompatibleError(
                f"feature {wanted.name} needs higher version numbers than the protocol has",
                condition="PROTOCOL_TOO_LOW",
                sides={"protocol": str(self), wanted.name: f"reader {reader}, writer {writer}"},
                next_step=f"Raise the protocol with the feature: Protocol.upgraded({wanted.name!r}).",
            )
        return Protocol(self.format, *form)

    def with_features(self, *names: str) -> Protocol:
        """`with_feature` for each name."""
        protocol = self
        for name in names:
            protocol = protocol.with_feature(name)
        return protocol

    def repaired(self) -> Protocol:
        """The valid protocol that supports the same features and what they require, in normal form.

        Example:
            >>> print(Protocol("delta", 1, 2, None, frozenset({"rowTracking"})).repaired())
            (1,7|W: appendOnly,domainMetadata,invariants,rowTracking)
        """
        how = rules(self.format)
        if not self.defined or how.level_name:
            return self
        meant = self.features
        if how.writer_lists_from is not None and self.writer < how.writer_lists_from:
            meant |= implied_by(self.format, self.reader, self.writer)
        return self._of(required_closure(self.format, meant))

    def upgraded(self, *names: str) -> Protocol:
        """This protocol and these features with what they require, at the lowest numbers that hold them.

        Example:
            >>> print(Protocol.delta(1, 2).upgraded("deletionVectors"))
            (3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)
        """
        wanted = [find_feature(self.format, name).name for name in names]
        return self.merged(Protocol.of(self.format, wanted)) if wanted else self

    def without_feature(self, name: str, protect_history: bool = False) -> Protocol:
        """The protocol after the feature has been dropped, in normal form.

        Args:
            name: The feature.
            protect_history: True if history is kept and protected instead of truncated. Where old versions still use
                the feature, this adds checkpointProtection, which then is a requirement of its own.

        Example:
            >>> print(Protocol.delta(2, 5).without_feature("columnMapping"))
            (1,4)
        """
        dropped = feature(self.format, name)
        check_droppable(dropped, self.features, str(self), defined=self.defined, protect_history=protect_history)
        rest = self.features - {dropped.name}
        if protect_history and dropped.drop is not None and dropped.drop.barrier:
            rest |= {CHECKPOINT_PROTECTION}
        return self._of(rest)

    def can_upgrade_to(self, other: Protocol) -> bool:
        """True if the other supports everything that this one does; numbers do not matter.

        Example:
            >>> Protocol.delta(1, 2).can_upgrade_to(Protocol.delta(1, 7, None, ["appendOnly", "invariants"]))
            True
        """
        return self.format == other.format and self.features <= other.features

    def can_downgrade_to(self, other: Protocol, dropped: str) -> bool:
        """True if the other is this one without the dropped feature, and at most with its history protected.

        Example:
            >>> Protocol.delta(2, 5).can_downgrade_to(Protocol.delta(1, 4), "columnMapping")
            True
        """
        if self.format != other.format or not self.supports(dropped):
            return False
        added = other.features - self.features
        left = self.features - {feature(self.format, dropped).name}
        return added <= {CHECKPOINT_PROTECTION} and other.features - added == left

    # ------------------------------------------------------------------ as a value

    @cached_property
    def unknown_for_readers(self) -> frozenset[str]:
        """The names without a record that are listed for readers."""
        return frozenset(name for name in self.reader_features or _NOTHING if not feature(self.format, name).known)

    def _of(self, names: frozenset[str]) -> Protocol:
        return Protocol(self.format, *lowest(self.format, names, self.unknown_for_readers))

    @cached_property
    def _form(self) -> Form:
        return Form(self.reader, self.writer, self.reader_features, self.writer_features)

    @cached_property
    def _hash(self) -> int:
        return hash((self.format, self._form))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Protocol):
            return NotImplemented
        return self.format == other.format and self._form == other._form

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        # What is cached stays behind: text hashes differently in every process.
        return Protocol, (self.format, *self._form)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Protocol.parse({self._text!r})"

    @cached_property
    def _text(self) -> str:
        return to_text(self.format, self._form)


def _union(lists: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    present = [each for each in lists if each is not None]
    return _NOTHING.union(*present) if present else None


def _valid(
    format: str, reader: int, writer: int, reader_features: Iterable[str] | None, writer_features: Iterable[str] | None
) -> Protocol:
    action = {"minReaderVersion": reader, "minWriterVersion": writer}
    lists = {"readerFeatures": reader_features, "writerFeatures": writer_features}
    return _strict(format, with_empty_lists(format, action | lists), f"a {format} protocol")


def _strict(format: str, action: Mapping[str, Any], what: str) -> Protocol:
    protocol, findings = Protocol.read_leniently(action, format)
    if fatal := [str(each) for each in findings if each.fatal]:
        raise MalformedError(
            f"{what} contradicts itself: {'; '.join(fatal)}",
            condition="MALFORMED_PROTOCOL",
            sides={"found": str(protocol), "same features": str(protocol.repaired())},
            next_step="Write the protocol again in its valid form; until then clients may understand it differently.",
        )
    return protocol
