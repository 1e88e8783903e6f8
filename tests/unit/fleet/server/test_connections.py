"""Connections: nobody keeps others from being heard, whatever it opens and keeps open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline.fleet.server.auth import Grant, Right
from halocline.fleet.server.connections import Connections, origin_of
from halocline.fleet.server.dates import CallerDates, witness_of


class Opened:
    """A connection that notes that it was cut."""

    def __init__(self, is_idle=True):
        self.is_idle = is_idle
        self.is_cut = False

    def cut(self):
        self.is_cut = True


def test_beyond_the_most_of_one_address_its_longest_idle_connection_makes_room():
    connections = Connections(most_of_one=3, most=10)
    busy, first, second = opened = [Opened(is_idle=False), Opened(), Opened()]
    other = Opened()
    connections.add("b", other)
    for each in opened:
        connections.add("a", each)
    connections.answered("a", first)
    connections.add("a", newest := Opened())
    assert [each.is_cut for each in (busy, first, second, newest, other)] == [False, False, True, False, False]
    assert len(connections) == 4


def test_beyond_the_most_of_all_the_address_that_has_the_most_makes_room():
    connections = Connections(most_of_one=3, most=4)
    many = [Opened() for _ in range(3)]
    for each in many:
        connections.add("a", each)
    connections.add("b", few := Opened())
    connections.add("c", newest := Opened())
    assert [each.is_cut for each in (*many, few, newest)] == [True, False, False, False, False]


@pytest.mark.parametrize(("of_one", "of_all"), [(2, 9), (9, 2)])
def test_whoever_is_being_answered_is_not_cut_off_and_the_newest_is_refused(of_one, of_all):
    connections = Connections(of_one, of_all)
    busy = [Opened(is_idle=False) for _ in range(2)]
    for each in busy:
        connections.add("a", each)
    connections.add("a", newest := Opened())
    assert [each.is_cut for each in (*busy, newest)] == [False, False, True]
    for each in (newest, *busy):
        connections.drop("a", each)
    assert len(connections) == 0


STEPS = st.lists(st.tuples(st.sampled_from("abcde"), st.booleans(), st.sampled_from(["add", "drop", "answer"])))


@given(STEPS)
def test_there_are_never_more_than_the_most_and_every_other_was_cut(steps):
    connections, opened = Connections(3, 7), []
    for address, is_idle, step in steps:
        mine = [each for where, each in opened if where == address and not each.is_cut]
        if step == "add":
            opened.append((address, Opened(is_idle)))
            connections.add(*opened[-1])
        elif mine:
            (connections.drop if step == "drop" else connections.answered)(address, mine[0])
            if step == "drop":
                opened.remove((address, mine[0]))
        live = [where for where, each in opened if not each.is_cut]
        assert len(connections) == len(live) <= 7
        assert all(live.count(where) <= 3 for where in live)


@pytest.mark.parametrize(
    "hosts",
    [
        ["127.0.0.1", "127.0.0.2", "127.9.9.9", "::1", "%5B::1%5D", "::ffff:127.0.0.3"],
        ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3%eth0", "[2001:db8::4]"],
    ],
)
def test_the_addresses_that_one_machine_has_are_one_witness_and_share_one_bound(hosts):
    assert len({origin_of(each) for each in hosts}) == 1
    dates, grant = CallerDates(600_000), Grant("etl", frozenset({Right.JOIN}))
    for host in hosts:
        dates.note(witness_of(grant, "secret:1", host), -700_000)
    assert dates.complaint() == ""
    for host in ("10.0.0.1", "10.0.0.2", "2001:db8:0:1::1"):
        dates.note(witness_of(grant, "secret:1", host), -700_000)
    assert dates.complaint()
