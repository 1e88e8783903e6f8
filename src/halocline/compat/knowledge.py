"""Knowledge: what each known product and release provides, per operation, with the source of every fact.

A *product* is a program people install, e.g. `deltalake`. It has one file, `data/knowledge/<product>.toml`. A *fact*
says: for these operations, in these releases, these *tokens* get this answer. A token is something a protocol can
require: a feature by name, or a number such as `reader 3`, `writer 7`, `table version 8`. Both count, because old
releases look at the numbers only.

What is promised: nothing is guessed. A release outside a product's known range is `unknown` altogether, and so is a
pre-release of a release in which the answer changes. Within the range a token without a fact gets the product's
`unlisted` answer: `refused` where the whole gate was read or measured, `unknown` where only parts are known.

What is not: a fact says what a release accepts and, where somebody looked, that the rows come out right. Bugs that
nobody has described are not in here.

Operations are dotted. `read.arrow` falls back to `read` token by token, unless the product lists it under `separate`:
then its own facts are all there is. How facts become an answer is told in `halocline.compat.support`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from halocline.compat.answer import Answer
from halocline.errors import InputError, MalformedError, NotFoundError, nearest
from halocline.spans import Span, SpanSet
from halocline.versions import Version

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

OPERATIONS: Final = ("read", "write")
"""What a party can do to a table; finer operations add a dot and a word."""

ANY: Final = "*"
"""The token of a fact about all features that have none of their own. It does not stand for numbers."""


class When(StrEnum):
    """Whether a fact depends on the feature being in use."""

    ALWAYS = "always"
    USED = "used"
    UNUSED = "unused"


class Evidence(StrEnum):
    """How something is known, the surest first."""

    MEASURED = "measured"
    SOURCE = "from source"
    VENDOR = "said by the vendor"

    @staticmethod
    def of(source: str) -> Evidence:
        """How a source knows: it begins with `measured`, with the address of a page, or names a file of the program.

        Example:
            >>> print(Evidence.of("delta-io/delta v2.3.0: actions.scala"))
            from source
        """
        if source.startswith("measured"):
            return Evidence.MEASURED
        return Evidence.VENDOR if source.startswith("http") else Evidence.SOURCE

    @property
    def sureness(self) -> int:
        """0 for what was measured, rising with doubt."""
        return list(Evidence).index(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a product answers to some tokens in some releases.

    Args:
        format: The table format it is about.
        operations: The operations it is about.
        tokens: Features and numbers it is about.
        spans: The releases in which it holds.
        source: Where this is known from.
        answer: What the release does.
        when: Whether it holds only while the feature is in use, or only while it is not.
        along: What else must be true of the table: tokens it requires of readers or writers, `using …` for features in
            use.
        without: The same, of what must not be true.
        what: What goes wrong or is peculiar, as a clause for people.
    """

    format: str
    operations: tuple[str, ...]
    tokens: tuple[str, ...]
    spans: SpanSet
    source: str
    answer: Answer = Answer.OK
    when: When = When.ALWAYS
    along: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    what: str = ""

    @property
    def evidence(self) -> Evidence:
        """How it is known."""
        return Evidence.of(self.source)

    @property
    def conditional(self) -> bool:
        """True if it depends on more than the release."""
        return self.when is not When.ALWAYS or bool(self.along) or bool(self.without)

    def holds(self, used: bool, table: frozenset[str]) -> bool:
        """Whether the conditions are met, given whether the feature is in use and what is true of the table."""
        in_use = self.when is When.ALWAYS or (self.when is When.USED) == used
        return in_use and self.along <= table and self.without.isdisjoint(table)


@dataclass(frozen=True, slots=True)
class Pin:
    """Releases that behave like a release of another product, because they are built on it."""

    operations: tuple[str, ...]
    spans: SpanSet
    product: str
    version: Version
    source: str


