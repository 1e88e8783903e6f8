"""The plans of docs/examples, made again: python examples/rollouts.py writes them, a test compares them.

Four lakes, each with what its people want: the medallion of RFC-76 without and with its bridge release; the same with
what Apache Hudi really shipped; deletion vectors next to an old Trino; and a feature that is dropped so that deltalake
can write again, both ways.
"""

from __future__ import annotations

from pathlib import Path

from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout, RolloutMember, RolloutTable, TableMove, at_version
from halocline.plan.explanation import explain
from halocline.plan.rendering import to_markdown

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
LAYERS = ("bronze", "silver", "gold")
NOTE = "<!-- Made by examples/rollouts.py; a test compares it. -->"


def releases(*texts: str) -> tuple[Release, ...]:
    return tuple(map(Release.parse, texts))


def pipelines(release: str) -> tuple[RolloutMember, ...]:
    """Two pipelines in each layer; each writes a table of its own and reads those of the layer below."""
    found = []
    for depth, layer in enumerate(LAYERS):
        for name in ("orders", "trips"):
            below = [f"{LAYERS[depth - 1]}.{each}" for each in ("orders", "trips")] if depth else []
            found.append(RolloutMember.of(f"{layer}-{name}", release, reads=below, writes=[f"{layer}.{name}"]))
    return tuple(found)


def hudi_tables(to: int | None = None, feature: str = "") -> tuple[RolloutTable, ...]:
    now = Terms.of(Protocol.hudi(6), TableMetadata({"hoodie.table.type": "COPY_ON_WRITE"}))
    raised = {each: at_version(now, each) for each in (8, 9)}
    moves = [TableMove(f"move to table version {to}", raised[to])] if to else []
    moves += [TableMove(f"enable {feature}", raised[8].with_use_of([feature]))] if feature else []
    names = [f"{layer}.{name}" for layer in LAYERS for name in ("orders", "trips")]
    return tuple(RolloutTable(name, now, tuple(moves), raised) for name in names)


def told(rollout: Rollout, title: str) -> str:
    return to_markdown(explain(plan(rollout), title=title, users=rollout.users))


def rfc_76() -> str:
    """A medallion lake as RFC-76 describes it, without the bridge release and with it."""
    planned = Knowledge.load(FOLDER / "rfc-76")
    had = ("hudi@0.15.0", "hudi@1.0.2")
    without = Rollout(
        hudi_tables(feature="partialUpdates"),
        pipelines("hudi@0.15.0"),
        releases("hudi@1.0.2"),
        releases(*had),
        knowledge=planned,
    )
    bridged = Rollout(without.tables, without.members, without.goals, releases(*had, "hudi@0.16.0"), knowledge=planned)
    return "\n".join(
        [
            "# From Hudi 0.x to 1.x, as RFC-76 planned it",
            "",
            "Pipelines of three layers run Hudi 0.15. A 1.x writer moves its table to version 8 by itself, which 0.15",
            "cannot read. Without a release in between, gold must move before silver, and silver before bronze:",
            "",
            told(without, "Without a bridge release"),
            "The bridge release 0.16 would have read what 1.x writes. With it at hand, the order within each wave is",
            "free, and what 0.16 cannot read is switched on last:",
            "",
            told(bridged, "With the bridge release 0.16"),
        ]
    )


def shipped() -> str:
    """The same lake with what was shipped: no bridge, but 1.x writers that can be kept from moving tables up."""
    rollout = Rollout(hudi_tables(to=9), pipelines("hudi@0.15.0"), releases("hudi@1.2.0"))
    return "\n".join(
        [
            "# From Hudi 0.x to 1.x, with what was shipped",
            "",
            "0.16 was never released. What 1.x has instead is a switch: a writer that does not move tables up by",
            "itself writes them at the version they have, so 0.15 goes on reading them. Everybody moves in any order,",
            "and then the tables do.",
            "",
            told(rollout, "Pinned writers, then tables"),
        ]
    )


def deletion_vectors() -> str:
    """Deletion vectors on tables that an old Trino reads."""
    plain = ["appendOnly", "invariants"]
    move = TableMove("enable deletionVectors", Terms.using("delta", [*plain, "deletionVectors"]))
    tables = tuple(RolloutTable(name, Terms.using("delta", plain), (move,)) for name in ("sales.items", "sales.orders"))
    members = (
        RolloutMember.of("nightly-load", "delta-spark@3.2.0", writes=["sales.items", "sales.orders"]),
        RolloutMember.of("dashboards", "trino@412", reads=["sales.orders"]),
        RolloutMember.of("reports", "trino@426", reads=["sales.items", "sales.orders"]),
    )
    can = Rollout(tables, members)
    cannot = Rollout(tables, members, available=releases("trino@426"))
    return "\n".join(
        [
            "# Deletion vectors, and an old Trino that reads the tables",
            "",
            "Trino reads deletion vectors from 427 on, and from 469 on without showing deleted rows. 426 refuses such "
            "a table; 412 does not, and shows deleted rows.",
            "",
            told(can, "With any release of Trino"),
            "Where nothing newer than 426 can be had, there is no safe plan. What is in the way, and what is left:",
            "",
            told(cannot, "With nothing newer than Trino 426"),
        ]
    )


def dropping() -> str:
    """A feature that is dropped so that deltalake can write again, both ways."""
    before = Terms.using("delta", ["appendOnly", "invariants", "deletionVectors"])
    members = (
        RolloutMember.of("nightly-load", "delta-spark@4.0.0", writes=["sales.orders"]),
        RolloutMember.of("script", "deltalake@1.0.2", writes=["sales.orders"]),
    )
    lines = [
        "# Dropping deletion vectors, so that deltalake 1.0.2 can write again",
        "",
        "Old versions of the table still use the feature. They can be kept, and are then protected by a feature that",
        "writers must know, which deltalake does not. Or they are deleted, which takes a day and cannot be taken back.",
        "",
    ]
    for keep, way in ((True, "history kept"), (False, "history truncated")):
        after = before.without("deletionVectors", protect_history=keep)
        move = TableMove(f"drop deletionVectors ({way})", after, reversible=keep)
        table = RolloutTable("sales.orders", before, (move,))
        lines.append(told(Rollout((table,), members), way.capitalize()))
    return "\n".join(lines)


PAGES = {
    "hudi-rfc-76.md": rfc_76,
    "hudi-shipped.md": shipped,
    "deletion-vectors.md": deletion_vectors,
    "dropping-a-feature.md": dropping,
}


def page(name: str) -> str:
    """The text of a page."""
    text = PAGES[name]()
    head, _, rest = text.partition("\n")
    return f"{head}\n\n{NOTE}\n{rest.rstrip()}\n"


if __name__ == "__main__":
    for each in PAGES:
        (FOLDER / each).write_text(page(each), encoding="utf-8")
