"""Checkpoints: the whole state of a table at one version, in columns.

A checkpoint is one Parquet file, several parts, or a *V2* one: a top file, Parquet or JSON, whose file actions may lie
in *sidecars* beside it. Which kind a file is shows only when it is opened. All kinds read the same here: the actions
that are not about files, and file actions in batches of Arrow arrays with only the asked-for columns.

A checkpoint never lists fewer files than it was written with and goes unnoticed. What is read is counted, and the count
is compared with a *witness* wherever there is one: the pointer, the checksum of the version, the tags of a V2
checkpoint. Where there is none, every row must be accounted for. No row is left out on the word of a footer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar
from urllib.parse import unquote

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import (
    CheckpointMetadata,
    DomainMetadata,
    ProtocolAction,
    Sidecar,
    Txn,
    decode_commit,
    malformed,
)
from halocline.formats.delta.log.checkpoint_parts import FileColumns, JsonPart, ParquetPart
from halocline.formats.delta.log.commits import Header
from halocline.formats.log.names import LogLayout
from halocline.formats.log.segment import CheckpointFiles
from halocline.storage.base import Store

_SIDECARS: Final = "_sidecars"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Witness:
    """What is said about a checkpoint elsewhere.

    Attributes:
        name: Where it is said.
        files: How many live files there are; None if that is not said.
        actions: How many actions there are, sidecars included; None if that is not said.
    """

    name: str
    files: int | None = None
    actions: int | None = None


@dataclass(frozen=True, slots=True)
class OtherActions:
    """What a checkpoint holds besides files.

    Attributes:
        header: Protocol and metadata.
        txns: The transaction of each application.
        domains: The live domains.
        sidecars: Where the file actions lie, if not in the checkpoint itself.
        mark: What makes it a V2 checkpoint; None if it is none.
    """

    header: Header
    txns: dict[str, Txn]
    domains: dict[str, DomainMetadata]
    sidecars: tuple[Sidecar, ...]
    mark: CheckpointMetadata | None

    @property
    def is_v2(self) -> bool:
        """Whether the checkpoint follows the V2 specification."""
        return self.mark is not None


class Checkpoint:
    """A checkpoint, whatever its kind."""

    def __init__(
        self,
        store: Store,
        layout: LogLayout,
        files: CheckpointFiles,
        witnesses: Callable[[], Iterable[Witness]] = tuple,
        others: OtherActions | None = None,
    ) -> None:
        self._store = store
        self._layout = layout
        self._witnesses = witnesses
        self.files = files
        if others is not None:  # they were read before
            self.others = others

    @property
    def name(self) -> str:
        """Its first file's name."""
        return self.files.name

    @cached_property
    def _parts(self) -> list[ParquetPart | JsonPart]:
        parts: list[ParquetPart | JsonPart] = []
        for file in self.files.files:
            if file.name.endswith(".json"):
                parts.append(JsonPart(decode_commit(self._store.get(file.path), file.name)))
            else:
                parts.append(ParquetPart(self._store, file.path, file.size))
        return parts

    @cached_property
    def others(self) -> OtherActions:
        """Everything that is not about a file."""
        protocols = self._all("protocol", ProtocolAction)
        metadata = [found for part in self._parts for found in part.metadata()]
        for key, count in (("protocol", len(protocols)), ("metaData", len(metadata))):
            if count > 1:
                raise malformed(self.name, f"holds {count} {key} actions, at most 1 is allowed")
        return OtherActions(
            header=Header(
                _with_lists_by_number(protocols[0]) if protocols else None, metadata[0] if metadata else None
            ),
            txns={txn.app_id: txn for txn in self._all("txn", Txn)},
            domains={domain.domain: domain for domain in self._all("domainMetadata", DomainMetadata)},
            sidecars=tuple(self._all("sidecar", Sidecar)),
            mark=next(iter(self._all("checkpointMetadata", CheckpointMetadata)), None),
        )

    def _all(self, key: str, kind: type[_T]) -> list[_T]:
        return [action for part in self._parts for action in part.actions(key, kind)]

    def adds(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The live files; after the last one it is certain that none is missing.

        Args:
            columns: What to read below `add`, by names on disk; dots lead into structs. `path` always comes along, and
                `stats_parsed` where `stats` is asked for and missing.

        Raises:
            MalformedError: The checkpoint is damaged, or does not hold what it was written with.
        """
        return self.counted(part.adds(columns) for part in self.file_parts)

    def counted(self, parts: Iterable[Iterator[tuple[int, _T | None]]]) -> Iterator[_T]:
        """What was made of the files in each part, with the number of files seen; it is compared with the witnesses."""
        unaccounted = files = 0
        for part, made in zip(self.file_parts, parts, strict=True):
            here = 0
            for seen, batch in made:
                here += seen
                if batch is not None:
                    yield batch
            files += here
            unaccounted += part.rows - here
        self._check_complete(files, unaccounted)

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The tombstones, read like `adds`."""
        for part in self.file_parts:
            yield from part.removes(columns)

    def _check_complete(self, files: int, unaccounted: int) -> None:
        """Compares the number of live files with what others say, and the number of rows if nobody says it."""
        told: list[Witness] = []
        for witness in (*self._own_witness(), *self._witnesses()):
            told.append(witness)
            if witness.files == files:
                break
        against = [witness for witness in told if witness.files not in (None, files)]
        if against and told[-1].files == files:
            _log.warning("%s says %s live files, and %s holds %d", against[0].name, against[0].files, self.name, files)
        elif against:
            raise self._incomplete(f"{files} live files", str(against[0].files), against[0].name)
        elif not told or told[-1].files is None:
            self._check_rows(unaccounted, told)

    def _own_witness(self) -> Iterator[Witness]:
        mark = self.others.mark
        number = None if mark is None or mark.tags is None else mark.tags.get("numOfAddFiles")
        if number is not None and number.isdecimal():
            yield Witness(f"tag numOfAddFiles of {self.name}", int(number))

    def _check_rows(self, unaccounted: int, told: Iterable[Witness]) -> None:
        rows = sum(part.rows for part in self.file_parts)
        for witness in told:
            if witness.actions not in (None, rows):
                raise self._incomplete(f"{rows} actions", str(witness.actions), witness.name)
        unaccounted -= sum(part.other_actions for part in self.file_parts)
        if unaccounted > 0 and not any(part.has_unknown_actions for part in self.file_parts):
            unaccounted -= sum(part.count_removes() for part in self.file_parts)
            if unaccounted > 0:
                raise malformed(self.name, f"has {unaccounted} rows that are no action")

    def _incomplete(self, found: str, told: str, witness: str) -> MalformedError:
        return MalformedError(
            f"{self.name} holds {found}, and {witness} says {told}",
            condition="MALFORMED_LOG",
            sides={"log file": self.name, "found": found, witness: told},
            next_step=f"Restore the file from a backup. If it is right, {witness} is wrong: delete that instead.",
        )

    def has(self, *path: str) -> bool:
        """Whether any file of the checkpoint has a column of that path below `add`."""
        return any(part.has("add", *path) for part in self.file_parts)

    @cached_property
    def file_parts(self) -> list[ParquetPart | JsonPart]:
        """Everything that may hold file actions, sidecars included."""
        return [*self._parts, *(self._sidecar(sidecar) for sidecar in self.others.sidecars)]

    def _sidecar(self, sidecar: Sidecar) -> ParquetPart:
        name = sidecar_name(sidecar)
        try:
            return ParquetPart(self._store, f"{self._layout.folder}/{_SIDECARS}/{name}")
        except NotFoundError as error:
            raise malformed(self.name, f"needs sidecar {name}, which does not exist") from error


def sidecar_name(sidecar: Sidecar) -> str:
    """The name of a sidecar's file, which always lies in the log's own folder, whatever else its path says.

    Example:
        >>> sidecar_name(Sidecar("_delta_log/_sidecars/a%20b.parquet", 1, 2))
        'a b.parquet'
    """
    return unquote(sidecar.path).rpartition("/")[2]


def _with_lists_by_number(protocol: ProtocolAction) -> ProtocolAction:
    """Some writers store empty lists where the numbers allow none; they mean the same as no list."""
    return ProtocolAction(
        protocol.min_reader_version,
        protocol.min_writer_version,
        None if not protocol.reader_features and protocol.min_reader_version < 3 else protocol.reader_features,
        None if not protocol.writer_features and protocol.min_writer_version < 7 else protocol.writer_features,
    )
