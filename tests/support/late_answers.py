"""A store whose answers are lost, though what was asked is carried out in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from halocline.errors import UnavailableError
from halocline.storage.local import LocalStore


class LateAnswers:
    """Local stores that do not answer to some puts, and carry the last of them out when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[str], bool]) -> None:
        self._put, self._lost, self._is_lost = LocalStore.put_if_absent, [], is_lost
        monkeypatch.setattr(LocalStore, "put_if_absent", lambda *call: self._answer(*call))
        monkeypatch.setattr("time.sleep", lambda _: None)

    def _answer(self, store: LocalStore, path: str, data: bytes) -> object:
        if not self._is_lost(path):
            return self._put(store, path, data)
        self._lost.append((store, path, data))
        raise UnavailableError("no answer")

    def arrive(self) -> None:
        """Carries out what was asked last."""
        self._put(*self._lost[-1])
