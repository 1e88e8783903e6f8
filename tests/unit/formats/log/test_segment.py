import json

import pytest

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.log.names import DELTA, INDEX
from halocline.formats.log.segment import find_segment, list_files, readable_versions
from halocline.storage.memory import MemoryStore

UUIDS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


def log(*names: str, pointer: object = None, size: int = 10) -> MemoryStore:
    """A log of files by their short names: `3.json`, `3.checkpoint.parquet`, `1-3.compacted.json`."""
    store = MemoryStore()
    for name in names:
        version, _, rest = name.partition(".")
        padded = ".".join(f"{int(each):020d}" for each in version.split("-"))
        store.put(f"_delta_log/{padded}.{rest}", b"x" * (1 if "compacted" in rest else size))
    if pointer is not None:
        store.put(
            "_delta_log/_last_checkpoint", pointer if isinstance(pointer, bytes) else json.dumps(pointer).encode()
        )
    return store


def commits(first: int, last: int) -> list[str]:
    return [f"{version}.json" for version in range(first, last + 1)]


def part(number: int, total: int, version: int = 4) -> str:
    return f"{version}.checkpoint.{number:010d}.{total:010d}.parquet"


class CountingStore(MemoryStore):
    def __init__(self, inner: MemoryStore) -> None:
        super().__init__()
        for meta in inner.list():
            self.put(meta.path, inner.get(meta.path))
        self.listings: list[str | None] = []

    def list(self, prefix="", *, start_after=None, follow_links=True):
        self.listings.append(start_after)
        return super().list(prefix, start_after=start_after)


def test_without_a_checkpoint_the_segment_begins_at_zero():
    segment = find_segment(log(*commits(0, 3)), DELTA)
    assert (segment.version, segment.checkpoint) == (3, None)
    assert [file.version for file in segment.commits] == [0, 1, 2, 3]


def test_the_newest_checkpoint_counts():
    segment = find_segment(log(*commits(0, 6), "2.checkpoint.parquet", "4.checkpoint.parquet"), DELTA)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 4
    assert [file.version for file in segment.commits] == [5, 6]
    assert segment.checkpoint_commit is not None
    assert segment.checkpoint_commit.version == 4


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["4.checkpoint.parquet", part(1, 2), part(2, 2)], part(1, 2)),
        ([part(1, 2), part(2, 2), part(1, 3), part(2, 3), part(3, 3)], part(1, 3)),
        (["4.checkpoint.parquet", part(1, 1), f"4.checkpoint.{UUIDS[0]}.json"], f"4.checkpoint.{UUIDS[0]}.json"),
        ([f"4.checkpoint.{UUIDS[1]}.parquet", f"4.checkpoint.{UUIDS[0]}.json"], f"4.checkpoint.{UUIDS[1]}.parquet"),
        (["4.checkpoint.parquet", part(1, 2)], "4.checkpoint.parquet"),
        (["3.checkpoint.parquet", part(1, 3), part(3, 3)], "3.checkpoint.parquet"),
    ],
    ids=["parts over single", "more parts", "id over both", "greater name", "part missing", "part missing, older"],
)
def test_of_several_checkpoints_the_best_complete_one_is_chosen(names, chosen):
    segment = find_segment(log(*commits(0, 5), *names), DELTA)
    assert segment.checkpoint is not None
    version, _, rest = chosen.partition(".")
    assert segment.checkpoint.name == f"{int(version):020d}.{rest}"


def test_a_good_pointer_saves_listing_the_old_part():
    store = CountingStore(log(*commits(0, 12), "10.checkpoint.parquet", pointer={"version": 10, "size": 1}))
    assert find_segment(store, DELTA).version == 12
    assert store.listings == [f"_delta_log/{10:020d}"]


