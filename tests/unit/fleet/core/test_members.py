"""Who is admitted, who stays, who counts, and for how long."""

import pytest
from tests.support.fleet_runs import DELTA, HUDI, LEASE, MARGIN, WINDOW, Run, granted, key, refusal, uses

from halocline.errors import InputError
from halocline.fleet.core.effects import Admit, CommitRecords, Refuse, Renew
from halocline.fleet.core.events import Join, Leave, MoveTable, Observe, Raise, RemoveMember, StartDowngrade, Tick
from halocline.fleet.core.ladder_state import Policy, View
from halocline.fleet.core.level import BlockerKind, plan_raise
from halocline.fleet.core.members import who_uses
from halocline.fleet.core.state import MOST_USES, FleetTerms, LevelRange, Provenance, Report, TableUse


def test_an_admitted_member_learns_where_the_fleet_stands():
    run = Run(DELTA, HUDI)
    admitted = granted(run.join("etl"), Admit)
    assert (admitted.identity, admitted.incarnation, admitted.sent, admitted.lease) == ("etl", 1, 0, LEASE)
    assert [(each.ladder, each.level, each.limit) for each in admitted.announcements] == [
        ("delta", 1, 1),
        ("hudi", 6, 6),
    ]


def test_a_member_below_the_level_is_refused_with_the_release_that_would_do():
    run = Run()
    run.do(Raise("delta", 3, "me"))
    refused = refusal(run.join("etl", hi=2, release="deltalake@1.0.2"))
    assert refused.condition == "INCOMPATIBLE_VERSION"
    assert (refused.subject, refused.fix) == ("delta=3", "deltalake@1.4.0")
    assert dict(refused.sides) == {"fleet": "delta 3", "you are": "deltalake@1.0.2, which supports delta 1 to 2"}
    assert refusal(run.join("bi", hi=2, release="presto@0.290")).fix == ""


def test_a_member_that_has_given_up_the_level_is_refused():
    assert refusal(Run().join("etl", lo=2, hi=3)).subject == "delta=1"


@pytest.mark.parametrize("release", ["", "nightly", "deltalake@0.0.0", "deltalake@0", "deltalake@latest", "deltalake"])
def test_an_unknown_or_zero_version_never_passes(release):
    assert refusal(Run().join("etl", release=release)).condition == "VERSION_UNKNOWN"


def test_features_are_checked_in_both_directions():
    run = Run(DELTA, HUDI, terms=FleetTerms(LEASE, MARGIN, provides=frozenset({"watch"})))
    run.do(Raise("delta", 2, "me"))
    run.do(Raise("hudi", 8, "me"))
    lacking = refusal(run.join("etl", ladder="hudi", lo=6, hi=8))
    assert (lacking.condition, lacking.subject) == ("INCOMPATIBLE_VERSION", "lsm")
    needing = refusal(run.join("etl", needs=frozenset({"watch", "export"})))
    assert (needing.subject, dict(needing.sides)) == ("export", {"fleet provides": "watch", "you need": "export"})
    both = run.join("etl", ladder="hudi", lo=6, hi=8, features=frozenset({"lsm"}), needs=frozenset({"watch"}))
    assert granted(both, Admit)


def test_a_table_on_a_ladder_that_is_not_reported_is_refused_at_once_and_later():
    run = Run(DELTA, HUDI)
    assert refusal(run.join("etl", tables=uses("lake/t", "hudi"))).condition == "VERSION_UNKNOWN"
    run.join("etl")
    assert refusal(run.beat(tables=uses("lake/t", "hudi"))).subject == "hudi"
    assert granted(run.beat(tables=uses("lake/t")), Renew)
    assert run.state.fleet.members[key()].report.tables == uses("lake/t")


def test_a_member_that_has_given_up_the_level_of_a_table_it_uses_is_refused():
    run = Run()
    run.do(MoveTable("lake/t", "delta", 1, "me"))
    run.do(Raise("delta", 2, "me"))
    assert refusal(run.join("etl", lo=2, tables=uses("lake/t"))).message.startswith("table lake/t is at level 1")
    assert granted(run.join("etl", lo=1, tables=uses("lake/t")), Admit)


def test_a_join_sent_again_is_answered_again_and_changes_nothing():
    run = Run()
    run.join("etl")
    before = run.state.fleet
    assert granted(run.join("etl"), Admit)
    assert run.state.fleet is before
    assert refusal(run.join("etl", hi=2)).condition == "INCARNATION_REPLAYED"


