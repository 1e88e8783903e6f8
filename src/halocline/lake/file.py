"""`lake.toml`: the tables of a lake by name, where to look for more, and clients that nothing else tells of.

    prefix = "s3://bucket/lake"         # the tables below are part of the lake, too

    [options]                           # settings, and options of the store
    region = "eu-central-1"

    [tables]                            # name = path; a path without a scheme starts from the file's folder
    sales.orders = "sales/orders"
    "raw.clicks" = "s3://other/clicks"

    [[clients]]
    name = "quarterly report"
    release = "powerbi@2.131"
    reads = ["sales.*"]
    writes = []

Everything but the above is refused with the nearest key.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NoReturn

from halocline.compat.breaks import Client
from halocline.compat.release import Release
from halocline.errors import HaloclineError, InputError
from halocline.lake.names import name_of, parts_of
from halocline.storage import open_store

_KEYS: Final = ("prefix", "options", "tables", "clients")
_CLIENT_KEYS: Final = ("name", "release", "reads", "writes")


@dataclass(frozen=True, slots=True)
class LakeClient:
    """A release that uses tables of a lake, as its file declares it.

    Attributes:
        name: What it is called.
        release: Which one.
        reads: Names of tables, where `*` stands for any characters.
        writes: The same, for tables that it writes.
    """

    name: str
    release: Release
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def of(self, table: str) -> Client | None:
        """The client as it is judged for one table; None if it does not use it."""
        used = {
            operation
            for operation, names in (("read", self.reads), ("write", self.writes))
            if any(fnmatchcase(table, each) for each in names)
        }
        return Client(self.release, tuple(sorted(used)), "declared", name=self.name) if used else None


@dataclass(frozen=True)
class LakeFile:
    """What a `lake.toml` says.

    Attributes:
        path: Where it lies.
        prefix: Where to look for more tables; None for nowhere.
        tables: Places by name.
        options: Settings, and options of the store.
        clients: Who uses tables, and leaves no trace.
    """

    path: str
    prefix: str | None
    tables: Mapping[str, str]
    options: Mapping[str, str]
    clients: tuple[LakeClient, ...]

    @staticmethod
    def read(path: str | os.PathLike[str]) -> LakeFile:
        """Reads a file, local or at a URL.

        Raises:
            NotFoundError: There is none.
            InputError: It is not TOML, or says what is not understood.
        """
        text = os.fspath(path)
        folder, _, file = text.rpartition("/")
        try:
            raw = tomllib.loads(open_store(folder or ".").get(file).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{text} is not TOML: {error}") from None
        return _Reader(text, folder).read(raw)


@dataclass(frozen=True)
class _Reader:
    file: str
    folder: str

    def read(self, raw: Mapping[str, Any]) -> LakeFile:
        self._known(raw, _KEYS, "")
        prefix = raw.get("prefix")
        options = self._mapping("options", raw.get("options", {}))
        clients = raw.get("clients", [])
        if not isinstance(clients, list):
            self._wrong("clients", clients, "[[clients]], once for each")
        return LakeFile(
            self.file,
            None if prefix is None else self._place(self._text("prefix", prefix)),
            dict(self._tables(self._mapping("tables", raw.get("tables", {})), ())),
            {key: self._text(f"options.{key}", each) for key, each in options.items()},
            tuple(self._client(f"clients[{at}]", each) for at, each in enumerate(clients)),
        )

    def _tables(self, raw: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Dots in a key make tables within tables, which are parts of a name here."""
        for key, value in raw.items():
            parts = (*above, *parts_of(key))
            if isinstance(value, Mapping):
                yield from self._tables(value, parts)
            else:
                yield name_of(parts), self._place(self._text(f"tables.{name_of(parts)}", value))

    def _client(self, key: str, raw: Any) -> LakeClient:
        given = self._mapping(key, raw)
        self._known(given, _CLIENT_KEYS, f"{key}.")
        for needed in ("name", "release"):
            if needed not in given:
                self._wrong(f"{key}.{needed}", "nothing", "name = '…' and release = 'product@version'")
        try:
            release = Release.parse(self._text(f"{key}.release", given["release"]))
        except HaloclineError as error:
            raise InputError(f"{key}.release of {self.file}: {error.message}", sides=error.sides) from None
        reads, writes = (self._names(f"{key}.{each}", given.get(each, [])) for each in ("reads", "writes"))
        if not reads and not writes:
            self._wrong(f"{key}.reads", "nothing", "the tables that it reads, or writes = […]")
        return LakeClient(self._text(f"{key}.name", given["name"]), release, reads, writes)

    def _place(self, text: str) -> str:
        absolute = "://" in text or text.startswith(("/", "file:")) or not self.folder
        return text if absolute else f"{self.folder}/{text}"

    def _known(self, given: Mapping[str, Any], known: tuple[str, ...], before: str) -> None:
        for key in given:
            if key not in known:
                raise InputError.unknown(f"{self.file} has no place for {before}{key}", key, known)

    def _mapping(self, key: str, value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, Mapping) else self._wrong(key, value, "a table of names and values")

    def _text(self, key: str, value: Any) -> str:
        return value if isinstance(value, str) and value else self._wrong(key, value, "text")

    def _names(self, key: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self._wrong(key, value, "a list of names")

    def _wrong(self, key: str, value: Any, expected: str) -> NoReturn:
        sides = {"given": f"{value!r:.80}", "expected": expected}
        raise InputError(f"{key} of {self.file} cannot be used", sides=sides)
