"""Promise: a fleet of 10,000 members and 10,000 tables is planned within 10 s and 1 GiB, and explained on one screen.

Three lakes: a medallion of Hudi tables whose writers move tables up by themselves, layer by layer; the same with
writers that are pinned; and Delta tables that gain a feature while two fifths of the members are too old for it. The
planner is one thread that waits for nothing, so its processor time is what it takes on a quiet machine; that is what is
held to the promise, and the time by the clock stands beside it.
"""

from __future__ import annotations

import resource
import sys
import time

from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.plan.core.plan import Plan
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout, RolloutMember, RolloutTable, TableMove, at_version
from halocline.plan.explanation import explain
from halocline.plan.rendering import to_text

MEMBERS = TABLES = 10_000
SECONDS, MEBIBYTES, LINES = 10.0, 1024, 60
LAYERS = ("bronze", "silver", "gold")


def hudi(*, pinnable: bool) -> Rollout:
    terms = Terms.of(Protocol.hudi(6), TableMetadata({"hoodie.table.type": "COPY_ON_WRITE"}))
    raised = {each: at_version(terms, each) for each in (8, 9)}
    moves = (TableMove("move to table version 9", raised[9]),)
    each_layer = TABLES // 3 + 1
    tables = [RolloutTable(f"{layer}-{at}", terms, moves, raised) for layer in LAYERS for at in range(each_layer)]
    members = []
    for depth, layer in enumerate(LAYERS):
        for at in range(MEMBERS // 3 + 1):
            below = [f"{LAYERS[depth - 1]}-{(at * 7 + each) % each_layer}" for each in range(4)] if depth else []
            members.append(
                RolloutMember.of(
                    f"{layer}-job-{at}", "hudi@0.15.0", reads=below, writes=[f"{layer}-{at}"], pinnable=pinnable
                )
            )
    return Rollout(tuple(tables[: TABLES + 3]), tuple(members), goals=(Release.parse("hudi@1.2.0"),))


def delta() -> Rollout:
    plain = Terms.using("delta", ["appendOnly", "invariants"])
    vectors = TableMove("enable deletionVectors", Terms.using("delta", ["appendOnly", "invariants", "deletionVectors"]))
    tables = [RolloutTable(f"table-{at}", plain, (vectors,)) for at in range(TABLES)]
    members = []
    for at in range(MEMBERS):
        release = ("trino@426", "trino@470", "deltalake@1.0.2", "delta-spark@3.2.0", "delta-spark@4.0.0")[at % 5]
        reads = [f"table-{(at * 13 + each * 101) % TABLES}" for each in range(5)]
        writes = [f"table-{at}"] if release.startswith("delta-spark") else []
        members.append(RolloutMember.of(f"member-{at}", release, reads=reads, writes=writes))
    return Rollout(tuple(tables), tuple(members))


def main() -> None:
    fine = True
    for name, made in (
        ("hudi, writers that cannot be pinned", hudi(pinnable=False)),
        ("hudi, writers pinned", hudi(pinnable=True)),
        ("delta, deletion vectors", delta()),
    ):
        began, started = time.perf_counter(), time.process_time()
        found = plan(made)
        took, clock = time.process_time() - started, time.perf_counter() - began
        lines = len(to_text(explain(found, users=made.users)).splitlines())
        assert isinstance(found, Plan), found.blockers[:3]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name}: {len(made.members):,} members, {len(made.tables):,} tables, {len(found.stages)} stages, "
            f"{found.restarts:,} restarts, {sum(1 for _ in found.moves):,} moves in {took:.1f} s "
            f"({clock:.1f} s by the clock), {memory:,.0f} MiB, told in {lines} lines"
        )
        fine = fine and took <= SECONDS and memory <= MEBIBYTES and lines <= LINES
    print("kept" if fine else "NOT KEPT", f"(promise: {SECONDS:.0f} s, {MEBIBYTES} MiB, {LINES} lines)")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
