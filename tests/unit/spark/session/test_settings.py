"""Settings: declared once, found in options or the session, refused with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.errors import InputError
from halocline.spark.session import settings
from halocline.spark.session.settings import ScanMode, Settings

DOCS = Path(__file__).parents[4] / "docs" / "settings.md"


class Session:
    """As much of a Spark session as settings need."""

    def __init__(self, **values: str) -> None:
        self.conf = self
        self.getAll = {key.replace("_", "."): value for key, value in values.items()}


def test_defaults_hold_where_nothing_is_set():
    assert Settings.read(spark=Session(spark_sql_shuffle_partitions="7")) == Settings()


def test_options_come_before_the_session():
    session = Session(spark_halocline_scan_mode="arrow", spark_halocline_fleet_name="nightly")
    found = Settings.read({"halocline.scan.mode": "paths", "aws_region": "eu"}, session)
    assert (found.scan_mode, found.fleet_name) == (ScanMode.PATHS, "nightly")


def test_names_are_known_without_regard_to_case():
    assert Settings.read({"halocline.scan.maxbitmapbytes": "100"}).max_bitmap_bytes == 100


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("halocline.scan.mod", "halocline.scan.mode"),
        ("halocline.protocol.checkEnable", "halocline.protocol.checkEnabled"),
        ("halocline.fleat", "halocline.fleet"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name, near):
    with pytest.raises(InputError, match="is not a setting") as refused:
        Settings.read({name: "1"})
    assert refused.value.sides["nearest"] == near


@pytest.mark.parametrize("key", ["spark.halocline.scan.mod", "halocline.scan.mode"])
def test_an_unknown_key_of_the_session_is_refused_with_the_nearest_name(key):
    session = Session()
    session.getAll = {key: "paths"}
    with pytest.raises(InputError, match=key) as refused:
        Settings.read(spark=session)
    assert refused.value.sides["nearest"] == "spark.halocline.scan.mode"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("halocline.protocol.checkEnabled", "perhaps"),
        ("halocline.scan.mode", "fast"),
        ("halocline.scan.maxBitmapBytes", "plenty"),
        ("halocline.fleet.role", "owner"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_does(name, value):
    with pytest.raises(InputError, match=f"{name} cannot be '{value}'") as refused:
        Settings.read({name: value})
    assert refused.value.sides["expected"]


def test_what_was_given_is_read_back():
    given = {
        "halocline.protocol.checkEnabled": "false",
        "halocline.scan.mode": "arrow",
        "halocline.fleet": "grpc://x:1",
    }
    assert Settings.read(given).given() == given
    assert Settings.read(Settings.read(given).given()) == Settings.read(given)


def test_settings_of_a_table_are_in_force_within_a_block_only():
    session = Session(spark_halocline_scan_mode="arrow")
    with Settings(scan_mode=ScanMode.PATHS).in_force():
        assert settings.in_force(session).scan_mode is ScanMode.PATHS
    assert settings.in_force(session).scan_mode is ScanMode.ARROW


def test_the_documentation_is_made_from_the_declarations():
    text = DOCS.read_text()
    shown = text.partition("<!-- settings -->\n")[2].partition("\n<!-- /settings -->")[0]
    assert shown == settings.documented(), "paste what halocline.spark.session.settings.documented() returns"
