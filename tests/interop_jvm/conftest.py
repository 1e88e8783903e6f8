"""Those to exchange tables with: releases of Apache Hudi and of Delta Spark, each in a process of its own."""

from __future__ import annotations

import pytest

from tests.interop_jvm.delta import Theirs
from tests.interop_jvm.releases import KNOW, Engine, NoEngineError, environment


class Engines:
    """The releases, each started when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Engine] = {}

    def __getitem__(self, release: str) -> Engine:
        if release not in self._made:
            try:
                self._made[release] = Engine(environment(), release)
            except NoEngineError as error:
                pytest.skip(str(error))
        return self._made[release]

    def of(self, version: int) -> list[Engine]:
        """Those that know a table version."""
        return [self[release] for release in KNOW[version]]

    def close(self) -> None:
        for each in self._made.values():
            each.close()


@pytest.fixture(scope="session")
def engines():
    found = Engines()
    yield found
    found.close()


@pytest.fixture(scope="session")
def delta():
    """Delta Spark, in one session for all tests."""
    try:
        found = Theirs()
    except NoEngineError as error:
        pytest.skip(str(error))
    yield found
    found.close()