def test_a_join_sent_again_does_not_count_as_having_heard():
    run = Run()
    run.join("etl")
    run.do(Raise("delta", 2, "me"))
    run.join("etl")
    run.wait(1)
    assert run.settled() == 1
    run.beat("etl")
    run.wait(1)
    assert run.settled() == 2


def test_an_older_or_ended_incarnation_never_comes_back():
    run = Run()
    run.join("etl", incarnation=5)
    assert refusal(run.join("etl", incarnation=4)).condition == "INCARNATION_REPLAYED"
    run.do(Leave("etl", 5))
    assert refusal(run.join("etl", incarnation=5)).condition == "INCARNATION_REPLAYED"
    assert refusal(run.beat("etl", incarnation=5)).condition == "INCARNATION_ENDED"
    assert granted(run.join("etl", incarnation=6), Admit)


def test_whoever_is_displaced_or_removed_is_told_so_with_a_next_step():
    run = Run()
    run.join("etl", incarnation=1)
    run.join("etl", incarnation=2)
    (displaced,) = run.beat("etl", incarnation=1)
    assert displaced.refusal.message == "another process joined as etl"
    assert "a name of its own" in displaced.refusal.next_step
    told = [each.refusal for each in run.do(RemoveMember("etl", "ann", "runs wild")) if isinstance(each, Refuse)]
    later = run.beat("etl", incarnation=2)[0].refusal
    assert all("halocline fleet audit --action remove" in each.next_step for each in (*told, later))


def test_a_lease_is_over_after_lease_and_margin_without_a_heartbeat():
    run = Run()
    run.join("etl")
    run.wait(LEASE + MARGIN - 1)
    assert run.members() == ["etl#1"]
    run.wait(1)
    assert run.members() == []
    assert refusal(run.beat("etl")).condition == "INCARNATION_ENDED"


def test_a_lease_that_ran_out_unnoticed_can_be_renewed():
    run = Run()
    run.join("etl")
    run.at += 10 * LEASE
    assert granted(run.beat("etl"), Renew)


def test_a_heartbeat_renews_and_brings_news_only_to_those_who_lag():
    run = Run()
    run.join("etl", hi=2)
    run.at += LEASE
    assert granted(run.beat("etl"), Renew).announcements == ()
    run.do(Raise("delta", 2, "me"))
    lagging = granted(run.beat("etl", views={"delta": View(1, 1)}), Renew)
    assert [each.level for each in lagging.announcements] == [2]
    run.wait(LEASE + MARGIN - 1)
    assert run.members() == ["etl#1"]


def test_a_heartbeat_twice_over_keeps_nobody_alive():
    run = Run()
    run.join("etl")
    run.beat("etl", seq=7)
    run.at += LEASE
    assert run.beat("etl", seq=7) == []
    run.wait(MARGIN)
    assert run.members() == []


def test_a_view_of_the_future_is_not_believed():
    run = Run()
    run.join("etl", hi=2)
    run.beat("etl", views={"delta": View(99, 3), "no-such-ladder": View(1, 1)})
    assert run.state.presences[key()].views == {"delta": View(1, 1)}


def test_a_new_life_counts_beside_the_old_one_until_that_lease_is_over():
    run = Run()
    run.join("etl", hi=1)
    run.at += 5
    run.join("etl", hi=3, incarnation=2)
    assert run.members() == ["etl#1", "etl#2"]
    assert [each.who for each in plan_raise(run.state, "delta", 2, run.at).blockers] == ["etl#1"]
    assert refusal(run.beat("etl", incarnation=1)).condition == "INCARNATION_ENDED"
    run.wait(LEASE + MARGIN - 5)
    assert run.members() == ["etl#2"]
    assert not plan_raise(run.state, "delta", 2, run.at).blockers


def test_who_leaves_no_longer_counts():
    run = Run()
    run.join("etl", hi=1)
    run.do(Leave("etl", 7))
    assert run.members() == ["etl#1"], "another life left"
    run.do(Leave("etl", 1))
    assert run.members() == []
    assert run.do(Leave("etl", 1)) == []


def test_a_removed_member_counts_until_its_lease_is_over():
    run = Run()
    run.join("etl", hi=1)
    told = [each for each in run.do(RemoveMember("etl", "me", "gone")) if isinstance(each, Refuse)]
    assert [(each.to, each.incarnation, each.refusal.condition) for each in told] == [("etl", 1, "INCARNATION_ENDED")]
    assert refusal(run.beat("etl")).condition == "INCARNATION_ENDED"
    assert refusal(run.join("etl", hi=1)).condition == "INCARNATION_REPLAYED"
    assert plan_raise(run.state, "delta", 2, run.at).blockers
    run.wait(LEASE + MARGIN)
    assert not plan_raise(run.state, "delta", 2, run.at).blockers


