"""The planner: a rollout in, a plan or an impasse out."""

from __future__ import annotations

from typing import Final

from halocline.plan.core.impasse import find_way_out
from halocline.plan.core.judge import Judge
from halocline.plan.core.plan import Impasse, Plan
from halocline.plan.core.rollout import Rollout
from halocline.plan.core.routes import Router, chains
from halocline.plan.core.rules import RULES, PlanRules
from halocline.plan.core.summary import finished
from halocline.plan.core.waves import Board, StageLayout

_MOST_BRIDGES_TRIED: Final = 12


def plan(rollout: Rollout, *, rules: PlanRules = RULES) -> Plan | Impasse:
    """Finds stages that lead to the goals with nobody broken at any moment.

    Args:
        rollout: What is to happen.
        rules: The decisions that safety rests on; only tests give others.

    Returns:
        A plan, without stages if there is nothing to do; or an impasse if there is no safe one.

    Example:
        >>> from halocline.compat.release import Release
        >>> from halocline.plan.core.rollout import RolloutMember, RolloutTable, TableMove
        >>> from halocline.compat.terms import Terms
        >>> vectors = TableMove("enable deletionVectors", Terms.using("delta", ["deletionVectors"]))
        >>> orders = RolloutTable("orders", Terms.using("delta", []), (vectors,))
        >>> found = plan(Rollout((orders,), (RolloutMember.of("report", "trino@426", reads=["orders"]),)))
        >>> [str(each.after) for each in found.upgrades], [each.action for each in found.moves]
        (['trino@469'], ['enable deletionVectors'])
    """
    judge = Judge(rollout, rules)
    router = Router(judge)
    routes = router.routes()
    board = Board(judge, routes)
    clashes = tuple(board.clashes_at_the_end())
    if not clashes:
        best = _over_bridges(judge, router, board.lay_out())
        if best.complete:
            return finished(judge, best)
        return find_way_out(judge, router, best, ())
    return find_way_out(judge, router, None, tuple(board.trouble(each, "at the end") for each in clashes))


def _over_bridges(judge: Judge, router: Router, direct: StageLayout) -> StageLayout:
    """The layout with the fewest stages, directly or over bridges; a bridge costs a wave more itself."""
    waves = sum(1 for each in direct.stages if each.upgrades)
    if direct.complete and waves <= 2:
        return direct
    best = direct
    for tried, bridges in enumerate(chains(router.candidates())):
        if tried == _MOST_BRIDGES_TRIED:
            break
        found = Board(judge, router.routes(bridges)).lay_out()
        if found.complete and (not best.complete or found.cost < best.cost):
            best = found
    return best
