"""Who uses tables: a file, a lake, a fleet and logs, each once."""

from __future__ import annotations

import pytest

from halocline.compat.release import Release
from halocline.errors import InputError, NotFoundError
from halocline.fleet.answers import MemberStatus
from halocline.fleet.core.state import Provenance, TableUse
from halocline.fleet.usage.traces import UsageTrace
from halocline.lake.file import LakeClient
from halocline.plan.members import MembersFile, NamedMember, gathered

TABLES = {"sales.orders": "file:///lake/sales/orders", "raw.clicks": "file:///lake/raw/clicks"}
ORDERS, CLICKS = TABLES.values()


def named(name: str, release: str, reads=(), writes=(), **more) -> NamedMember:
    return NamedMember(name, Release.parse(release), tuple(reads), tuple(writes), **more)


def status(name: str, release: str, *uses: TableUse, **more) -> MemberStatus:
    facts = {"provenance": "reported", "since_ms": 0, "last_seen_ms": 0, "lease_left_ms": 1, "live": True, **more}
    return MemberStatus(name, 1, release, tables=frozenset(uses), **facts)


def trace(name: str, release: str, place: str) -> UsageTrace:
    uses = frozenset({TableUse(place, "delta", "read"), TableUse(place, "delta", "write")})
    return UsageTrace(name, release, Provenance.OBSERVED, 1, uses)


def told(members) -> dict[str, dict[str, tuple[str, ...]]]:
    return {each.name: {use.table: use.operations for use in each.uses} for each in members}


def test_patterns_stand_for_tables_and_writers_read():
    found = gathered(TABLES, named=[named("load", "hudi@0.15.0", ["*"], ["sales.*"])])
    assert told(found) == {"load": {"sales.orders": ("read", "write"), "raw.clicks": ("read",)}}


def test_a_member_that_uses_none_of_the_tables_is_left_out():
    assert gathered(TABLES, named=[named("other", "hudi@0.15.0", ["finance.*"])]) == ()


def test_a_fleets_word_on_a_release_counts_before_the_files():
    use = TableUse(CLICKS, "delta", "read")
    given = [named("etl", "deltalake@1.0.2", writes=["sales.orders"], pinnable=False)]
    (found,) = gathered(TABLES, named=given, fleet=[status("etl", "deltalake@1.6.6", use)])
    assert str(found.release) == "deltalake@1.6.6"
    assert {each.table for each in found.uses} == {"sales.orders", "raw.clicks"}, "what both know of its tables counts"
    assert not found.pinnable


def test_a_member_that_left_the_fleet_is_not_counted():
    use = TableUse(CLICKS, "delta", "read")
    assert gathered(TABLES, fleet=[status("gone", "trino@426", use, live=False)]) == ()


def test_writers_in_logs_count_unless_somebody_of_the_product_is_known_to_write_there():
    seen = [trace("spark-1", "delta-spark@3.2.0", ORDERS), trace("rs-1", "deltalake@0.25.5", ORDERS)]
    found = gathered(TABLES, named=[named("load", "delta-spark@4.0.0", writes=["sales.orders"])], traces=seen)
    assert set(told(found)) == {"load", "rs-1"}


def test_clients_of_a_lake_file_are_members():
    client = LakeClient("report", Release.parse("powerbi@2.131"), ("sales.*",), ())
    (found,) = gathered(TABLES, declared=[client])
    assert (found.name, found.known_from) == ("report", "declared")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[members]]\nname = 'a'\n", "has no release"),
        ("[[members]]\nname = 'a'\nrelease = 'x@1'\nreads = 'sales'\n", "a list of texts"),
        ("[[members]]\nname = 'a'\nrelease = 'x@1'\npinable = true\n", "pinnable"),
        ("[[members]]\nname = 'a'\nrelease = 'x@1'\npinnable = 'yes'\n", "true or false"),
        ("[member]\n", "nearest  members"),
        ("members = 1\n", "cannot be used"),
        ("not toml", "is not TOML"),
    ],
)
def test_files_that_are_not_understood_are_refused(tmp_path, text, said):
    (tmp_path / "members.toml").write_text(text)
    with pytest.raises(InputError) as refused:
        MembersFile.read(tmp_path / "members.toml")
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFoundError, match=r"members.toml"):
        MembersFile.read(tmp_path / "members.toml")