@pytest.mark.parametrize(
    "pointer",
    [b"", b"{", b'{"version":10,"si', {"version": 3, "size": 1}, {"version": 99, "size": 1}, {"version": "x"}],
    ids=["empty", "torn", "cut", "no such checkpoint", "beyond the log", "wrong type"],
)
def test_a_bad_pointer_falls_back_to_listing_all(pointer):
    segment = find_segment(log(*commits(0, 8), "5.checkpoint.parquet", pointer=pointer), DELTA)
    assert segment.checkpoint is not None
    assert (segment.version, segment.checkpoint.version) == (8, 5)


def test_a_pointer_to_a_vanished_checkpoint_reads_the_log_from_its_beginning():
    segment = find_segment(log(*commits(0, 8), pointer={"version": 5, "size": 1}), DELTA)
    assert (segment.version, segment.checkpoint, len(segment.commits)) == (8, None, 9)


def test_a_stale_pointer_still_finds_the_newer_checkpoint():
    names = [*commits(4, 9), "5.checkpoint.parquet", "8.checkpoint.parquet"]
    segment = find_segment(log(*names, pointer={"version": 5, "size": 1}), DELTA)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 8


@pytest.mark.parametrize("version", [0, 4, 5, 6, 8])
def test_an_old_version_is_put_together_from_what_was_there_then(version):
    store = log(*commits(0, 8), "5.checkpoint.parquet", pointer={"version": 5, "size": 1})
    segment = find_segment(store, DELTA, version)
    assert segment.version == version
    assert (segment.checkpoint is not None) == (version >= 5)


def test_a_checkpoint_alone_is_a_version():
    segment = find_segment(log("5.checkpoint.parquet"), DELTA)
    assert (segment.version, segment.commits, segment.last_commit) == (5, (), None)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["0.json", "2.json"], "version 1 is missing before version 2"),
        (["0.json", "4.json"], "versions 1 to 3 are missing before version 4"),
        (["3.json", "4.json"], "versions 0 to 2 are missing before version 3"),
        (["2.checkpoint.parquet", "4.json"], "version 3 is missing before version 4"),
        (["0.json", part(1, 2, 2), "3.json"], "versions 1 to 2 are missing"),
    ],
)
def test_a_gap_is_an_error_that_names_it(names, message):
    with pytest.raises(MalformedError, match=message) as caught:
        find_segment(log(*names), DELTA)
    assert caught.value.condition == "MALFORMED_LOG"
    assert "missing" in caught.value.sides


def test_a_version_before_a_gap_can_be_read():
    assert find_segment(log("0.json", "1.json", "3.json"), DELTA, 1).version == 1


@pytest.mark.parametrize(
    ("names", "version", "available"),
    [
        (commits(0, 3), 4, "0 to 3"),
        ([*commits(4, 8), "6.checkpoint.parquet"], 5, "6 to 8"),
        ([*commits(4, 8), "6.checkpoint.parquet"], 2, "6 to 8"),
        (["6.checkpoint.parquet", "7.json"], 9, "6 to 7"),
        (commits(0, 3), -1, "0 to 3"),
    ],
)
def test_a_version_that_is_not_there_says_which_are(names, version, available):
    with pytest.raises(NotFoundError) as caught:
        find_segment(log(*names), DELTA, version)
    assert (caught.value.condition, caught.value.sides["available"]) == ("VERSION_NOT_FOUND", available)


@pytest.mark.parametrize("names", [[], ["3.crc"]])
def test_no_log_is_no_table(names):
    with pytest.raises(NotFoundError) as caught:
        find_segment(log(*names), DELTA)
    assert caught.value.condition == "TABLE_NOT_FOUND"


def test_compactions_stand_for_the_commits_they_cover():
    names = [*commits(0, 9), "2.checkpoint.parquet", "3-5.compacted.json", "3-4.compacted.json", "7-9.compacted.json"]
    segment = find_segment(log(*names), DELTA)
    assert [(file.version, file.end) for file in segment.cover] == [(3, 5), (6, 6), (7, 9)]


@pytest.mark.parametrize(
    "compaction", ["1-3.compacted.json", "8-12.compacted.json", "4-4.compacted.json"], ids=["before", "beyond", "one"]
)
def test_compactions_that_do_not_fit_are_left_aside(compaction):
    segment = find_segment(log(*commits(0, 9), "2.checkpoint.parquet", compaction), DELTA)
    assert segment.cover == segment.commits


