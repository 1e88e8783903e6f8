"""Searching splits: every form on every kind of column against the same question asked of the rows in plain Python."""

import json
import pickle
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.support.splits import COLUMNS, OPTIONS, START, build, row

from halocline.errors import IncompatibleError, InputError, MalformedError, NotFoundError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bind import SearchedColumns, bind
from halocline.formats.index.query.parse import parse
from halocline.formats.index.search import Search, count_split, search_split, splits_to_search
from halocline.formats.index.skips import rested, skip_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage.memory import MemoryStore

PATH = "a.split.parquet"
COUNT = 900
NULLS = dict.fromkeys({field.name for field in COLUMNS.fields} - {"id"})
ODD = [
    row(COUNT, **NULLS),
    row(COUNT + 1, message="", level="", tags=[], labels=[], latency=float("nan")),
    row(COUNT + 2, level="ERR OR: (x)", message='say "time-out" at 10:30', client="nowhere", latency=-0.0),
    row(
        COUNT + 3,
        level="line\nbreak",
        message="Zeitüberschreitung größer",
        user={"name": "2024-01-01T00:00:00Z", "age": -1},
    ),
    row(COUNT + 4, level="a*b?c", trace="trace-00000005", message="connection was reset by peer"),
    row(COUNT + 5, message="x" * 255 + " " + "y" * 256, labels=[("a.b", "dotted key"), ("n", "7")]),
]
ROWS = [row(number) for number in range(COUNT)] + ODD


def search(text: str, unnamed=None, options=OPTIONS) -> Search:
    known = SearchedColumns.of(COLUMNS, {OPTIONS_KEY: json.dumps(options)}, (), unnamed)
    return Search(text, bind(parse(text), known))


@pytest.fixture(scope="module")
def lake():
    store = MemoryStore()
    built = build(store, ROWS)
    return store, built.added(PATH, {}, 1)


def words(text):
    return re.findall(r"\w+", (text or "").lower())


def in_row(text, *wanted):
    found = words(text)
    return any(found[at : at + len(wanted)] == list(wanted) for at in range(len(found)))


def some(predicate):
    """The predicate, false for nulls."""
    return lambda value: value is not None and predicate(value)


def is_in(column, predicate):
    return lambda each: some(predicate)(each[column])


def day(text):
    return date.fromisoformat(text)