def test_a_member_removed_by_force_is_forgotten_at_once():
    run = Run()
    run.join("etl", hi=1)
    run.do(RemoveMember("etl", "me", "its machine is off", force=True))
    assert run.members() == []
    assert "vouched" in run.audits[-1].detail


def test_removing_needs_a_member_and_a_reason():
    run = Run()
    run.join("etl")
    assert refusal(run.do(RemoveMember("nobody", "me", "gone"))).condition == "NOT_FOUND"
    assert refusal(run.do(RemoveMember("etl", "me", ""))).condition == "ARGUMENT_INVALID"


@pytest.mark.parametrize("identity", ["", "../etc/passwd", "a b", "a" * 129, "-x", "a\n"])
def test_names_that_look_like_something_else_identify_nobody(identity):
    with pytest.raises(InputError, match="cannot identify a member"):
        Report(identity, 1, "deltalake@1.6.6")


@pytest.mark.parametrize(("lo", "hi"), [(0, 0), (0, 3), (3, 2), (-1, 1)])
def test_ranges_that_are_none_do_not_exist(lo, hi):
    with pytest.raises(InputError, match="no range of levels"):
        LevelRange(lo, hi)


def seen(identity="trino", release="trino@426", at=0, provenance=Provenance.OBSERVED, supported=None, table="lake/t"):
    ranges = {"delta": LevelRange(1, 2)} if supported is None else supported
    return Observe(identity, release, provenance, "observer", at, ranges, uses(table))


def test_an_observed_member_counts_for_a_while_after_it_was_last_seen():
    run = Run()
    run.do(seen(at=0))
    assert [each.kind for each in plan_raise(run.state, "delta", 3, WINDOW - 1).blockers] == [BlockerKind.TOO_OLD]
    assert not plan_raise(run.state, "delta", 3, WINDOW).blockers
    run.do(seen(at=50))
    assert plan_raise(run.state, "delta", 3, WINDOW).blockers


def test_a_declared_member_counts_until_it_is_removed():
    run = Run()
    run.do(seen("powerbi", provenance=Provenance.DECLARED, at=None))
    run.do(seen("powerbi", provenance=Provenance.OBSERVED, at=5))
    assert run.state.fleet.members[key("powerbi", 0)].provenance is Provenance.DECLARED
    assert plan_raise(run.state, "delta", 3, 10 * WINDOW).blockers
    run.do(RemoveMember("powerbi", "me", "retired"))
    assert not plan_raise(run.state, "delta", 3, 10 * WINDOW).blockers


def inferred(identity="hudi@0.14.0-83657c3d", table="lake/t"):
    supported = {"hudi": LevelRange(6, 6)}
    return Observe(
        identity, "hudi@0.14.0", Provenance.INFERRED, "log", 0, supported, uses(table, "hudi", "write"), "writer"
    )


def test_commits_that_name_nobody_are_those_of_a_member_that_is_known_to_write_the_table():
    run = Run(DELTA, HUDI)
    run.do(inferred())
    assert len(who_uses(run.state, "lake/t", 0)) == 1, "nobody else is known"
    joined = {"ladder": "hudi", "lo": 6, "hi": 8, "release": "hudi@1.0.2", "features": frozenset({"lsm"})}
    run.join("ingest", tables=uses("lake/t", "hudi", "write"), **joined)
    run.do(inferred())
    run.do(inferred(table="lake/other", identity="hudi@0.14.0-aaaaaaaa"))
    assert [each.report.identity for each in who_uses(run.state, "lake/t", 0)] == ["ingest"]
    assert len(who_uses(run.state, "lake/other", 0)) == 1, "nobody is known to write that one"
    run.do(inferred(identity="nightly-load-28f8874a"))
    assert len(who_uses(run.state, "lake/t", 0)) == 2, "a job with a name is somebody else"


def test_an_observed_member_of_unknown_release_keeps_the_level_where_it_is():
    run = Run()
    run.do(seen("databricks", "databricks@<unknown>"))
    blocker = plan_raise(run.state, "delta", 2, 0).blockers[0]
    assert (blocker.kind, blocker.speaks) == (BlockerKind.UNKNOWN, False)


