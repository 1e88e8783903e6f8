"""Sessions that are there no more are told from those that are, in few words to the JVM."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import PropertyMock, patch

import pytest

from halocline.errors import InputError
from halocline.spark.session.session import check_running


def session(**context: int) -> SimpleNamespace:
    return SimpleNamespace(sparkContext=SimpleNamespace(**context))


def test_a_session_whose_context_answers_is_running():
    assert check_running(session(defaultParallelism=2)) is None


def test_a_session_whose_context_is_gone_is_refused_and_says_what_to_do():
    with pytest.raises(InputError) as refused:
        check_running(session())
    assert refused.value.condition == "SESSION_STOPPED"
    assert "getOrCreate" in refused.value.next_step


@pytest.mark.parametrize("stopped", [True, False])
def test_a_connect_session_knows_by_itself_whether_it_was_stopped(stopped):
    from pyspark.sql.connect.session import SparkSession

    spark = object.__new__(SparkSession)
    with patch.object(SparkSession, "is_stopped", PropertyMock(return_value=stopped)):
        if not stopped:
            assert check_running(spark) is None
            return
        with pytest.raises(InputError, match="has been stopped"):
            check_running(spark)