def moment(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


CASES = {
    "message:request": lambda each: "request" in words(each["message"]),
    "message:REQUEST": lambda each: "request" in words(each["message"]),
    "message:17": lambda each: "17" in words(each["message"]),
    "message:zebra": lambda each: False,
    "message:größer": lambda each: "größer" in words(each["message"]),
    "message:time-out": lambda each: in_row(each["message"], "time", "out"),
    'message:"request 17"': lambda each: in_row(each["message"], "request", "17"),
    'message:"17 request"': lambda each: False,
    'message:"request to"~1': lambda each: "request" in words(each["message"]),
    'message:"connection reset"': lambda each: False,
    'message:"connection reset"~1': lambda each: each["id"] == COUNT + 4,
    'message:"reset connection"~9': lambda each: False,
    'message:"request request"~3': lambda each: False,
    'message:"request 1"*': lambda each: bool(re.search(r"(?i)request 1\d*", each["message"] or "")),
    "message:req*": lambda each: any(word.startswith("req") for word in words(each["message"])),
    "message:*que*": lambda each: any("que" in word for word in words(each["message"])),
    "message:1?7": lambda each: any(re.fullmatch("1.7", word) for word in words(each["message"])),
    "message:R?quest": lambda each: "request" in words(each["message"]),
    "message:requst~1": lambda each: "request" in words(each["message"]),
    "message:rqeuest~1": lambda each: "request" in words(each["message"]),
    "message:reqst~1": lambda each: False,
    "message:reqst~2": lambda each: {"request", "reset"} & {*words(each["message"])},
    "message:IN [zeitüberschreitung peer]": lambda each: each["id"] in (COUNT + 3, COUNT + 4),
    "message:*": lambda each: bool(words(each["message"])),
    "message:" + "x" * 255: lambda each: each["id"] == COUNT + 5,
    "level:ERROR": lambda each: each["level"] == "ERROR",
    "level:error": lambda each: False,
    'level:"ERR OR: (x)"': lambda each: each["level"] == "ERR OR: (x)",
    'level:""': lambda each: each["level"] == "",
    "level:IN [ERROR WARN nothing]": is_in("level", lambda value: value in ("ERROR", "WARN")),
    "level:ER*": is_in("level", lambda value: value.startswith("ER")),
    "level:?A*": is_in("level", lambda value: re.fullmatch("(?s).A.*", value) is not None),
    "level:line*k": is_in("level", lambda value: value == "line\nbreak"),
    "level:line?break": is_in("level", lambda value: value == "line\nbreak"),
    r"level:a\*b\?c": is_in("level", lambda value: value == "a*b?c"),
    r"level:a\**": is_in("level", lambda value: value == "a*b?c"),
    "level:ERROS~1": lambda each: each["level"] == "ERROR",
    "level:[F TO M]": is_in("level", lambda value: "F" <= value <= "M"),
    "level:{ERROR TO WARN}": is_in("level", lambda value: "ERROR" < value < "WARN"),
    "level:>=WARN": is_in("level", lambda value: value >= "WARN"),
    "level:*": is_in("level", lambda value: True),
    "NOT level:*": lambda each: each["level"] is None,
    "trace:trace-00000005": is_in("trace", lambda value: value == "trace-00000005"),
    "trace:IN [trace-00000005 trace-00000007 x]": lambda each: each["trace"] in ("trace-00000005", "trace-00000007"),
    "NOT trace:trace-00000005": lambda each: each["trace"] != "trace-00000005",
    "trace:*": is_in("trace", lambda value: True),
    "id:17": lambda each: each["id"] == 17,
    "id:[10 TO 12]": lambda each: 10 <= each["id"] <= 12,
    "id:{10 TO 12}": lambda each: each["id"] == 11,
    "id:>=890.5": lambda each: each["id"] >= 891,
    "id:{9.5 TO 10.5}": lambda each: each["id"] == 10,
    "id:IN [1 2 3]": lambda each: each["id"] in (1, 2, 3),
    "id:*": lambda each: True,
    "latency:0": is_in("latency", lambda value: value == 0.0),
    "latency:[1 TO 2.5]": is_in("latency", lambda value: 1 <= value <= 2.5),
    "latency:<0.5": is_in("latency", lambda value: value < 0.5),
    "latency:*": is_in("latency", lambda value: True),
    "ok:true": lambda each: each["ok"] is True,
    "ok:FALSE": lambda each: each["ok"] is False,
    "day:2024-01-03": is_in("day", lambda value: value == day("2024-01-03")),
    "day:[2024-01-03 TO 2024-01-05}": is_in("day", lambda value: day("2024-01-03") <= value < day("2024-01-05")),
    "at:[2024-01-01T00:00:00.4Z TO 2024-01-01T00:00:00.600005Z]": is_in(
        "at", lambda value: moment("2024-01-01T00:00:00.400000") <= value <= moment("2024-01-01T00:00:00.600005")
    ),
    "at:2024-01-01T01:00:00+01:00": is_in("at", lambda value: value == START),
    "at:>=2024-01-01T00:01:00": is_in("at", lambda value: value >= moment("2024-01-01T00:01:00")),
    "price:0.17": is_in("price", lambda value: value == Decimal("0.17")),
    "price:[0.05 TO 0.071]": is_in("price", lambda value: Decimal("0.05") <= value <= Decimal("0.07")),
    "price:>8.999": is_in("price", lambda value: value >= 9),
    "client:10.0.0.5": is_in("client", lambda value: value == "10.0.0.5"),
    "client:10.0.2.0/24": is_in("client", lambda value: value.startswith("10.0.2.")),
    "client:[10.0.0.250 TO 10.0.1.3]": is_in(
        "client", lambda value: value in {*(f"10.0.0.{n}" for n in range(250, 256)), *(f"10.0.1.{n}" for n in range(4))}
    ),
    "client:*": is_in("client", lambda value: True),
    "tags:t2": is_in("tags", lambda value: "t2" in value),
    "tags:all AND NOT tags:t1": is_in("tags", lambda value: "all" in value and "t1" not in value),
    "tags:[t2 TO t9]": is_in("tags", lambda value: any("t2" <= each <= "t9" for each in value)),
    "user.name:user": is_in("user", lambda value: "user" in words(value["name"])),
    'user.name:"User 3"': is_in("user", lambda value: in_row(value["name"], "user", "3")),
    "user.age:7": is_in("user", lambda value: value["age"] == 7),
    "user.age:IN [7 8]": is_in("user", lambda value: value["age"] in (7, 8)),
    'user.name:"2024-01-01T00:00:00Z"': is_in("user", lambda value: value["name"].startswith("2024")),
    "user.name:usr~1": is_in("user", lambda value: "user" in words(value["name"])),
    "labels.zone:z1": is_in("labels", lambda value: dict(value).get("zone") == "z1"),
    "labels.a.b:dotted": lambda each: each["id"] == COUNT + 5,
    "labels.n:7": is_in("labels", lambda value: dict(value).get("n") == "7"),
    "*": lambda each: True,
    "NOT *": lambda each: False,
    "message:request AND level:ERROR": lambda each: "request" in words(each["message"]) and each["level"] == "ERROR",
    "level:ERROR OR id:1": lambda each: each["level"] == "ERROR" or each["id"] == 1,
    "NOT message:request": lambda each: "request" not in words(each["message"]),
    "NOT message:request AND NOT level:*": lambda each: each["id"] == COUNT,
    "NOT (message:request OR level:*)": lambda each: each["id"] == COUNT,
    "level:ERROR AND NOT id:[0 TO 890]": lambda each: each["level"] == "ERROR" and each["id"] > 890,
    "level:>=WARN AND id:<10": lambda each: (each["level"] or "") >= "WARN" and each["id"] < 10,
    "NOT level:>=WARN": lambda each: not (each["level"] or "") >= "WARN",
    "level:>=WARN OR trace:trace-00000003": lambda each: (each["level"] or "") >= "WARN" or each["id"] == 3,
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_the_index_finds_what_the_rows_have(text, lake):
    store, split = lake
    expected = [number for number, each in enumerate(ROWS) if CASES[text](each)]
    asked = pickle.loads(pickle.dumps(search(text)))
    assert search_split(store, split, asked).rows.tolist() == expected
    assert count_split(store, split, asked) == len(expected)
    if expected:
        assert may_match(asked.query, split), "a split with such rows is never left aside"


@pytest.mark.parametrize(
    ("text", "same_as"),
    [("LEVEL:ERROR", "level:ERROR"), ("User.NAME:user", "user.name:user"), ("ID:17", "id:17")],
)
def test_the_case_of_a_column_does_not_matter(text, same_as, lake):
    store, split = lake
    assert search(text).query == search(same_as).query
    assert search_split(store, split, search(text)).rows.size


# ---------------------------------------------------------------- all columns at once


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("ERROR", lambda each: each["level"] == "ERROR"),
        ("peer", lambda each: each["id"] == COUNT + 4),
        ("trace-00000007", lambda each: each["trace"] == "trace-00000007"),
        ("10.0.0.5", lambda each: each["client"] == "10.0.0.5"),
        ("2024-01-03", lambda each: each["day"] == date(2024, 1, 3)),
        ("t2 AND ERROR", lambda each: "t2" in (each["tags"] or ()) and each["level"] == "ERROR"),
    ],
)
def test_a_value_without_a_column_is_found_wherever_it_can_be(text, predicate, lake):
    store, split = lake
    expected = [number for number, each in enumerate(ROWS) if predicate(each)]
    assert search_split(store, split, search(text)).rows.tolist() == expected