def test_nothing_known_at_all_counts_on_every_ladder():
    run = Run(DELTA, HUDI)
    run.do(Observe("somebody", "", Provenance.DECLARED, "me"))
    for ladder, level in (("delta", 2), ("hudi", 8)):
        assert BlockerKind.UNKNOWN in [each.kind for each in plan_raise(run.state, ladder, level, 0).blockers]


def test_traces_add_up_and_the_latest_release_wins():
    run = Run()
    run.do(seen(at=50, release="trino@427", supported={"delta": LevelRange(1, 3)}))
    run.do(seen(at=10, release="trino@400", table="lake/old"))
    member = run.state.fleet.members[key("trino", 0)]
    assert (member.report.release, member.last_seen) == ("trino@427", 50)
    assert {use.table for use in member.report.tables} == {"lake/t", "lake/old"}
    run.do(seen(at=60, release="trino@430", provenance=Provenance.INFERRED, supported={"delta": LevelRange(1, 3)}))
    member = run.state.fleet.members[key("trino", 0)]
    assert (member.report.release, member.provenance) == ("trino@430", Provenance.OBSERVED)
    assert run.do(seen(at=60, release="trino@430", supported={"delta": LevelRange(1, 3)})) == []


# What an operator declared, and what is seen.


def declared(run, release="trino@400", hi=1):
    run.do(seen("powerbi", release, None, Provenance.DECLARED, {"delta": LevelRange(1, hi)}))
    return run


def powerbi(run):
    return run.state.fleet.members[key("powerbi", 0)]


def test_a_trace_adds_tables_to_a_declared_member_and_changes_nothing_else():
    run = declared(Run())
    run.do(seen("powerbi", "trino@400", 5, supported={"delta": LevelRange(1, 3)}, table="lake/more"))
    member = powerbi(run)
    assert (member.report.release, member.report.supported) == ("trino@400", {"delta": LevelRange(1, 1)})
    assert (member.provenance, member.last_seen, member.seen_as) == (Provenance.DECLARED, 5, "")
    assert {use.table for use in member.report.tables} == {"lake/t", "lake/more"}


@pytest.mark.parametrize(("release", "hi"), [("trino@469", 3), ("trino@350", 1), ("spark@4.0.0", 3), ("spark@?", 3)])
def test_a_trace_that_contradicts_what_was_declared_is_on_record_and_keeps_the_gate_closed(release, hi):
    run = declared(Run(policy=Policy.AUTO), hi=3)
    run.join("etl")
    run.do(seen("powerbi", release, 5, supported={"delta": LevelRange(1, hi)}))
    assert [(each.actor, each.action, each.subject) for each in run.audits] == [("observer", "contradict", "powerbi")]
    assert run.audits[0].detail == f"declared to run trino@400, seen to run {release}"
    assert (powerbi(run).report.release, powerbi(run).seen_as) == ("trino@400", release)
    run.do(Tick())
    assert run.level() == 1
    (blocker,) = plan_raise(run.state, "delta", 2, run.at).blockers
    assert (blocker.kind, blocker.who, blocker.speaks) == (BlockerKind.CONTRADICTED, "powerbi", False)
    assert blocker.fix.endswith(f"member declare powerbi {release}")
    run.do(seen("powerbi", release, 6, supported={"delta": LevelRange(1, hi)}))
    assert run.audits == [], "once is enough"
    run.do(seen("powerbi", "trino@400", 7))
    assert plan_raise(run.state, "delta", 2, run.at).blockers, "another trace does not settle it"


def test_a_contradiction_ends_when_the_operator_declares_anew():
    run = declared(Run(), hi=3)
    run.do(seen("powerbi", "trino@469", 5))
    run.at = 10
    run.do(seen("powerbi", "trino@469", None, Provenance.DECLARED, {"delta": LevelRange(1, 3)}))
    assert [each.action for each in run.audits] == ["observe"]
    assert (powerbi(run).report.release, powerbi(run).seen_as, powerbi(run).last_seen) == ("trino@469", "", 5)
    run.do(seen("powerbi", "trino@400", 9))
    assert powerbi(run).seen_as == "", "that was before it was declared"
    assert not plan_raise(run.state, "delta", 3, run.at).blockers
    run.do(seen("powerbi", "trino@400", 10))
    assert plan_raise(run.state, "delta", 3, run.at).blockers


