"""What is known of one table of a lake, gathered without judging anybody.

*Facts* are plain values that cross from one process to another. A table that cannot be read has them as well: what
could be told, and the *damage*. Nothing that happens while one table is looked at goes beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from warnings import catch_warnings, simplefilter

import msgspec

from halocline.compat.features import features, find_feature, find_switchable
from halocline.compat.findings import read_text
from halocline.compat.protocol import Protocol
from halocline.compat.reports import Observed
from halocline.compat.terms import Terms
from halocline.errors import HaloclineError
from halocline.formats.base import TableFormat, detect_format, inspector_of, linter_of
from halocline.lake.remembered import RememberedStore
from halocline.storage.base import Store
from halocline.table.opening import placed


class TermsText(msgspec.Struct, frozen=True):
    """The terms of a table, as text.

    Attributes:
        protocol: The protocol.
        in_use: What is in use under it, sorted.
    """

    protocol: str
    in_use: tuple[str, ...]

    @staticmethod
    def of(terms: Terms) -> TermsText:
        """The text of terms."""
        return TermsText(str(terms.protocol), tuple(sorted(terms.in_use or ())))

    @property
    def terms(self) -> Terms:
        """The terms themselves, also of a protocol that contradicts itself: such a table is judged as it is read."""
        format, action = read_text(self.protocol)
        return Terms(Protocol.read_leniently(action, format)[0], frozenset(self.in_use))


class SeenWriter(msgspec.Struct, frozen=True):
    """A release that the history of a table tells of.

    Attributes:
        identity: Its name in a fleet.
        release: Which one.
        provenance: How that is known: `observed` or `inferred`.
        last_ms: When it last wrote.
    """

    identity: str
    release: str
    provenance: str
    last_ms: int | None


class Flaw(msgspec.Struct, frozen=True):
    """What the linter complains about.

    Attributes:
        code: Its name.
        text: What is the matter.
        hurts: Whom it hurts.
        safe: Whether `halocline lint --fix` repairs it.
    """

    code: str
    text: str
    hurts: str
    safe: bool


class SurveyTarget(msgspec.Struct, frozen=True):
    """What the tables of a lake are to become.

    Attributes:
        enable: Features to be switched on, in Delta and index tables.
        drop: Features to be taken out, of Delta tables.
        table_version: The version of Hudi tables.
    """

    enable: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    table_version: int | None = None

    @staticmethod
    def of(enable: Sequence[str] = (), drop: Sequence[str] = (), table_version: int | None = None) -> SurveyTarget:
        """The target that people name; case does not matter.

        Raises:
            NotFoundError: No format has such a feature.
        """
        named = tuple(find_switchable(each).name for each in enable)
        return SurveyTarget(named, tuple(find_feature("delta", each).name for each in drop), table_version)

    def __bool__(self) -> bool:
        return bool(self.enable or self.drop or self.table_version is not None)

    def __str__(self) -> str:
        words = [*(f"enable {each}" for each in self.enable), *(f"drop {each}" for each in self.drop)]
        return ", ".join([*words, *([] if self.table_version is None else [f"Hudi version {self.table_version}"])])


class TableFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one table.

    Attributes:
        name: Its name in the lake.
        url: Where it lies.
        format: Its format; several joined by `+` for a table in the middle of moving.
        looked_ms: When it was looked at.
        version: Its version; of Hudi tables the instant of the last write.
        terms: What it asks of whoever uses it.
        supported: The features that its protocol supports.
        files: How many files hold its rows.
        size: Their bytes.
        uncounted: Why they were not counted.
        writers: Those whom its history tells of, the one who wrote last first.
        unnamed: How many commits name nobody.
        flaws: What the linter found.
        ways: The terms after the change to the target, by the way it could go.
        obstacle: Why the table cannot change to the target.
        damage: Why nothing more is known.
    """

    name: str
    url: str
    format: str
    looked_ms: int
    version: int | None = None
    terms: TermsText | None = None
    supported: tuple[str, ...] = ()
    files: int | None = None
    size: int | None = None
    uncounted: str | None = None
    writers: tuple[SeenWriter, ...] = ()
    unnamed: int = 0
    flaws: tuple[Flaw, ...] = ()
    ways: Mapping[str, TermsText] = {}
    obstacle: str | None = None
    damage: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What the table is, for programs and for the page."""
        return {
            "name": self.name,
            "url": self.url,
            "format": self.format,
            "version": self.version,
            "protocol": self.terms.protocol if self.terms else None,
            "supported": list(self.supported),
            "inUse": list(self.terms.in_use) if self.terms else [],
            "files": self.files,
            "bytes": self.size,
            "uncounted": self.uncounted,
            "damage": self.damage,
        }


class Job(msgspec.Struct, frozen=True):
    """What a look at every table of a lake needs to know.

    Attributes:
        options: Settings, and options of the store.
        target: What the tables are to become.
    """

    options: Mapping[str, str] = {}
    target: SurveyTarget = SurveyTarget()


def gather(name: str, url: str, formats: Sequence[str], job: Job) -> TableFacts:
    """Looks at one table. Never fails: what goes wrong is the damage."""
    facts = TableFacts(name=name, url=url, format="+".join(formats), looked_ms=time.time_ns() // 1_000_000)
    try:
        with catch_warnings():
            simplefilter("ignore")  # what there is to warn of is among the facts
            store = RememberedStore(placed(url, None, job.options)[0])
            return msgspec.structs.replace(facts, **_looked_at(store, formats, job.target))
    except HaloclineError as error:
        return msgspec.structs.replace(facts, damage=f"{error.condition}: {error.message}")
    except Exception as error:  # a damaged table may break anything, and nothing of it may break the survey
        return msgspec.structs.replace(facts, damage=f"{type(error).__name__}: {error}"[:300])


def _looked_at(store: Store, formats: Sequence[str], target: SurveyTarget) -> dict[str, Any]:
    format = TableFormat(formats[0]) if len(formats) == 1 else detect_format(store)
    told, linter = inspector_of(format).inspect(store), linter_of(format)
    flaws = {each.code: Flaw(each.code, each.text, "", False) for each in told.findings}
    found = linter.lint(store).findings
    flaws |= {each.code: Flaw(each.code, each.what, each.hurts, each.safe) for each in found}
    writers = sorted((each for each in told.writers.observed if each.commits), key=lambda each: -each.last_version)
    facts: dict[str, Any] = {
        "format": str(format),
        "version": told.version,
        "terms": TermsText.of(told.terms),
        "supported": tuple(sorted(told.protocol.features)),
        "files": told.files,
        "size": told.size,
        "uncounted": told.uncounted,
        "writers": tuple(_seen(store, each) for each in writers),
        "unnamed": told.writers.unnamed,
        "flaws": tuple(flaws.values()),
    }
    return facts | (_changed(store, format, told.terms, target) if target else {})


def _seen(store: Store, writer: Observed) -> SeenWriter:
    from halocline.fleet.usage.traces import identity_of
    from halocline.storage.location import Location

    release, provenance = str(writer.release), "inferred" if writer.inferred else "observed"
    return SeenWriter(identity_of(release, Location.parse(store.root).url), release, provenance, writer.last_ms)


def _changed(store: Store, format: TableFormat, now: Terms, target: SurveyTarget) -> dict[str, Any]:
    """What the change to the target makes of the table; nothing where the target is not about its format."""
    try:
        return {"ways": {way: TermsText.of(terms) for way, terms in _ways(store, format, now, target).items()}}
    except HaloclineError as error:
        return {"obstacle": f"{error.condition}: {error.message}"}


def _ways(store: Store, format: TableFormat, now: Terms, target: SurveyTarget) -> Mapping[str, Terms]:
    if format is TableFormat.HUDI:
        return _hudi_ways(store, now, target.table_version)
    missing = [each for each in target.enable if each in features(format) and each not in now.features_in_use]
    gone = [each for each in target.drop if each in features(format) and each in now.protocol.features]
    if not (missing or gone):
        return {}
    return inspector_of(format).propose(store, enable=missing, drop=gone).ways


def _hudi_ways(store: Store, now: Terms, version: int | None) -> Mapping[str, Terms]:
    from halocline.formats.hudi.move.planning import plan_move

    return {} if version in (None, now.protocol.reader) else {"after": plan_move(store, version).after}
