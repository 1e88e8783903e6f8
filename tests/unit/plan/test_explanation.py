"""Plans in words: grouped, with marks, and the same facts in every form."""

from __future__ import annotations

from tests.support.rollouts import delta_table, medallion, medallion_tables, releases

from halocline.plan.core.plan import Plan
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout, RolloutMember
from halocline.plan.explanation import explain
from halocline.plan.rendering import to_html, to_markdown, to_text


def vectors(*releases_: str) -> Rollout:
    members = tuple(RolloutMember.of(f"report-{at}", each, reads=["orders"]) for at, each in enumerate(releases_))
    return Rollout((delta_table("orders", enable=["deletionVectors"]),), members)


def test_stages_marks_and_who_is_affected_are_told():
    rollout = vectors("trino@426", "trino@470")
    text = to_text(explain(plan(rollout), users=rollout.users))
    assert "Stage 1: 1 member, one at a time in any order" in text
    assert "  ~ trino@426 to trino@469  (1 member: report-0)" in text
    assert "  + enable deletionVectors  (1 table: orders)" in text
    assert "      used by 2 members: report-0, report-1" in text
    assert text.endswith("Plan: 2 stages, 1 restart, 1 table move; the way back is open from everywhere.")


def test_ten_thousand_of_a_kind_are_one_line():
    members = tuple(RolloutMember.of(f"report-{at}", "trino@426", reads=["orders"]) for at in range(10_000))
    rollout = Rollout((delta_table("orders", enable=["deletionVectors"]),), members)
    text = to_text(explain(plan(rollout), users=rollout.users))
    assert len(text.splitlines()) < 20
    assert "10,000 members: report-0, report-1, report-2, report-3, report-4 and 9,995 more" in text


def test_a_table_that_its_writers_move_up_has_no_way_back():
    members = tuple(
        RolloutMember(each.name, each.release, each.uses, pinnable=False) for each in medallion("hudi@0.15.0", count=1)
    )
    found = plan(Rollout(medallion_tables(count=1), members, goals=releases("hudi@1.2.0")))
    assert isinstance(found, Plan)
    text = to_text(explain(found))
    assert "may be moved to hudi(9) by their writers from here on  (1 table: gold-0)" in text
    assert "no way back from stage 1 on" in text


def test_an_impasse_names_who_is_in_the_way_and_what_would_help():
    text = to_text(explain(plan(vectors("delta-rs@0.10.0"))))
    assert text.startswith("No safe plan")
    assert "Smallest set in the way: 1 member  (report-0)" in text
    assert "  - delta-rs@0.10.0 stops  (1 member: report-0)" in text
    assert text.endswith("Accept it with: --may-stop report-0")


def test_wrong_rows_are_told_loudest():
    text = to_text(
        explain(
            plan(Rollout(vectors("trino@412").tables, vectors("trino@412").members, available=releases("trino@412")))
        )
    )
    assert "silently" in text
    assert "deleted rows reappear" in text


def test_markdown_and_html_tell_the_same_and_escape_what_is_markup():
    rollout = Rollout(vectors().tables, (RolloutMember.of("a<b>|c", "trino@426", reads=["orders"]),))
    told = explain(plan(rollout), users=rollout.users)
    assert "a\\<b\\>\\|c" in to_markdown(told)
    page = to_html(told)
    assert "a&lt;b&gt;|c" in page
    assert "<b>|c" not in page
    assert page.count("<li") == sum(len(each.lines) for each in told.sections)
