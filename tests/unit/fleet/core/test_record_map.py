"""A mapping that is copied cheaply is a mapping all the same."""

from hypothesis import given
from hypothesis import strategies as st

from halocline.fleet.core.record_map import RecordMap, edited

keys = st.integers(0, 6)
changes = st.lists(st.tuples(st.sampled_from(["set", "delete", "copy", "look"]), keys), max_size=40)


@given(st.dictionaries(keys, st.integers()), changes)
def test_it_behaves_like_a_dictionary_and_copies_leave_it_alone(base, steps):
    plain, mine = dict(base), RecordMap(base)
    former = []
    for number, (step, key) in enumerate(steps):
        if step == "set":
            plain[key] = mine[key] = number
        elif step == "delete":
            assert mine.pop(key, None) == plain.pop(key, None)
        elif step == "copy":
            former.append((mine, dict(plain)))
            mine = mine.copy()
        else:
            assert (len(mine), key in mine, mine.get(key)) == (len(plain), key in plain, plain.get(key))
    assert mine == plain
    assert dict(mine.items()) == plain
    assert sorted(mine.values()) == sorted(plain.values())
    for before, expected in former:
        assert before == expected


def test_only_the_difference_is_copied():
    large = edited({number: number for number in range(1000)})
    small = large.copy()
    small[5] = 0
    assert small._parts[0] is large._parts[0]
    assert isinstance(edited({1: 1}), dict), "of a few there is nothing to gain"