def test_a_number_without_a_column_is_looked_for_in_words_and_numbers(lake):
    store, split = lake
    found = search_split(store, split, search("17")).rows.tolist()
    assert found == [
        number
        for number, each in enumerate(ROWS)
        if each["id"] == 17 or "17" in words(each["message"]) or each["latency"] == 17 or each["price"] == 17
    ]


def test_unnamed_columns_can_be_chosen(lake):
    store, split = lake
    assert search_split(store, split, search("17", ["id"])).rows.tolist() == [17]
    with pytest.raises(NotFoundError, match="mesage"):
        search("17", ["mesage"])


# ---------------------------------------------------------------- refusing


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("mesage:x", "no column 'mesage'"),
        ("10:30", "no column '10'"),
        ("id:abc", "no value of column 'id'"),
        ("id:1.5", "no value"),
        ("id:99999999999999999999", "no value"),
        ("id:1*", "holds no text"),
        ("id:12~1", "holds no text"),
        ("latency:nan", "no value"),
        ("ok:maybe", "no value"),
        ("day:2024", "no value"),
        ("at:yesterday", "no value"),
        ("client:nowhere", "no value"),
        ("raw:x", "not in the index"),
        ("huge:1", "not in the index"),
        ("user:x", "searched inside"),
        ("user.nmae:x", "no column 'user.nmae'"),
        ("labels.a.b.c.d.e.f.g:x", "too deep"),
        ("level.x:1", "no column 'level.x'"),
        ("user.name:x*", "no patterns"),
        ('user.name:"user 3"~1', "no words stand in between"),
        ("user.age:[1 TO 2]", "no order"),
        ("message:[a TO b]", "no order"),
        ("message:...", "has no word"),
        ("message:foo-b*", "not one word"),
        ("message:time-out~1", "not one word"),
        ("message:" + "x" * 256, "more than 255 bytes"),
        ('message:"one"*', "two words"),
        ('level:"a b"~2', "not cut into words"),
        ("trace:trace-0*", "hashed"),
        ("trace:trase~1", "hashed"),
        ("tra*", "hashed"),
    ],
)
def test_what_a_column_cannot_answer_is_refused(text, match):
    with pytest.raises(InputError, match=match):
        search(text)


