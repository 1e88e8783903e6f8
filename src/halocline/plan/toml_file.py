"""Files that people write for rollouts: TOML, of which every key must be known."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from halocline.errors import InputError, NotFoundError


def read_toml(path: str | Path, known: Sequence[str]) -> Mapping[str, Any]:
    """What a file says, if it says only what is known.

    Raises:
        NotFoundError: There is no such file.
        InputError: It is not TOML, or has a key that means nothing.
    """
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}", next_step="See docs/rollouts.md for an example.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    return only(raw, known, str(path))


def only(given: Any, known: Sequence[str], where: str) -> Mapping[str, Any]:
    """Names and values, if the names are known; else the nearest is named.

    Example:
        >>> only({"reeds": []}, ["reads", "writes"], "members[0]")
        Traceback (most recent call last):
        ...
        halocline.errors.InputError: ARGUMENT_INVALID: members[0] has no place for reeds
          given    reeds
          nearest  reads
          known    reads, writes
        Did you mean reads?
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is no table of names and values", sides={"known": ", ".join(known)})
    for key in given:
        if key not in known:
            raise InputError.unknown(f"{where} has no place for {key}", key, known)
    return given


def records(raw: Mapping[str, Any], key: str, known: Sequence[str], where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The parts of a file that stand under `[[key]]`, each with where it stands."""
    found = raw.get(key, [])
    if not isinstance(found, list):
        raise unusable(f"{key} of {where}", found, f"[[{key}]], once for each")
    places = [f"{key}[{at}] of {where}" for at in range(len(found))]
    return [(place, only(each, known, place)) for place, each in zip(places, found, strict=True)]


def texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise unusable(where, value, "a list of texts")
    return tuple(value)


def unusable(where: str, value: object, expected: str) -> InputError:
    """The error about a value that means nothing there."""
    return InputError(f"{where} cannot be used", sides={"given": f"{value!r:.80}", "expected": expected})
