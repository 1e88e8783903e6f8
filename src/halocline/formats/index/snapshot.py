"""An index table at one version: what it is, and which splits it consists of.

An `IndexSnapshot` is made behind the gate: the protocol of that version is checked for the release that acts and for
the operation it wants, before any split is read. One you hold is one you may use. A table without any protocol action
is (1,1), with a warning.

Following the log costs one listing, and what came since: `newest` gives the snapshot itself while nothing did, and asks
the gate again only where the protocol has changed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, MalformedError
from halocline.formats.index.log.actions import IndexHeader, IndexMetadata, SplitAdd, SplitSkip
from halocline.formats.index.log.checkpoints import write_checkpoint
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, OWN, check_use, terms_of
from halocline.formats.index.query.bind import SearchedColumns
from halocline.formats.index.split.fields import IndexField, fields_of
from halocline.formats.log.gate import WRITE, LegacyProtocolWarning, own_release
from halocline.html import ShownVersion
from halocline.schema.json_edge import parse
from halocline.schema.types import Struct
from halocline.storage.base import Store

_REGISTRY_PREFIX = "docMappingSchema."


@dataclass(frozen=True, eq=False, repr=False)
class IndexSnapshot(ShownVersion):
    """A version of a table. Made by `IndexSnapshot.load`.

    Attributes:
        replay: The log up to the version.
        release: Who acts.
        operation: What it may do here.
        level: The level of the ladder that is made use of; None if no fleet says.

    Example:
        >>> from halocline.formats.index.transaction import IndexTransaction
        >>> from halocline.schema import Field, Primitive
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore()
        >>> columns = Struct([Field("message", Primitive("string"))])
        >>> IndexTransaction.create(store, columns).commit([], "CREATE TABLE")
        0
        >>> print(IndexSnapshot.load(store).schema)
        struct<message: string>
    """

    replay: IndexReplay
    release: Release
    operation: str
    level: int | None = None

    @staticmethod
    def load(
        store: Store, *, version: int | None = None, release: Release | str | None = None, operation: str = "read"
    ) -> IndexSnapshot:
        """Opens a version, if the release may; the newest if not given.

        Raises:
            IncompatibleError: The release lacks something that the table requires.
            MalformedError: The log is damaged.
            NotFoundError: There is no table, or no such version.
        """
        replay = IndexReplay.open(store, version)
        if replay.header.protocol is None:
            message = f"{store.root} has no protocol and is taken as {LEGACY}; the first write will record one"
            warnings.warn(message, LegacyProtocolWarning, stacklevel=2)
        _ = replay.metadata  # a log without any is damaged, whoever asks
        actor = own_release() if release is None else Release.parse(release)
        return IndexSnapshot(replay, actor, operation)._admitted()

    def _admitted(self) -> IndexSnapshot:
        check_use(self.release, self.terms, self.operation, self.store.root)
        if self.operation.startswith(WRITE):
            self.replay.check_newest()
        return self

    @property
    def store(self) -> Store:
        """Where the table lies."""
        return self.replay.store

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.replay.version

    @property
    def protocol(self) -> Protocol:
        """What the table requires."""
        return self.replay.header.protocol or LEGACY

    @property
    def has_protocol(self) -> bool:
        """Whether the log says what the table requires."""
        return self.replay.header.protocol is not None

    @cached_property
    def terms(self) -> Terms:
        """The protocol, and what is in use under it."""
        return terms_of(self.protocol, has_avro_state=self.replay.has_avro_state)

    @property
    def metadata(self) -> IndexMetadata:
        """What the table is."""
        return self.replay.metadata

    @cached_property
    def schema(self) -> Struct:
        """The columns of the table, those that it is partitioned by among them."""
        return parse(self.metadata.schema_string)

    @cached_property
    def fields(self) -> tuple[IndexField, ...]:
        """What indexes of the table have of its columns.

        Raises:
            InputError: An option of a column does not exist, or cannot be had for it.
        """
        return fields_of(self.schema, self.metadata.configuration, self.metadata.partition_columns)

    @cached_property
    def searched_columns(self) -> SearchedColumns:
        """What a query of the table may name."""
        return SearchedColumns.of(self.schema, self.metadata.configuration, self.metadata.partition_columns)

    @property
    def files(self) -> Mapping[str, SplitAdd]:
        """The live splits by path."""
        return self.replay.state.files

    @property
    def skips(self) -> Mapping[str, SplitSkip]:
        """The newest skip of each split that has one."""
        return self.replay.state.skips

    def txn_version(self, app_id: str) -> int | None:
        """The last version of its own that an application has written; None if it has written none."""
        found = self.replay.state.txns.get(app_id)
        return None if found is None else found.version

    @property
    def rows(self) -> int | None:
        """How many rows the splits hold, deleted ones aside; None if one of them does not say."""
        counts = [each.live_records for each in self.files.values()]
        return None if None in counts else sum(each for each in counts if each is not None)

    def doc_mapping(self, split: SplitAdd) -> str | None:
        """The index schema of a split as JSON text; None if nothing says it.

        Raises:
            MalformedError: The split refers to one that is not there.
        """
        if split.doc_mapping_json is not None or split.doc_mapping_ref is None:
            return split.doc_mapping_json
        for known in (self.replay.state.registry, self.metadata.configuration):
            for key in (split.doc_mapping_ref, _REGISTRY_PREFIX + split.doc_mapping_ref):
                if key in known:
                    return known[key]
        raise MalformedError(
            f"{split.path} refers to index schema {split.doc_mapping_ref}, which the log does not hold",
            condition="MALFORMED_LOG",
            sides={"table": self.store.root, "split": split.path},
            next_step="Restore the log from a backup, or repair it.",
        )

    def reopened(self, operation: str) -> IndexSnapshot:
        """The same version for another operation, behind the gate once more."""
        return self if operation == self.operation else replace(self, operation=operation)._admitted()

    def newest(self) -> IndexSnapshot:
        """The newest version for the same operation; itself while nothing came since."""
        replay = self.replay.following()
        if replay is None:
            return self
        later = replace(self, replay=replay)
        return later if later.terms == self.terms else later._admitted()

    def is_newest(self) -> bool:
        """Whether no later version has been committed meanwhile."""
        return self.replay.following() is None

    def at_level(self, level: int) -> IndexSnapshot:
        """The same version, used at a level of the ladder and no higher."""
        if level < self.protocol.writer and self.operation.startswith(WRITE):
            raise InputError(
                f"{self.store.root} is at level {self.protocol.writer} and cannot be written at {level}",
                sides={"table": str(self.protocol), "level": str(level)},
                next_step="Raise the fleet's level first.",
            )
        return replace(self, level=level)

    def write_checkpoint(self, now_ms: int | None = None) -> None:
        """Writes a checkpoint of this version, with all that counts at it."""
        at = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        header = IndexHeader(self.replay.header.protocol, self.metadata)
        compress = OWN.can_upgrade_to(self.protocol)
        write_checkpoint(self.store, self.version, self.replay.state.actions(header, at), compress=compress)