def test_a_word_that_one_column_of_all_cannot_be_asked_says_to_name_one():
    with pytest.raises(InputError, match="hashed") as refused:
        search("requst~1")
    assert "in which column" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "text", "match"),
    [
        ({"message": {"type": "text", "tokenizer": "en_stem"}}, "message:runn*", "stemmed"),
        ({"message": {"type": "text", "tokenizer": "en_stem"}}, "message:running~1", "stemmed"),
        ({"message": {"type": "text", "positions": False}}, 'message:"a b"', "order of words"),
        ({"message": {"type": "text", "positions": False}}, "message:time-out", "order of words"),
    ],
)
def test_options_of_a_column_limit_what_can_be_asked(options, text, match):
    with pytest.raises(InputError, match=match):
        search(text, options=options)


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        ("en_stem", "message:connecting", [4]),
        ("en_stem", 'message:"connections reset"~1', [4]),
        ("whitespace", "message:Connection", []),
        ("whitespace", 'message:"\\"time-out\\""', [2]),
        ("whitespace", "message:größer", [3]),
    ],
)
def test_every_analyzer_finds_its_words(tokenizer, text, expected):
    options = {"message": {"type": "text", "tokenizer": tokenizer}}
    store = MemoryStore()
    split = build(store, ODD, options=options).added(PATH, {}, 1)
    assert search_split(store, split, search(text, options=options)).rows.tolist() == expected


@pytest.mark.parametrize("text", ["ΟΔΟΣ", "ΟΔΟΣ*", "?ΔΟΣ", "ΟΔΟΣ~1", "οδοσ*", '"ΜΙΑ ΟΔΟΣ"', '"ΜΙΑ ΟΔΟΣ"*'])
def test_letters_with_two_small_forms_are_found_in_capitals(text):
    store = MemoryStore()
    split = build(store, [row(0, message="nothing"), row(1, message="ΜΙΑ ΟΔΟΣ"), row(2, message="ΜΙΑ ΟΔΟΣ ΑΒ")])
    found = search_split(store, split.added(PATH, {}, 1), search(f"message:{text}"))
    assert found.rows.tolist() == [1, 2]


def test_words_without_positions_are_found():
    options = {"message": {"type": "text", "positions": False}}
    store = MemoryStore()
    split = build(store, ODD, options=options).added(PATH, {}, 1)
    assert search_split(store, split, search("message:peer", options=options)).rows.tolist() == [4]


# ---------------------------------------------------------------- columns with values that no index takes


def test_strings_that_are_too_long_for_the_index_are_found_in_the_rows():
    long = "z" * 70_000
    store = MemoryStore()
    split = build(store, [row(0, level=long), row(1), row(2, level="z")]).added(PATH, {}, 1)
    for text, expected in {"level:z*": [0, 2], "level:*": [0, 1, 2], "level:WARN": [1], "level:>y": [0, 2]}.items():
        found = search_split(store, split, search(text))
        assert (found.rows.tolist(), found.scanned) == (expected, ("level",))
    with pytest.raises(InputError, match="rows cannot answer"):
        search_split(store, split, search("level:WARM~1"))


