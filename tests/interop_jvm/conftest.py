"""Those to exchange tables with: releases of Apache Hudi and of Delta Spark, each in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop_jvm.delta import SWITCH, Theirs
from tests.interop_jvm.releases import KNOW, Engine, NoEngineError, environment


class Engines:
    """The releases, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Engine] = {}

    def __getitem__(self, release: str) -> Engine:
        if release not in self._made:
            self._made[release] = Engine(self._folder, release)
        return self._made[release]

    def of(self, version: int) -> list[Engine]:
        """Those that know a table version."""
        return [self[release] for release in KNOW[version]]

    def close(self) -> None:
        for each in self._made.values():
            each.close()


@pytest.fixture(scope="session")
def engines():
    """Releases of Apache Hudi; a test that needs one is skipped before it does anything where there is none."""
    try:
        releases = Engines(environment())
    except NoEngineError as error:
        pytest.skip(str(error))
    yield releases
    releases.close()


@pytest.fixture(scope="session")
def delta():
    """Delta Spark, in one session for all tests."""
    if not os.environ.get(SWITCH):
        pytest.skip(f"{SWITCH} is not set; run make interop-jvm")
    engine = Theirs()
    yield engine
    engine.close()
