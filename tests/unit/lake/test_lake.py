"""Tables by name."""

import pytest
from tests.support.fleets import make_table

import halocline as hc
from halocline import Lake
from halocline.errors import InputError, NotFoundError
from halocline.lake.names import name_of, parts_of


@pytest.fixture
def folder(tmp_path):
    for name in ("sales/orders", "sales/items", "v1.2/x y"):
        make_table(tmp_path / name)
    return tmp_path


def test_folders_below_the_prefix_make_names(folder):
    lake = Lake.discover(folder)
    assert lake.names == ["`v1.2`.x y", "sales.items", "sales.orders"]
    assert len(lake) == 3
    assert "sales.orders" in lake
    assert "sales.order" not in lake
    assert [each.formats for each in lake] == [("delta",)] * 3


@pytest.mark.parametrize("name", ["sales.orders", "SALES.Orders", "`sales`.orders"])
def test_a_table_is_opened_by_its_name_whatever_its_case(folder, name):
    assert Lake.discover(folder).table(name).url.endswith("sales/orders")


def test_names_that_differ_in_case_alone_are_told_apart_and_never_guessed(folder):
    make_table(folder / "sales" / "ORDERS")
    lake = Lake.discover(folder)
    assert lake.table("sales.ORDERS").url.endswith("ORDERS")
    with pytest.raises(NotFoundError) as told:
        lake.table("sales.Orders")
    assert told.value.sides["nearest"] == "sales.ORDERS, sales.orders"


def test_a_name_that_no_table_has_is_answered_with_the_nearest(folder):
    with pytest.raises(NotFoundError) as told:
        Lake.discover(folder).table("sales.order")
    assert (told.value.condition, told.value.sides["nearest"]) == ("TABLE_NOT_FOUND", "sales.orders")


def test_a_table_that_has_come_since_is_found_by_its_name(folder):
    lake = Lake.discover(folder)
    make_table(folder / "new" / "one")
    assert lake.table("new.one").version == 0
    assert "new.one" in lake.names


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "`a", "a`b", "``"])
def test_what_is_no_name_is_refused(folder, text):
    with pytest.raises(InputError):
        Lake.discover(folder).table(text)


@pytest.mark.parametrize("parts", [("a",), ("a.b", "c"), ("`", "x`.y"), ("with space", "ü")])
def test_a_name_leads_back_to_its_parts(parts):
    assert parts_of(name_of(parts)) == parts


def test_a_name_cannot_lead_out_of_the_lake(folder):
    lake = Lake.discover(folder / "sales")
    with pytest.raises(InputError):
        lake.place_for("`..`.sales.orders")


def test_a_search_with_a_limit_says_where_to_go_on(folder):
    first = Lake.discover(folder, limit=2)
    assert (first.names, first.after) == (["sales.items", "sales.orders"], "sales.orders")
    rest = Lake.discover(folder, after=first.after)
    assert (rest.names, rest.after) == (["`v1.2`.x y"], None)


def test_a_folder_that_does_not_exist_is_not_an_empty_lake(tmp_path):
    with pytest.raises(NotFoundError):
        Lake.discover(tmp_path / "lkae")


def test_an_argument_that_does_not_exist_is_refused_with_the_nearest(folder):
    with pytest.raises(InputError) as told:
        Lake.discover(folder, afer="x")
    assert told.value.sides["nearest"] == "after"


def test_a_release_and_options_hold_for_every_table(folder):
    lake = Lake.discover(folder, release="deltalake@1.0.2")
    assert str(lake.table("sales.orders").opened.release) == "deltalake@1.0.2"


# ---------------------------------------------------------------------- lake.toml


def written(folder, text):
    path = folder / "lake.toml"
    path.write_text(text)
    return path


def test_a_file_names_tables_relative_to_itself(folder):
    lake = Lake.read(written(folder, "[tables]\nsales.orders = 'sales/orders'\n'a.b' = 'v1.2/x y'"))
    assert lake.names == ["a.b", "sales.orders"]
    assert lake.table("a.b").version == 0


def test_a_file_with_a_prefix_has_both_and_its_own_names_stand(folder):
    lake = Lake.open(written(folder, "prefix = '.'\n[tables]\norders = 'sales/orders'"))
    assert lake.names == ["`v1.2`.x y", "orders", "sales.items"]


def test_a_name_for_two_tables_is_refused(folder):
    path = written(folder, "prefix = '.'\n[tables]\nsales.items = 'sales/orders'")
    with pytest.raises(InputError, match="calls another table"):
        Lake.read(path)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("prefx = '.'", "prefix"),
        ("[table]\na = 'b'", "tables"),
        ("[[clients]]\nname='x'\nrelease='trino@426'\nread=['*']", "reads"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(folder, text, near):
    with pytest.raises(InputError) as told:
        Lake.read(written(folder, text))
    assert told.value.sides["nearest"] == near


@pytest.mark.parametrize(
    "text",
    [
        "tables = 3",
        "[tables]\na = 3",
        "[tables]\na = ''",
        "prefix = ['x']",
        "[options]\nregion = 3",
        "clients = 'x'",
        "[[clients]]\nname='x'",
        "[[clients]]\nname='x'\nrelease='trino@426'",
        "[[clients]]\nname='x'\nrelease=''\nreads=['*']",
        "[[clients]]\nname='x'\nrelease='trino@426'\nreads='*'",
        "not toml",
        "[options]\nregoin = 'x'\n[tables]\na = 'b'",
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(folder, text):
    with pytest.raises(InputError):
        Lake.read(written(folder, text))


def test_clients_are_declared_for_the_tables_that_their_patterns_name(folder):
    text = (
        "prefix = '.'\n[[clients]]\nname='report'\nrelease='powerbi@2.131'\nreads=['sales.*']\nwrites=['sales.items']"
    )
    lake = Lake.read(written(folder, text))
    (client,) = lake.declared("sales.items")
    assert (str(client.release), client.operations, client.known_from) == (
        "powerbi@2.131",
        ("read", "write"),
        "declared",
    )
    assert [each.operations for each in lake.declared("sales.orders")] == [("read",)]
    assert lake.declared("`v1.2`.x y") == ()


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(NotFoundError):
        Lake.read(tmp_path / "lake.toml")


def test_a_lake_is_among_the_names_at_the_root():
    assert hc.Lake is Lake


def test_file_is_told_apart_from_a_folder_that_is_not_there(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(NotFoundError, match="is a file") as refused:
        Lake.discover(tmp_path / "rows.parquet")
    assert "Give the folder" in refused.value.next_step
    with pytest.raises(NotFoundError, match="there is no folder"):
        Lake.discover(tmp_path / "nothing")
