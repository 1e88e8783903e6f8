"""The options of the data source: each door knows its own, and what none knows is refused with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.errors import HaloclineError, InputError
from halocline.source.options import Door, SourceOptions, documented, names_for

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("versionAsOff", "versionAsOf"),
        ("replaceWher", "replaceWhere"),
        ("mergeschemas", "mergeSchema"),
        ("aws_regoin", "aws_region"),
        ("readChangeData", "readChangeFeed"),
    ],
)
def test_a_name_that_no_door_knows_is_refused_with_the_nearest_one(name, near):
    with pytest.raises(InputError, match="there is no option") as refused:
        SourceOptions.read({"path": "lake", name.lower(): "0"})
    assert refused.value.sides["nearest"] == near


@pytest.mark.parametrize("name", ["compression", "inferSchema", "recursiveFileLookup", "optimizeWrite"])
def test_what_people_know_from_elsewhere_gets_a_clear_word(name):
    with pytest.raises(InputError, match=f"{name} does nothing here") as refused:
        SourceOptions.read({"path": "lake", name.lower(): "true"})
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("name", "value", "door"),
    [
        ("replaceWhere", "id = 1", Door.READ),
        ("mergeSchema", "true", Door.READ),
        ("versionAsOf", "3", Door.WRITE),
        ("maxFilesPerTrigger", "3", Door.READ),
        ("replaceWhere", "id = 1", Door.STREAM_WRITE),
        ("txnVersion", "1", Door.STREAM_WRITE),
        ("versionAsOf", "1", Door.STREAM_READ),
    ],
)
def test_an_option_of_another_door_is_refused(name, value, door):
    asked = SourceOptions.read({"path": "lake", name.lower(): value})
    with pytest.raises(InputError, match=f"{name} is an option for .*, not for {door}"):
        asked.through(door)


def test_an_option_of_the_door_passes():
    asked = SourceOptions.read({"path": "lake", "replacewhere": "id = 1", "aws_region": "eu"})
    assert asked.through(Door.WRITE).replace_where == "id = 1"
    assert asked.store_options == {"aws_region": "eu"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("versionAsOf", "-1"),
        ("timestampAsOf", "yesterday"),
        ("startingVersion", "first"),
        ("timeZone", "Mars/Olympus"),
        ("maxFilesPerTrigger", "0"),
        ("partitionOverwriteMode", "some"),
        ("dataChange", "maybe"),
        ("replaceWhere", " "),
        ("replaceWhere", "day = '${my.day}'"),
        ("beginInstant", ""),
        ("endInstant", " "),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_does(name, value):
    with pytest.raises(InputError, match=f"option {name} cannot be") as refused:
        SourceOptions.read({"path": "lake", name.lower(): value})
    assert refused.value.sides["expected"]


@pytest.mark.parametrize("range", ["beginInstant", "endInstant"])
def test_a_range_of_instants_leaves_no_choice_of_query(range):
    with pytest.raises(InputError, match="give query or beginInstant, not both"):
        SourceOptions.read({"path": "lake", "query": "read_optimized", range: "20240101000000000"})


@pytest.mark.parametrize("wanted", ["replaceWhere", "partitionOverwriteMode", "mergeSchema", "overwriteSchema"])
def test_what_delta_writers_know_is_known(wanted):
    assert wanted in names_for([Door.WRITE])


@pytest.mark.parametrize(
    ("page", "mark", "doors"),
    [
        ("spark.md", "options for reading", (Door.READ,)),
        ("spark.md", "options for writing", (Door.WRITE,)),
        ("streaming.md", "options for reading a stream", (Door.STREAM_READ,)),
        ("streaming.md", "options for writing a stream", (Door.STREAM_WRITE,)),
    ],
)
def test_the_documentation_is_made_from_the_declarations(page, mark, doors):
    text = (DOCS / page).read_text()
    shown = text.partition(f"<!-- {mark} -->\n")[2].partition(f"\n<!-- /{mark} -->")[0]
    assert shown == documented(*doors), f"paste what halocline.source.options.documented({doors[0]!r}) returns"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"startingVersion": "0"}, "startingVersion"),
        ({"endingVersion": "0"}, "endingVersion"),
        ({"startingTimestamp": "2026-01-01"}, "startingTimestamp"),
        ({"endingTimestamp": "2026-01-01"}, "endingTimestamp"),
        ({"readChangeFeed": "true", "versionAsOf": "0"}, "versionAsOf"),
        ({"readChangeFeed": "true", "timestampAsOf": "2026-01-01"}, "timestampAsOf"),
        ({"readChangeFeed": "true", "startingVersion": "latest"}, "a stream"),
    ],
)
def test_batch_of_rows_and_batch_of_changes_refuse_each_others_options(given, name):
    with pytest.raises(InputError, match=name):
        SourceOptions.read({"path": "lake/orders", **given}).through(Door.READ).of_rows_or_changes()


@pytest.mark.parametrize("given", [{}, {"checkpointLocation": "c"}, {"owner": "me", "location": "lake/orders"}])
def test_table_of_sparks_catalog_is_answered_with_what_to_use_instead(given):
    with pytest.raises(HaloclineError, match="Spark's catalog") as refused:
        SourceOptions.read(given)
    for word in ("lake.sql", "Table.create", "register_views", "CREATE TEMPORARY VIEW", "DROP TABLE"):
        assert word in refused.value.next_step
