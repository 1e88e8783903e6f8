"""A plan as a file: what was decided, to be looked at, kept, and applied as it is.

The document is JSON. It holds the plan, where the tables lie, and how members are known. A file that was changed by
hand is noticed by its checksum, and by the plan's id, which is made of what the plan does and was made for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, MalformedError, NotFoundError
from halocline.lake.file import LakeFile
from halocline.plan.core.plan import MemberUpgrade, Plan, PlannedMove, Stage
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.opening import placed

_FORMAT: Final = 1


@dataclass(frozen=True)
class SavedPlan:
    """A plan, and where to apply it.

    Attributes:
        plan: The plan.
        lake: Where the lake was found.
        places: Where each table lies.
        uses: What each member does to which tables.
        known_from: How each member is known.
        members_file: The file that tells of members; empty if there is none.
        fleet: The fleet that tells of members; empty if there is none.
    """

    plan: Plan
    lake: str
    places: Mapping[str, str]
    uses: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    known_from: Mapping[str, str] = field(default_factory=dict)
    members_file: str = ""
    fleet: str = ""

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Settings, and options of stores, by the lake's file: read there, for they may be secret."""
        return LakeFile.read(self.lake).options if self.lake.endswith(".toml") else {}

    def store(self, table: str) -> Store:
        """Where a table lies."""
        return placed(self.places[table], None, self.options)[0]

    def encode(self) -> bytes:
        """The document."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=1) + b"\n"

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        plan = self.plan
        facts = {
            "halocline": _FORMAT,
            "id": plan.id,
            "lake": self.lake,
            "fleet": self.fleet,
            "membersFile": self.members_file,
            "stages": [_of_stage(each) for each in plan.stages],
            "tables": {name: {"place": self.places.get(name, ""), "was": was} for name, was in plan.tables},
            "members": {
                name: {"release": was, "uses": self.uses.get(name, {}), "knownFrom": self.known_from.get(name, "given")}
                for name, was in plan.members
            },
            "accepted": list(plan.accepted),
            "already": [_of_trouble(each) for each in plan.already],
            "mended": [_of_trouble(each) for each in plan.mended],
        }
        return {**facts, "checksum": _checksum(facts)}

    @staticmethod
    def decode(data: bytes, where: str = "the plan") -> SavedPlan:
        """Reads a document.

        Raises:
            MalformedError: It is no plan, or it was changed since it was made.
        """
        try:
            raw = msgspec.json.decode(data)
            if raw["halocline"] != _FORMAT:
                raise MalformedError(f"{where} has form {raw['halocline']}, and this release reads form {_FORMAT}")
            plan = Plan(
                tuple(_stage(each) for each in raw["stages"]),
                tables=tuple((name, each["was"]) for name, each in raw["tables"].items()),
                members=tuple((name, each["release"]) for name, each in raw["members"].items()),
                accepted=tuple(raw["accepted"]),
            )
            saved = SavedPlan(
                plan,
                raw["lake"],
                {name: each["place"] for name, each in raw["tables"].items()},
                {name: each["uses"] for name, each in raw["members"].items()},
                {name: each["knownFrom"] for name, each in raw["members"].items()},
                raw["membersFile"],
                raw["fleet"],
            )
        except (KeyError, TypeError, AttributeError, msgspec.DecodeError) as error:
            raise MalformedError(
                f"{where} is not a plan: {error!r:.200}", next_step="Make one: halocline plan LAKE --out FILE"
            ) from error
        if plan.id != raw["id"] or _checksum(raw) != raw.get("checksum"):
            raise MalformedError(
                f"{where} was changed after it had been made",
                sides={"says": f"{raw['id']} {raw.get('checksum')}", "is": f"{plan.id} {_checksum(raw)}"},
                next_step="Make it again: halocline plan LAKE --out FILE",
            )
        return saved

    def save(self, path: str) -> None:
        """Writes the document, to a file or a URL."""
        folder, name = _split(path)
        open_store(folder).put(name, self.encode())

    @staticmethod
    def discard(path: str) -> None:
        """Take away the plan that lies at a place, so that nobody applies an older one; no other file is touched.

        Raises:
            InputError: The path names no file.
        """
        folder, name = _split(path)
        store = open_store(folder)
        try:
            kept = msgspec.json.decode(store.get(name))
        except (NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return
        if isinstance(kept, dict) and {"halocline", "stages"} <= kept.keys():
            store.delete(name)

    @staticmethod
    def read(path: str) -> SavedPlan:
        """Reads a file, local or at a URL.

        Raises:
            NotFoundError: There is none.
            MalformedError: It is no plan.
        """
        folder, name = _split(path)
        try:
            data = open_store(folder).get(name)
        except NotFoundError:
            make = "Make one: halocline plan LAKE --out FILE"
            raise NotFoundError(f"there is no plan at {path}", next_step=make) from None
        return SavedPlan.decode(data, path)


def _checksum(facts: Mapping[str, Any]) -> str:
    """Of everything that a document says: also where tables lie and who uses them, which the id leaves out."""
    said = {key: value for key, value in facts.items() if key != "checksum"}
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:16]


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    if not name:
        raise InputError(f"{path!r} names no file", next_step="Name a file, such as rollout.plan")
    return folder or ".", name


def _of_stage(stage: Stage) -> dict[str, Any]:
    return {
        "upgrades": [
            {
                "member": each.member,
                "before": str(each.before) if each.before else None,
                "after": str(each.after) if each.after else None,
                "switch": each.switch,
                "bridge": each.bridge,
            }
            for each in stage.upgrades
        ],
        "moves": [
            {
                "table": each.table,
                "action": each.action,
                "before": _of_terms(each.before),
                "after": _of_terms(each.after),
                "reversible": each.reversible,
                "note": each.note,
            }
            for each in stage.moves
        ],
        "rising": [{"table": table, "after": _of_terms(terms)} for table, terms in stage.rising],
    }


def _stage(raw: Mapping[str, Any]) -> Stage:
    upgrades = (
        MemberUpgrade(each["member"], _release(each["before"]), _release(each["after"]), each["switch"], each["bridge"])
        for each in raw["upgrades"]
    )
    moves = (
        PlannedMove(
            each["table"],
            each["action"],
            _terms(each["before"]),
            _terms(each["after"]),
            each["reversible"],
            each["note"],
        )
        for each in raw["moves"]
    )
    rising = ((each["table"], _terms(each["after"])) for each in raw["rising"])
    return Stage(tuple(upgrades), tuple(moves), tuple(rising))


def _of_trouble(each: Any) -> dict[str, Any]:
    return {"member": each.member, "table": each.table, "verdict": str(each.verdict)}


def _of_terms(terms: Terms) -> dict[str, Any]:
    return {"protocol": str(terms.protocol), "inUse": None if terms.in_use is None else sorted(terms.in_use)}


def _terms(raw: Mapping[str, Any]) -> Terms:
    in_use = raw["inUse"]
    return Terms(Protocol.parse(raw["protocol"]), None if in_use is None else frozenset(in_use))


def _release(text: str | None) -> Release | None:
    return None if text is None else Release.parse(text)
