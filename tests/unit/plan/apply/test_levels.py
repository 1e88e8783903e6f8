"""Levels on the way: raised before a table requires more, lowered before members go back."""

import pytest
from tests.support.fleets import LONG, in_memory, until

from halocline.compat.release import Release
from halocline.errors import HaloclineError
from halocline.fleet.core.ladders import supported_by
from halocline.fleet.core.state import Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.hosting import embedded
from halocline.plan.apply.levels import make_room, raise_level
from halocline.plan.core.plan import MemberUpgrade

USES = {"ingest": {"bronze": ["read", "write"]}}


def member(release):
    return Report("ingest", 0, release, "writer", supported_by(release, ["read", "write"]))


def to(release):
    return [MemberUpgrade("ingest", Release.parse("hudi@1.0.2"), Release.parse(release))]


def level(admin):
    return admin.describe().ladder("hudi").level


def test_a_level_falls_to_what_an_older_release_supports_before_it_is_awaited():
    said = []
    with embedded(in_memory(terms=LONG)) as hosting, AdminClient(hosting.address) as admin:
        with MemberLoop(hosting.address, member("hudi@1.0.2")):
            raise_level(hosting.address, "hudi", 8, "plan 1", said.append)
            assert level(admin) == 8
            assert make_room(hosting.address, to("hudi@1.1.1"), USES, "plan 1", said.append) == "", "reaches it"
            with pytest.raises(HaloclineError, match="level 8"):
                MemberLoop(hosting.address, member("hudi@0.15.0")).start()
            awaited = []

            def is_low():
                awaited.append(make_room(hosting.address, to("hudi@0.15.0"), USES, "plan 1", said.append))
                return not awaited[-1]

            until(is_low)
            assert level(admin) == 6
        with MemberLoop(hosting.address, member("hudi@0.15.0")):
            assert level(admin) == 6
    assert awaited[0] == "the fleet falls to level 6 of hudi"
    assert said == [
        "the fleet is at level 8 of hudi now",
        "the fleet falls to level 6 of hudi: gates close",
        "the fleet is at level 6 of hudi now",
    ]
