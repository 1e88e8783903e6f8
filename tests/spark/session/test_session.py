"""A session is checked once, and left as it was."""

from __future__ import annotations

import pytest

from halocline.errors import UnsupportedError
from halocline.spark.session import session


@pytest.mark.parametrize("version", ["3.5.6", "2.4.0", "unknown"])
def test_spark_before_4_is_refused_with_both_releases(version):
    class Old:
        createDataFrame = read = None

    old = Old()
    old.version = version

    with pytest.raises(UnsupportedError, match="too old") as error:
        session.check_session(old)

    assert error.value.condition == "SPARK_TOO_OLD"
    assert error.value.sides == {"session": f"Spark {version}", "needed": "Spark 4.0.0 or later"}


def test_settings_come_back_also_after_an_error(spark, conf):
    conf("spark.sql.shuffle.partitions", "2")

    def broken() -> None:
        with session.settings(spark, {"spark.sql.shuffle.partitions": "7", "halocline.x": "y"}):
            with session.settings(spark, {"spark.sql.shuffle.partitions": "7"}):
                pass
            assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken()
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("halocline.x", None) is None


def test_tags_are_set_only_inside(spark):
    with session.tagged(spark, "halocline-test"), session.tagged(spark, "halocline-test"):
        assert "halocline-test" in spark.getTags()
        assert spark.range(3).count() == 3

    assert "halocline-test" not in spark.getTags()


def test_things_are_found_out_once_per_session(spark):
    asked = []

    for _ in range(2):
        assert session.remembered(spark, "a test", lambda: asked.append(1) or "answer") == "answer"

    assert asked == [1]
