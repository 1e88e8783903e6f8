"""What dropping a feature takes and whom it leaves able to use the table, told before anything is done.

A *plan* lists the steps, the protocol after each way the drop can go, and a verdict on every client that is known:
those that the log names, those that the caller names, and the newest known release of every other product. The way that
keeps history adds `checkpointProtection`, and that is often the worse of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from halocline.compat.breaks import Client, Forecast, forecast, newest_known
from halocline.compat.features import find_feature
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.features.support import HISTORY_TRUNCATED, propose
from halocline.formats.delta.log.header import read_header
from halocline.formats.delta.snapshot.writers import writers
from halocline.html import html_table
from halocline.place_names import place_name
from halocline.storage.base import Store


@dataclass(frozen=True)
class DropPlan:
    """What dropping a feature takes. Made by `plan_drop`.

    Attributes:
        root: The table's URL.
        version: The version it was made for.
        feature: The feature.
        steps: What is done first, in order, for people.
        rewrites: Whether data files are written again, which takes an engine.
        barrier: Whether old versions must be protected or truncated.
        ways: The terms after each way the drop can go.
        retention_ms: How old versions must be before they can be truncated.
        clients: The verdict on every client, before and after each way.
    """

    root: str
    version: int
    feature: str
    steps: tuple[str, ...]
    rewrites: bool
    barrier: bool
    ways: Mapping[str, Terms]
    retention_ms: int
    clients: Forecast

    def left_able(self, way: str) -> tuple[Release, ...]:
        """The clients that can write the table after the drop went this way."""
        return self.clients.left_able(list(self.ways).index(way))

    def gained(self, way: str) -> tuple[Release, ...]:
        """The clients that cannot write the table now, and can after the drop went this way."""
        at = list(self.ways).index(way)
        return tuple(each.client.release for each in self.clients.outlooks if each.after[at].ok and not each.now.ok)

    def explain(self) -> str:
        """The plan for people."""
        lines = [
            f"drop {self.feature} from {place_name(self.root)} (version {self.version}, {self.clients.now.protocol})"
        ]
        lines += [f"  step    {step}" for step in self.steps] or ["  step    none: nothing of it is in use"]
        total = len(self.clients.outlooks)
        for at, (way, terms) in enumerate(self.ways.items()):
            able, broken = self.left_able(way), self.clients.broken(at)
            lines.append(f"  {way}: {terms.protocol}")
            lines.append(f"    able to write  {len(able)} of {total}: {_names(able)}")
            lines.append(
                f"    would break    {len(broken)} of {total}: {_names([each.client.release for each in broken])}"
            )
            if way == HISTORY_TRUNCATED:
                hours = self.retention_ms / 3_600_000
                lines.append(f"    takes          two calls, the second one {hours:g} hours after the first")
        return "\n".join(lines)

    __repr__ = explain

    def _repr_html_(self) -> str:
        told = self.to_dict()
        steps = "".join(f"<li>{escape(each)}</li>" for each in self.steps) or "<li>none: nothing of it is in use</li>"
        ways = [
            {
                "way": way,
                "protocol": each["protocol"],
                "able to write": ", ".join(each["ableToWrite"]) or "nobody",
                "would break": ", ".join(each["wouldBreak"]) or "nobody",
            }
            for way, each in told["ways"].items()
        ]
        title = f"drop {self.feature} from {place_name(self.root)}, version {self.version}"
        return f"<div><b>{escape(title)}</b><ol>{steps}</ol>{html_table(ways)}</div>"

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        ways = list(self.ways)
        return {
            "table": self.root,
            "version": self.version,
            "feature": self.feature,
            "steps": list(self.steps),
            "rewritesFiles": self.rewrites,
            "retentionMs": self.retention_ms,
            "protocol": str(self.clients.now.protocol),
            "ways": {
                way: {
                    "protocol": str(self.ways[way].protocol),
                    "ableToWrite": [str(each) for each in self.left_able(way)],
                    "wouldBreak": [str(each.client.release) for each in self.clients.broken(at)],
                }
                for at, way in enumerate(ways)
            },
            "clients": [each.to_dict(ways) for each in self.clients.outlooks],
        }


def plan_drop(store: Store, name: str, *, clients: Sequence[Client] = ()) -> DropPlan:
    """Tells what dropping a feature takes and whom each way leaves able to write."""
    header = read_header(store)
    record = find_feature("delta", name)
    proposal = propose(header, drop=[record.name])
    everyone = _everyone((*writers(store).clients, *clients), newest_known("delta"))
    steps = record.drop.steps if record.drop is not None else ()
    return DropPlan(
        root=header.root,
        version=header.version,
        feature=record.name,
        steps=tuple(map(str, steps)),
        rewrites=any(step.name == "rewrite-files" for step in steps),
        barrier=record.drop is not None and record.drop.barrier,
        ways=proposal.ways,
        retention_ms=TableProperties(header.metadata.configuration).truncation_retention_ms,
        clients=forecast(everyone, proposal.now, *proposal.ways.values()),
    )


def _everyone(users: Sequence[Client], newest: Sequence[Client]) -> list[Client]:
    """Who uses the table, and of every product that nobody uses the newest release."""
    used = {each.release.product for each in users}
    return [*users, *(each for each in newest if each.release.product not in used)]


def _names(releases: Sequence[Release]) -> str:
    return ", ".join(map(str, releases)) or "nobody"