def test_a_column_that_is_younger_than_a_split_has_no_values():
    columns = type(COLUMNS)(COLUMNS.fields[:3])
    store = MemoryStore()
    split = build(
        store, [{"id": 1, "level": "a", "message": "b"}], columns=columns, options={"message": {"type": "text"}}
    )
    found = lambda text: search_split(store, split.added(PATH, {}, 1), search(text)).rows.tolist()  # noqa: E731
    assert (found("trace:x"), found("NOT trace:x"), found("latency:*"), found("message:b")) == ([], [0], [], [0])


def test_a_split_with_other_options_is_refused_and_not_misread():
    store = MemoryStore()
    split = build(store, [row(1)], options={**OPTIONS, "message": {"type": "text", "tokenizer": "en_stem"}})
    with pytest.raises(InputError, match="other options"):
        search_split(store, split.added(PATH, {}, 1), search("message:request"))
    split = build(store, [row(1)], options={"message": {"type": "text"}, "client": {"type": "ip"}})
    found = search_split(store, split.added(PATH, {}, 1), search("trace:trace-00000001"))
    assert found.rows.tolist() == [0], "a string is a string, hashed or not"


# ---------------------------------------------------------------- leaving splits aside


SPLIT = SplitAdd(
    PATH, {}, 1, 1, True,
    min_values={"id": "10", "level": "INFO", "day": "19723", "price": "1.00", "latency": "0.5", "ok": "true",
                "trace": "a" * 32, "message": "b"},
    max_values={"id": "20", "level": "WARN", "day": "19725", "price": "2.50", "latency": "9.5", "ok": "true",
                "trace": "m" * 32, "message": "c"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id:9", False), ("id:10", True), ("id:20", True), ("id:21", False), ("id:IN [1 15]", True),
        ("id:IN [1 2]", False),
        ("id:[21 TO 30]", False), ("id:{20 TO 30]", False), ("id:[20 TO 30]", True), ("id:<10", False),
        ("id:<=10", True),
        ("NOT id:9", True), ("NOT id:[10 TO 20]", True), ("id:9 OR id:15", True), ("id:9 AND id:15", False),
        ("level:ERROR", False), ("level:KIWI", True), ("level:>X", False), ("level:W*", True),
        ("day:2024-01-01", True), ("day:2024-01-04", False), ("price:0.99", False), ("price:2.5", True),
        ("latency:>9.5", False), ("latency:>=9.5", True), ("ok:false", False), ("ok:true", True),
        ("trace:" + "m" * 40, True), ("trace:" + "n" * 40, False), ("message:zebra", True), ("*", True),
        ("NOT *", False),
    ],
)  # fmt: skip
def test_splits_are_left_aside_by_their_bounds(text, expected):
    assert may_match(search(text).query, SPLIT) is expected


def test_bounds_of_bundles_count_for_numbers_only():
    bundle = SplitAdd("a.split", {}, 1, 1, True, min_values=SPLIT.min_values, max_values=SPLIT.max_values)
    assert not may_match(search("id:9").query, bundle)
    assert may_match(search("level:ERROR").query, bundle)
    assert may_match(search("day:1999-01-01").query, bundle)


def test_a_split_without_the_term_is_left_aside_before_its_index_is_unpacked(lake):
    store, split = lake
    with OpenedSplit(store, PATH) as opened:
        assert not may_match(search("message:zebra AND level:ERROR").query, split, opened.terms)
        assert may_match(search("message:request").query, split, opened.terms)
        assert may_match(search("NOT message:zebra").query, split, opened.terms)
        assert not may_match(search('message:"request zebra"').query, split, opened.terms)


# ---------------------------------------------------------------- tables


def partitioned() -> IndexSnapshot:
    store = MemoryStore()
    table = IndexTransaction.create(
        store, COLUMNS, partition_columns=["day"], configuration={OPTIONS_KEY: json.dumps(OPTIONS)}
    )
    inside = type(COLUMNS)([field for field in COLUMNS.fields if field.name != "day"])
    adds = []
    for number in range(3):
        rows = [row(10 * number + each) for each in range(10)]
        path = f"day=2024-01-0{number + 1}/part.split.parquet"
        adds.append(build(store, rows, path=path, columns=inside).added(path, {"day": f"2024-01-0{number + 1}"}, 1))
    table.commit(adds, "CREATE TABLE")
    return IndexSnapshot.load(store)