def test_a_compaction_longer_than_its_commits_does_not_help():
    segment = find_segment(log(*commits(0, 2), "0-2.compacted.json", size=0), DELTA)
    assert segment.cover == segment.commits


def test_a_compaction_does_not_close_a_gap():
    with pytest.raises(MalformedError, match="version 1 is missing"):
        find_segment(log("0.json", "2.json", "0-2.compacted.json"), DELTA)


def test_a_compaction_beyond_the_version_asked_for_is_not_used():
    segment = find_segment(log(*commits(0, 4), "1-3.compacted.json"), DELTA, 2)
    assert segment.cover == segment.commits


def test_the_checksum_is_that_of_the_very_version():
    store = log(*commits(0, 3), "1.crc", "2.crc")
    assert find_segment(store, DELTA).checksum is None
    assert find_segment(store, DELTA, 2).checksum is not None


def test_checkpoints_left_out_let_the_segment_reach_further_back():
    store = log(*commits(0, 6), "2.checkpoint.parquet", "4.checkpoint.parquet", pointer={"version": 4, "size": 1})
    segment = find_segment(store, DELTA, without={f"_delta_log/{4:020d}.checkpoint.parquet"})
    assert segment.checkpoint is not None
    assert (segment.checkpoint.version, len(segment.commits)) == (2, 4)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], range(0)),
        (commits(0, 3), range(4)),
        (commits(2, 3), range(0)),
        ([*commits(2, 5), "4.checkpoint.parquet"], range(4, 6)),
        ([*commits(3, 5), "2.checkpoint.parquet"], range(2, 6)),
        (["0.json", "3.json", "3.checkpoint.parquet"], range(3, 4)),
    ],
)
def test_readable_versions_reach_back_to_the_last_gap(names, expected):
    assert readable_versions(list_files(log(*names), DELTA)) == expected


# ---------------------------------------------------------------- states in folders of their own


def index_log(commits: list[int], states: list[int], pointer: int | None = None) -> MemoryStore:
    store = MemoryStore()
    for version in commits:
        store.put(INDEX.commit_path(version), b"{}")
    for version in states:
        store.put(f"_transaction_log/state-v{version:020d}/_manifest.avro", b"x")
        store.put(f"_transaction_log/manifests/manifest-{version:08x}.avro", b"x")
    if pointer is not None:
        store.put("_transaction_log/_last_checkpoint", json.dumps({"version": pointer, "size": 1}).encode())
    return store


@pytest.mark.parametrize("pointer", [None, 2, 3, 9])
@pytest.mark.parametrize(
    ("commits", "states", "base", "tail"),
    [([0], [1, 2, 3], 3, []), ([0, 1, 2, 3, 4, 5], [1, 2, 3], 3, [4, 5]), ([0, 4], [1, 2, 3], 3, [4])],
)
def test_a_state_is_a_checkpoint_also_beyond_the_pointer(commits, states, base, tail, pointer):
    segment = find_segment(index_log(commits, states, pointer), INDEX)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == base
    assert [file.version for file in segment.commits] == tail


def test_an_older_version_is_read_from_its_own_state():
    segment = find_segment(index_log([0], [1, 2, 3], 3), INDEX, 2)
    assert (segment.version, segment.checkpoint and segment.checkpoint.version) == (2, 2)


def test_a_commit_that_is_missing_after_a_state_is_damage():
    with pytest.raises(MalformedError, match="version 4 is missing"):
        find_segment(index_log([0, 5], [1, 2, 3]), INDEX)


def test_a_checkpoint_is_preferred_to_a_state_of_the_same_version():
    store = index_log([0, 1, 2], [2])
    store.put("_transaction_log/00000000000000000002.checkpoint.json", b"x")
    assert find_segment(store, INDEX).checkpoint.name.endswith(".checkpoint.json")