def test_force_goes_over_a_contradiction_with_a_reason_and_up_to_that_level_only():
    run = declared(Run(), hi=3)
    run.do(seen("powerbi", "trino@469", 5))
    run.do(Raise("delta", 2, "me", "it is switched off", force=True))
    assert run.level() == 2
    assert refusal(run.do(Raise("delta", 3, "me"))).condition == "LEVEL_BLOCKED"


def test_what_is_declared_counts_though_something_else_was_seen_before():
    run = Run()
    run.do(seen("powerbi", "trino@469", 5, supported={"delta": LevelRange(1, 3)}))
    declared(run)
    assert (powerbi(run).report.release, powerbi(run).report.supported["delta"].hi) == ("trino@400", 1)
    assert (powerbi(run).last_seen, powerbi(run).seen_as) == (5, "")
    assert plan_raise(run.state, "delta", 2, run.at).blockers


@pytest.mark.parametrize(("release", "contradicted"), [("trino@390", False), ("trino@400", False), ("trino@469", True)])
def test_an_inferred_release_is_the_lowest_that_it_can_be(release, contradicted):
    run = declared(Run())
    run.do(seen("powerbi", release, 5, Provenance.INFERRED))
    assert bool(powerbi(run).seen_as) is contradicted


def test_who_was_declared_as_unknown_stays_so_whatever_is_seen():
    run = declared(Run(), "unknown")
    run.do(seen("powerbi", "trino@469", 5, supported={"delta": LevelRange(1, 3)}))
    assert (powerbi(run).report.release, powerbi(run).seen_as) == ("unknown", "")
    assert plan_raise(run.state, "delta", 2, run.at).blockers


def test_a_declared_writer_is_not_explained_away_by_one_that_is_known():
    run = Run(DELTA, HUDI)
    supported = {"hudi": LevelRange(6, 6)}
    name = "hudi@0.14.0-83657c3d"
    written = uses("lake/t", "hudi", "write")
    run.do(Observe(name, "hudi@0.14.0", Provenance.DECLARED, "me", None, supported, written, "writer"))
    joined = {"ladder": "hudi", "lo": 6, "hi": 8, "release": "hudi@1.0.2", "features": frozenset({"lsm"})}
    run.join("ingest", tables=written, **joined)
    run.do(inferred(identity=name))
    assert name in run.members()


def test_nobody_can_be_reported_by_somebody_else():
    assert refusal(Run().do(seen(provenance=Provenance.REPORTED))).condition == "ARGUMENT_INVALID"


def test_force_goes_over_the_heads_of_those_who_do_not_speak_and_is_recorded():
    run = Run()
    run.do(seen())
    run.join("etl")
    assert refusal(run.do(Raise("delta", 3, "me"))).condition == "LEVEL_BLOCKED"
    assert refusal(run.do(Raise("delta", 3, "me", force=True))).next_step == "Force needs a reason."
    assert isinstance(run.do(Raise("delta", 3, "me", "trino is being retired", force=True))[0], CommitRecords)
    assert run.state.fleet.members[key("trino", 0)].excused == {"delta": 3}


def test_force_does_not_go_over_the_heads_of_those_who_speak():
    run = Run()
    run.join("etl", hi=2)
    assert refusal(run.do(Raise("delta", 3, "me", "now", force=True))).condition == "LEVEL_BLOCKED"


def test_questions_about_who_uses_and_needs_something():
    run = Run(terms=FleetTerms(LEASE, MARGIN, WINDOW, provides=frozenset({"watch"})))
    run.join("etl", tables=uses("lake/t"), features=frozenset({"lsm"}))
    run.join("bi", needs=frozenset({"watch"}))
    run.do(seen())
    assert [str(each.report.key) for each in who_uses(run.state, "lake/t", 0)] == ["etl#1", "trino"]


def test_whoever_joins_on_the_way_down_must_support_both_levels():
    run = Run()
    run.do(Raise("delta", 3, "me"))
    run.do(StartDowngrade("delta", 2, "me", "bad release"))
    assert "on its way down to level 2" in refusal(run.join("etl", lo=3, hi=3)).message
    assert refusal(run.join("etl", lo=1, hi=2)).subject == "delta=3"
    admitted = granted(run.join("etl", lo=2, hi=3), Admit)
    assert (admitted.announcements[0].level, admitted.announcements[0].limit) == (3, 2)


def test_a_join_of_another_kind_of_life_is_judged_by_what_it_reports_now():
    run = Run()
    run.join("etl", hi=3)
    run.do(Raise("delta", 3, "me"))
    older = Join(Report("etl", 2, "deltalake@1.0.2", supported={"delta": LevelRange(1, 2)}), 0)
    assert refusal(run.do(older)).condition == "INCOMPATIBLE_VERSION"