@pytest.mark.parametrize(
    ("text", "splits", "rows"),
    [
        ("level:ERROR", 3, [2, 5, 8, 11, 14, 17, 20, 23, 26, 29]),
        ("day:2024-01-02", 1, list(range(10, 20))),
        ("day:>2024-01-01 AND level:ERROR", 2, [11, 14, 17, 20, 23, 26, 29]),
        ("NOT day:2024-01-02 AND level:ERROR", 2, [2, 5, 8, 20, 23, 26, 29]),
        ("day:2024-01-02 OR id:3", 2, [3, *range(10, 20)]),
        ("id:25", 1, [25]),
        ("day:1999-01-01", 0, []),
        ("2024-01-03", 3, list(range(20, 30))),
    ],
)
def test_a_partitioned_table_is_searched_across_its_splits(text, splits, rows):
    snapshot = partitioned()
    asked = Search.of(snapshot, text)
    chosen = splits_to_search(asked, snapshot.files.values())
    assert len(chosen) == splits
    found = []
    for split in chosen:
        with OpenedSplit(snapshot.store, split.path) as opened:
            hits = search_split(snapshot.store, split, asked)
            found += opened.rows(hits.rows, ["id"])["id"].to_pylist()
            assert count_split(snapshot.store, split, asked) == len(hits.rows)
    assert sorted(found) == rows


def test_bundles_are_not_searched_and_the_error_names_what_is_missing():
    with pytest.raises(IncompatibleError, match="tantivySstable"):
        splits_to_search(search("message:x"), [SplitAdd("a.split", {}, 1, 1, True)])


def test_a_damaged_index_is_an_error_and_the_rows_are_still_there(lake):
    store, split = lake
    data = store.get(PATH)
    with OpenedSplit(store, PATH) as opened:
        blob = next(each for each in opened.layout.blobs if each.name.endswith(".idx"))
    broken = MemoryStore()
    place = blob.offset + blob.length // 2
    broken.put(PATH, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(MalformedError, match="checksum") as found:
        search_split(broken, split, search("message:request"))
    assert found.value.condition == "MALFORMED_SPLIT"
    with OpenedSplit(broken, PATH) as opened:
        assert sum(len(batch) for batch in opened.batches(["id"])) == len(ROWS)
    asked = search("message:request AND NOT trace:trace-00000005")
    hits = search_split(broken, split, asked, rebuild=True)
    assert hits.rows.tolist() == search_split(store, split, asked).rows.tolist()
    assert "checksum" in hits.damage
    assert count_split(broken, split, asked, rebuild=True) == len(hits.rows)
    assert search_split(store, split, asked, rebuild=True).damage is None
    skip = skip_of(split, hits.damage, "read", now_ms=7)
    assert (skip.path, skip.size, skip.reason) == (PATH, split.size, hits.damage)


@pytest.mark.parametrize("text", ["level:" + "*a" * 3000, "message:" + "?" * 5000 + "x"])
def test_a_pattern_that_is_too_large_is_refused_and_not_taken_for_damage(text, lake):
    store, split = lake
    with pytest.raises(InputError, match="cannot be asked"):
        search_split(store, split, search(text))


def test_a_phrase_that_may_go_on_in_too_many_ways_is_refused_and_never_cut_short():
    store = MemoryStore()
    rows = [{"id": number, "level": "", "message": f"request x{number}"} for number in range(20_000)]
    columns, options = type(COLUMNS)(COLUMNS.fields[:3]), {"message": {"type": "text"}}
    split = build(store, rows, columns=columns, options=options).added(PATH, {}, 1)
    assert count_split(store, split, search('message:"request x1"*')) == 11_111
    with pytest.raises(InputError, match="expansions"):
        count_split(store, split, search('message:"request x"*'))


def test_a_split_that_was_skipped_rests_and_its_rows_stay():
    snapshot = partitioned()
    path, split = next(iter(snapshot.files.items()))
    skip = skip_of(split, "damaged", "merge", now_ms=100, cooldown_ms=50)
    IndexTransaction(snapshot).commit([skip], "SKIP")
    later = snapshot.newest()
    assert later.files.keys() == snapshot.files.keys()
    assert [len(rested(later, now_ms)) for now_ms in (149, 150)] == [2, 3]
    again = skip_of(split, "damaged", "merge", now_ms=200, known=later.skips)
    assert (again.path, again.skip_count) == (path, 2)
