"""Addresses: no way to show one shows a secret, and places stay apart."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline.addresses import Address, has_secrets, hide_secrets, unsigned, without_secrets
from halocline.errors import InputError

SECRET = "HUNTER2"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://AKIA:HUNTER2@lake/orders", "s3://lake/orders"),
        ("s3a://AKIA:HUN/TER2+HUNTER2@lake/orders", "s3a://lake/orders"),
        ("s3://AKIA:a@HUNTER2@lake/orders", "s3://lake/orders"),
        ("https://HUNTER2@host/orders", "https://host/orders"),
        ("s3://lake/orders?X-Amz-Signature=HUNTER2", "s3://lake/orders"),
        ("https://host/orders#access_token=HUNTER2", "https://host/orders"),
        (
            "abfss://lake:HUNTER2@account.dfs.core.windows.net/t?sig=HUNTER2",
            "abfss://lake@account.dfs.core.windows.net/t",
        ),
        ("postgresql://fleet:HUNTER2@db:5432/fleet", "postgresql://fleet@db:5432/fleet"),
        ("postgresql://fleet@db/fleet?sslmode=require&password=HUNTER2", "postgresql://fleet@db/fleet?sslmode=require"),
        ("postgresql+psycopg://db:HUNTER2/fleet", "postgresql+psycopg://db/fleet"),
        ("jdbc:postgresql://db/fleet?user=fleet&password=HUNTER2", "jdbc:postgresql://db/fleet"),
    ],
)
def test_an_address_with_a_secret_shows_the_place_alone(address, shown):
    assert without_secrets(address) == shown
    assert has_secrets(address)
    parsed = Address.parse(address)
    assert SECRET not in f"{parsed} {parsed!r} {parsed!s} {[parsed]} {(parsed,)}"
    assert parsed.with_secrets() == address
    assert pickle.loads(pickle.dumps(parsed)).with_secrets() == address
    assert parsed == Address.parse(shown)
    assert without_secrets(shown) == shown
    assert SECRET not in str(
        InputError(f"cannot open {address}, {address!r}", sides={"given": address}, next_step=address)
    )


@pytest.mark.parametrize(
    "address",
    [
        "s3://lake/orders",
        "s3://lake/what?/why",
        "s3://lake/a@b/c#1",
        "abfss://lake@account.dfs.core.windows.net/t",
        "grpc://a.example:7470,b.example:7470",
        "grpcs://[::1]:7470",
        "postgresql://fleet@db/fleet",
        "file:///lake/a@b:c/d#x=1",
        "lake/orders?sig=1",
        "trino@426",
    ],
)
def test_an_address_without_a_secret_stays_as_it_is(address):
    assert without_secrets(address) == address
    assert hide_secrets(f"there is {address} twice: {address}.") == f"there is {address} twice: {address}."


def test_a_signature_that_was_escaped_into_a_name_is_no_part_of_a_place_that_a_fleet_knows():
    assert unsigned("s3://lake/orders%3Fsv=1&sig=HUNTER2") == "s3://lake/orders"
    assert unsigned("s3://lake/orders%3Fpart=1") == "s3://lake/orders%3Fpart=1"


def test_a_text_says_where_a_query_was():
    assert (
        hide_secrets("no (s3://K:HUNTER2@lake/t?sig=HUNTER2), as s3://lake/u") == "no (s3://lake/t?…), as s3://lake/u"
    )


def test_an_error_for_programs_has_no_secrets_at_any_depth():
    error = InputError("no", data={"tables": [{"url": "s3://K:HUNTER2@lake/t"}], "one": ("s3://K:HUNTER2@lake/t",)})
    assert error.to_dict()["data"] == {"tables": [{"url": "s3://lake/t"}], "one": ("s3://lake/t",)}


PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'`<>|{}@/?#\\"), min_size=1)


@given(PLAIN, PLAIN, st.sampled_from(["s3", "https", "postgresql", "abfss", "jdbc:mysql"]))
def test_no_password_of_a_url_is_seen(user, password, scheme):
    shown = without_secrets(f"{scheme}://{user}:<{password}>@host/place")
    assert f"<{password}>" not in shown
    assert shown.endswith("host/place")


def test_a_url_within_a_url_shows_no_secret_either():
    assert without_secrets("https://proxy/s3://AKIA:HUNTER2@lake/t") == "https://proxy/s3://lake/t"