# What would grow for ever.


def observed(identity, run, seen=None, tables=frozenset()):
    when = run.at if seen is None else seen
    return Observe(identity, "trino@426", Provenance.OBSERVED, "observer", when, tables=tables)


def test_a_sweep_forgets_the_oldest_lives_and_keeps_them_out(monkeypatch):
    monkeypatch.setattr("halocline.fleet.core.members.MOST_LIVES", 3)
    run = Run()
    for life in range(1, 8):
        run.join(f"job-{life}", incarnation=life)
        if life != 2:
            run.do(Leave(f"job-{life}", life))
    run.do(Tick(sweep=True))
    assert run.state.fleet.incarnations == {"job-2": 2, "job-6": 6, "job-7": 7}, "one that is here is remembered"
    assert run.state.fleet.floor == 5
    for identity, life in (("job-1", 1), ("job-5", 5), ("new", 5)):
        refused = refusal(run.join(identity, incarnation=life))
        assert refused.condition == "INCARNATION_REPLAYED"
        assert (dict(refused.sides)["latest"], dict(refused.sides)["lowest"]) == (str(life), "6")
    assert granted(run.join("job-1", incarnation=6), Admit)
    assert granted(run.beat("job-2", 2), Renew), "the floor is for joins"


def test_a_sweep_forgets_members_that_were_not_seen_for_long_enough():
    run = Run()
    run.do(observed("old", run))
    run.at += WINDOW - 1
    run.do(observed("new", run))
    run.do(Observe("declared", "trino@426", Provenance.DECLARED, "ann"))
    run.do(Tick(sweep=True))
    assert run.members() == ["declared", "new", "old"]
    run.at += 1
    run.do(Tick())
    assert run.members() == ["declared", "new", "old"], "an ordinary tick does not look"
    run.do(Tick(sweep=True))
    assert run.members() == ["declared", "new"]
    assert [each.subject for each in run.audits] == ["old"]


def test_more_members_that_do_not_speak_than_are_counted_are_refused_aloud(monkeypatch):
    monkeypatch.setattr("halocline.fleet.core.members.MOST_SILENT", 2)
    run = Run()
    for identity in ("a", "b"):
        run.do(observed(identity, run))
    refused = refusal(run.do(observed("c", run)))
    assert (refused.condition, refused.subject) == ("TOO_MANY", "c")
    assert "member remove" in refused.next_step
    assert granted(run.join("etl"), Admit), "those that speak come and go by themselves"
    run.at += 1
    assert not any(isinstance(each, Refuse) for each in run.do(observed("a", run))), "known ones are still noted"


def test_a_member_that_is_seen_with_more_tables_than_are_counted_is_refused_aloud():
    run = Run()
    many = frozenset(TableUse(f"lake/{number}", "delta") for number in range(MOST_USES))
    run.do(observed("bi", run, tables=many))
    refused = refusal(run.do(observed("bi", run, tables=uses("lake/new"))))
    assert refused.condition == "TOO_MANY"
    assert len(run.state.fleet.members[key("bi", 0)].report.tables) == MOST_USES


def test_a_member_cannot_have_been_seen_in_the_future():
    run = Run()
    soon = run.at + 10 * 60_000
    refused = refusal(run.do(observed("bi", run, seen=soon + 1)))
    assert refused.condition == "ARGUMENT_INVALID"
    assert "600 s from now" in refused.message
    assert run.members() == []
    run.do(observed("bi", run, seen=soon))
    assert run.members() == ["bi"], "clocks differ a little"


def test_a_member_cannot_have_been_seen_before_there_were_dates():
    run = Run()
    assert refusal(run.do(observed("bi", run, seen=-1))).condition == "ARGUMENT_INVALID"
    assert run.members() == []


def test_a_fleet_that_did_not_change_is_not_looked_through_again(monkeypatch):
    run = Run(policy=Policy.AUTO)
    run.join("old", hi=1)
    run.do(Tick())
    looked = []
    monkeypatch.setattr("halocline.fleet.core.level._free", lambda *_: looked.append(1))
    run.do(Tick())
    run.beat("old")
    run.do(Tick())
    assert looked == []
    monkeypatch.undo()
    run.do(Leave("old", 1))
    run.join("new")
    run.do(Tick())
    assert run.level() == 3
