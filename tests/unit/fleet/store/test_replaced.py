"""A store whose file is replaced under its coordinator acknowledges nothing more and loses nothing."""

import os
import re
import shutil
import sqlite3

import pytest

from halocline.errors import StaleEpochError
from halocline.fleet.core.ladder_state import Hold
from halocline.fleet.core.state import RecordChange
from halocline.fleet.store import Write
from halocline.fleet.store.sqlite import SqliteStore


def held(name):
    return RecordChange("holds", ("hudi", name), Hold("hudi", name, 6, None, "year end", "ann"))


def take_over(store, name="one"):
    """Leads, and gives back the fleet that it found."""
    return store.take_over(name, "here", lambda fleet, _: (fleet, fleet.epoch + 1, Write()))


@pytest.fixture
def led(tmp_path):
    """A store that is led, with an acknowledged hold."""
    store = SqliteStore(str(tmp_path / "fleet.db"))
    take_over(store)
    store.write(1, Write([held("close")]))
    yield store
    store.close()


def other_store(path, times=3):
    store = SqliteStore(str(path))
    for _ in range(times):
        take_over(store, "other")
    store.close()


def by_another_store(path):
    other_store(path.with_name("other.db"))
    os.replace(path.with_name("other.db"), path)
    return "the store of a fleet at epoch 3, last led by other"


def by_another_file(path):
    path.with_name("note.txt").write_text("hello")
    os.replace(path.with_name("note.txt"), path)
    return "a file of 5 bytes that is no fleet's store"


def by_another_database(path):
    with sqlite3.connect(path.with_name("else.db")) as connection:
        connection.execute("CREATE TABLE orders (id)")
    connection.close()
    os.replace(path.with_name("else.db"), path)
    return "that is no fleet's store"


def by_nothing(path):
    path.rename(path.with_name("moved.db"))
    return "nothing"


def by_a_copy_of_itself(path):
    shutil.copy(path, path.with_name("copy.db"))
    os.replace(path.with_name("copy.db"), path)
    return ""


REPLACED = pytest.mark.parametrize(
    "replace_file", [by_another_store, by_another_file, by_another_database, by_nothing, by_a_copy_of_itself]
)
ASKED = {
    "write": lambda store: store.write(1, Write([held("late")])),
    "renew": lambda store: store.renew(1),
    "take over": take_over,
    "read": lambda store: store.export(),
    "keys": lambda store: store.signing_keys(1),
}


@REPLACED
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_store_whose_file_was_replaced_says_what_lies_there_and_does_nothing_more(led, tmp_path, replace_file, ask):
    there = replace_file(tmp_path / "fleet.db")
    with pytest.raises(StaleEpochError, match="another file has taken the place") as caught:
        ask(led)
    error = caught.value
    assert error.condition == "STORE_REPLACED"
    assert there in error.sides["there now"]
    assert led.lost is error
    for again in ASKED.values():
        with pytest.raises(StaleEpochError):
            again(led)


@REPLACED
def test_what_was_acknowledged_is_kept_beside_the_file_that_took_its_place(led, tmp_path, replace_file):
    replace_file(tmp_path / "fleet.db")
    with pytest.raises(StaleEpochError) as caught:
        led.renew(1)
    led.close()
    place = re.fullmatch(r"is kept at (.*)", caught.value.sides["what this coordinator has written"])[1]
    assert os.stat(place).st_mode & 0o777 == 0o600
    kept = SqliteStore(place)
    assert set(take_over(kept).holds) == {("hudi", "close")}
    kept.close()


def test_a_write_that_went_into_a_file_that_is_gone_is_not_acknowledged(led, tmp_path, monkeypatch):
    other_store(tmp_path / "other.db")
    put = SqliteStore._put

    def replaced_meanwhile(*written):
        put(*written)
        os.replace(tmp_path / "other.db", tmp_path / "fleet.db")

    monkeypatch.setattr(SqliteStore, "_put", replaced_meanwhile)
    with pytest.raises(StaleEpochError) as caught:
        led.write(1, Write([held("late")]))
    assert caught.value.condition == "STORE_REPLACED"


def test_a_store_that_was_written_over_is_lost_as_well(led, tmp_path):
    other_store(tmp_path / "other.db")
    with sqlite3.connect(tmp_path / "fleet.db") as connection:
        connection.execute("UPDATE coordinator SET epoch = 7, holder = 'somebody'")
    connection.close()
    with pytest.raises(StaleEpochError) as caught:
        led.write(1, Write([held("late")]))
    assert caught.value.condition == "STORE_REPLACED"
    with pytest.raises(StaleEpochError):
        take_over(led)


def test_a_store_in_memory_has_no_place_that_could_be_taken():
    store = SqliteStore(":memory:")
    take_over(store)
    store.renew(1)
    assert store.lost is None
    store.close()