@dataclass(frozen=True, slots=True)
class OwnUpgrade:
    """Releases that move a table up by themselves when they write it.

    Args:
        format: The table format.
        spans: The releases that do it.
        version: The table version they move a lower table to.
        switch: What keeps them from it, as a setting for people; empty if nothing does.
        source: Where this is known from.
    """

    format: str
    spans: SpanSet
    version: int
    source: str
    switch: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Releases that were tried on real tables, so that what is said of them is measured whatever the source of a fact.

    Args:
        releases: The releases.
        tokens: What the tables asked for.
        operations: What was tried on them; finer ones are not meant.
    """

    releases: frozenset[Version]
    tokens: frozenset[str]
    operations: frozenset[str]

    def covers(self, version: Version, token: str, operation: str) -> bool:
        """Whether this was tried."""
        return version in self.releases and token in self.tokens and operation in self.operations


@dataclass(frozen=True, slots=True)
class Product:
    """A program, its releases, and the facts about them.

    Args:
        name: How releases name it: `deltalake` in `deltalake@1.6.6`.
        title: How people know it.
        formats: The table formats it has facts for.
        first: The first release that is known about.
        last: The last one; None if all later ones are known too.
        unlisted: The answer to a token without a fact.
        reports: The names under which it writes itself into commits.
        numbers_only: True if what follows the number in a commit is not part of the version.
        aliases: Other names people use.
        separate: Operations that do not fall back to their parent.
        facts: What it answers.
        pins: Where it follows another product.
        upgrades: Where it moves tables up when it writes them.
        source: Where the answer to a token without a fact is known from; empty if that is `unknown`.
        trials: What was tried on real tables.
    """

    name: str
    title: str
    formats: tuple[str, ...]
    first: Version
    last: Version | None
    unlisted: Answer
    reports: tuple[str, ...] = ()
    numbers_only: bool = False
    aliases: tuple[str, ...] = ()
    separate: frozenset[str] = frozenset()
    facts: tuple[Fact, ...] = ()
    pins: tuple[Pin, ...] = ()
    upgrades: tuple[OwnUpgrade, ...] = ()
    source: str = ""
    trials: tuple[Trial, ...] = ()

    @property
    def newest(self) -> Version:
        """The newest release that is known."""
        bounds = (bound for format in self.formats for each in OPERATIONS for bound in self.boundaries(format, each))
        return self.last or max(bounds)

    def evidence(self, version: Version, token: str, operation: str, fact: Fact | None) -> Evidence:
        """How the answer to a token is known, given the fact behind it if there is one."""
        if any(each.covers(version, token, operation) for each in self.trials):
            return Evidence.MEASURED
        return Evidence.of(fact.source if fact else self.source)

    def own_upgrade(self, format: str, version: Version) -> OwnUpgrade | None:
        """What this release does by itself to a lower table that it writes; None if it leaves tables as they are."""
        return next((each for each in self.upgrades if each.format == format and version in each.spans), None)

    def knows(self, version: Version) -> bool:
        """Whether the release lies in the known range; a vendor's build of the last release does."""
        return version.known and self.first <= version and (self.last is None or version.release <= self.last)

    def lineage(self, operation: str) -> tuple[str, ...]:
        """The operations whose facts count, finest first."""
        found = [operation]
        while "." in operation and operation not in self.separate:
            operation = operation.rpartition(".")[0]
            found.append(operation)
        return tuple(found)

    def finer(self, format: str, operation: str) -> tuple[str, ...]:
        """The finer operations of this one that have facts of their own."""
        named = {each for fact in self.facts if fact.format == format for each in fact.operations}
        return tuple(sorted(each for each in named if each.startswith(operation + ".")))

    def boundaries(self, format: str, operation: str) -> tuple[Version, ...]:
        """The known releases at which something changes for this operation, and the first one, in order."""
        asked = {*self.lineage(operation), *self.finer(format, operation)}
        spans = [fact.spans for fact in self.facts if fact.format == format and not asked.isdisjoint(fact.operations)]
        spans += [pin.spans for pin in self.pins if not asked.isdisjoint(pin.operations)]
        bounds = {self.first, *(bound for each in spans for bound in each.boundaries)}
        return tuple(sorted(filter(self.knows, bounds)))


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """All products. Get it with `Knowledge.load`; a product's file is read when it is first asked for."""

    files: Mapping[str, Traversable]
    _read: dict[str, Product] = field(default_factory=dict, repr=False)
    _names: dict[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def load(*folders: str | Path) -> Knowledge:
        """What ships with Halocline, with the files of these folders added; a file of the same name replaces ours.

        Example:
            >>> Knowledge.load().product("deltalake").title
            'deltalake (delta-rs for Python)'
        """
        return _with_folders(map(Path, folders)) if folders else _shipped()

    @property
    def products(self) -> Mapping[str, Product]:
        """All products by name."""
        return {name: self._product(name) for name in self.files}

    def product(self, name: str) -> Product:
        """The product of that name or alias.

        Raises:
            NotFoundError: Nothing is known about a product of that name.
        """
        found = self.find(name)
        if found is None:
            near = nearest(name, self.files)
            raise NotFoundError(
                f"nothing is known about a product {name!r}",
                sides={"asked for": name, "nearest": near or "none", "known": ", ".join(sorted(self.files))},
                next_step="Add a knowledge file for it: docs/knowledge.md",
            )
        return found

    def find(self, name: str) -> Product | None:
        """The product of that name or alias, or None."""
        folded = name.casefold()
        if folded in self.files:
            return self._product(folded)
        known = self._by_name().get(folded)
        return self._product(known) if known else None

    def reporting_as(self, name: str) -> Product | None:
        """The product that writes this name into commits, or None."""
        known = self._by_name().get("/" + name.casefold())
        return self._product(known) if known else None

    def _by_name(self) -> Mapping[str, str]:
        """Aliases, and after a slash the names in commits, to the product's own name."""
        if not self._names:
            for product in self.products.values():
                self._names.update(dict.fromkeys((each.casefold() for each in product.aliases), product.name))
                self._names.update(dict.fromkeys(("/" + each.casefold() for each in product.reports), product.name))
        return self._names

    def _product(self, name: str) -> Product:
        found = self._read.get(name)
        if found is None:
            # Imported here: importing the package should not pay for a parser it may not need.
            import tomllib

            try:
                data = tomllib.loads(self.files[name].read_text(encoding="utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise _malformed(name, f"is not TOML: {error}") from error
            found = self._read[name] = _product(name, data)
        return found


@lru_cache(maxsize=1)
def _shipped() -> Knowledge:
    # Imported here, as the parser is. The package may lie in an archive that was shipped to a worker.
    from importlib.resources import files

    return Knowledge(_files(files("halocline.compat").joinpath("data", "knowledge")))


def _with_folders(folders: Iterable[Path]) -> Knowledge:
    files = dict(_shipped().files)
    for folder in folders:
        if not folder.is_dir():
            raise NotFoundError(f"no folder of knowledge files at {folder}", next_step="See: docs/knowledge.md")
        files |= _files(folder)
    return Knowledge(files)


def _files(folder: Traversable) -> dict[str, Traversable]:
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=lambda each: each.name)
    return {each.name.removesuffix(".toml"): each for each in found}


_PRODUCT_KEYS = frozenset(
    (
        *("product", "title", "format", "first", "last", "unlisted", "source"),
        *("reports", "numbers-only", "aliases", "separate"),
    )
)
_FACT_KEYS = frozenset(
    ("format", "operation", "tokens", "spans", "source", "answer", "when", "with", "without", "what")
)
_TRIAL_KEYS = frozenset(("operation", "releases", "tokens"))
_PIN_KEYS = frozenset(("operation", "spans", "product", "release", "source"))
_UPGRADE_KEYS = frozenset(("format", "spans", "version", "switch", "source"))


def _product(name: str, data: Mapping[str, Any]) -> Product:
    _only(name, data, _PRODUCT_KEYS | {"fact", "pin", "upgrade", "trial"})
    try:
        if data["product"] != name:
            raise _malformed(name, f"names the product {data['product']!r}; file and product must have the same name")
        formats = _texts(data["format"])
        facts = tuple(_fact(name, formats[0], each) for each in data.get("fact", ()))
        product = Product(
            name,
            data["title"],
            tuple(dict.fromkeys((*formats, *(fact.format for fact in facts)))),
            _version(name, data["first"]),
            _version(name, data["last"]) if "last" in data else None,
            Answer(data["unlisted"]),
            _texts(data.get("reports", ())),
            data.get("numbers-only", False),
            _texts(data.get("aliases", ())),
            frozenset(_texts(data.get("separate", ()))),
            facts,
            tuple(_pin(name, each) for each in data.get("pin", ())),
            tuple(_own_upgrade(name, formats[0], each) for each in data.get("upgrade", ())),
            data.get("source", ""),
            tuple(_trial(name, each) for each in data.get("trial", ())),
        )
    except KeyError as error:
        raise _malformed(name, f"lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise _malformed(name, f"has a value that cannot be used: {error}") from error
    if product.unlisted is not Answer.UNKNOWN and not product.source.strip():
        raise _malformed(name, f"does not say where it is known from that what is not listed is {product.unlisted}")
    _no_contradiction(product)
    return product


def _fact(name: str, format: str, data: Mapping[str, Any]) -> Fact:
    _only(name, data, _FACT_KEYS)
    fact = Fact(
        data.get("format", format),
        tuple(map(checked_operation, _texts(data["operation"]))),
        _texts(data["tokens"]),
        SpanSet(map(Span.parse, _texts(data["spans"]))),
        data["source"],
        Answer(data.get("answer", Answer.OK)),
        When(data.get("when", When.ALWAYS)),
        frozenset(_texts(data.get("with", ()))),
        frozenset(_texts(data.get("without", ()))),
        data.get("what", ""),
    )
    if not fact.source.strip():
        raise _malformed(name, f"has a fact without a source: {', '.join(fact.tokens)}")
    if fact.answer is Answer.WRONG and not fact.what:
        raise _malformed(name, f"does not say what goes wrong with {', '.join(fact.tokens)}")
    return fact


def _trial(name: str, data: Mapping[str, Any]) -> Trial:
    _only(name, data, _TRIAL_KEYS)
    releases = frozenset(_version(name, each) for each in _texts(data["releases"]))
    operations = map(checked_operation, _texts(data["operation"]))
    return Trial(releases, frozenset(_texts(data["tokens"])), frozenset(operations))


def _pin(name: str, data: Mapping[str, Any]) -> Pin:
    _only(name, data, _PIN_KEYS)
    operations = tuple(map(checked_operation, _texts(data["operation"])))
    spans = SpanSet(map(Span.parse, _texts(data["spans"])))
    return Pin(operations, spans, data["product"], _version(name, data["release"]), data["source"])


def _own_upgrade(name: str, format: str, data: Mapping[str, Any]) -> OwnUpgrade:
    _only(name, data, _UPGRADE_KEYS)
    spans = SpanSet(map(Span.parse, _texts(data["spans"])))
    version = int(data["version"])
    return OwnUpgrade(data.get("format", format), spans, version, data["source"], data.get("switch", ""))


def _no_contradiction(product: Product) -> None:
    """Two unconditional facts with different answers about the same thing are an error, whatever their order."""
    seen: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in product.facts:
        if fact.conditional:
            continue
        for key in ((fact.format, operation, token) for operation in fact.operations for token in fact.tokens):
            for other in seen.setdefault(key, []):
                if other.answer is not fact.answer and (common := other.spans & fact.spans):
                    raise _malformed(product.name, f"answers {key[1]} of {key[2]} in two ways in {common}")
            seen[key].append(fact)


def is_number(token: str) -> bool:
    """True for `reader 3`, `writer 7` and `table version 8`, false for the name of a feature."""
    return token.rpartition(" ")[2].isdigit()


def checked_operation(operation: str) -> str:
    """The operation, if its first word is one.

    Example:
        >>> checked_operation("read.arrow")
        'read.arrow'
    """
    if operation.partition(".")[0] not in OPERATIONS:
        raise InputError(
            f"there is no operation {operation!r}",
            sides={"asked for": operation, "known": "read, write, or finer such as read.arrow and write.append"},
            next_step="Name one of them.",
        )
    return operation


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _version(name: str, text: str) -> Version:
    version = Version.parse(text)
    if not version.known:
        raise _malformed(name, f"has {text!r} where a version must stand")
    return version


def _only(name: str, data: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := data.keys() - known:
        raise _malformed(name, f"has keys that mean nothing: {', '.join(sorted(unknown))}")


def _malformed(name: str, problem: str) -> MalformedError:
    return MalformedError(
        f"the knowledge file of {name} {problem}",
        condition="MALFORMED_KNOWLEDGE",
        next_step="See docs/knowledge.md for the form.",
    )
