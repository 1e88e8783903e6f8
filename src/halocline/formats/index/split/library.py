"""Tantivy, the library that indexes are built and searched with: whether it is there, and what it raises.

A panic inside the library arrives as a `BaseException` that is no `Exception`; on damaged bytes it means damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halocline.errors import MalformedError, MissingExtraError

if TYPE_CHECKING:
    from types import ModuleType


def library() -> ModuleType:
    """Tantivy.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import tantivy
    except ImportError:
        raise MissingExtraError("Tantivy, which indexes are built and searched with,", "index") from None
    return tantivy


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Turns what the library raises on damaged bytes into the error for damage.

    Raises:
        MalformedError: It raised something.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        raise damaged(name, str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(name, f"the library panicked: {error}") from error


def damaged(name: str, problem: Any) -> MalformedError:
    """The error for a split whose index cannot be used."""
    return MalformedError(
        f"{name} has an index that cannot be used: {str(problem)[:300]}",
        condition="MALFORMED_SPLIT",
        sides={"split": name},
        next_step="Its rows can still be read. Build the index anew from them, or restore the file from a backup.",
    )
