"""Plans in files: what is read is what was written, and what was changed is noticed."""

from __future__ import annotations

import re

import pytest
from tests.support.rollouts import RFC_76, medallion, medallion_tables, releases

from halocline.compat.knowledge import Knowledge
from halocline.errors import MalformedError, NotFoundError
from halocline.plan.core.planner import plan
from halocline.plan.core.rollout import Rollout
from halocline.plan.file import SavedPlan


@pytest.fixture
def saved():
    rollout = Rollout(
        medallion_tables(count=1, to=8),
        medallion("hudi@0.15.0", count=1),
        goals=releases("hudi@1.0.2"),
        knowledge=Knowledge.load(RFC_76),
    )
    return SavedPlan(plan(rollout), "lake", {"gold-0": "lake/gold"}, {"gold-job-0": {"gold-0": ["write"]}})


def test_a_plan_is_read_as_it_was_kept(saved, tmp_path):
    saved.save(str(tmp_path / "rollout.plan"))
    read = SavedPlan.read(str(tmp_path / "rollout.plan"))
    assert read.plan.stages == saved.plan.stages
    assert (read.plan.id, read.plan.tables, read.plan.members) == (saved.plan.id, saved.plan.tables, saved.plan.members)
    assert (read.places["gold-0"], read.uses["gold-job-0"]) == ("lake/gold", {"gold-0": ["write"]})


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (b"hudi@1.0.2", b"hudi@1.0.1"),
        (b"lake/gold", b"lake/silver"),
        (b'"reversible": true', b'"reversible": false'),
        (b'["write"]', b"[]"),
        (b'"fleet": ""', b'"fleet": "grpc://elsewhere:1"'),
    ],
)
def test_a_plan_that_was_changed_by_hand_is_refused(saved, what, instead):
    changed = re.sub(rb'\[\s+"write"\s+\]', b'["write"]', saved.encode()).replace(what, instead)
    assert changed != saved.encode()
    with pytest.raises(MalformedError, match="changed after it had been made"):
        SavedPlan.decode(changed)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"halocline": 1}', b'{"halocline": 2}'])
def test_what_is_no_plan_is_refused(data):
    with pytest.raises(MalformedError):
        SavedPlan.decode(data)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFoundError):
        SavedPlan.read(str(tmp_path / "no.plan"))
