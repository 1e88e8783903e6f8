"""Errors of ours that were raised in a Python worker, found again in what Spark raises on the driver.

Spark hands over the text of what ended a task. The class differs between classic sessions and Connect, the text does
not. A DataFrame that was handed out is run by its owner, who meets Spark's error as it is.
"""

from __future__ import annotations

import re
from typing import Any, Final

from halocline import errors
from halocline.errors import HaloclineError

_RAISED: Final = re.compile(r"halocline\.errors\.(?P<kind>\w+): (?P<condition>[A-Z_]+): (?P<message>[^\n]*)")


def raised_by_worker(error: BaseException) -> HaloclineError | None:
    """The error of ours that ended a task; None if it was another.

    Example:
        >>> text = "halocline.errors.ConstraintError: CONSTRAINT_VIOLATED: 1 of 2 rows have no record key"
        >>> type(raised_by_worker(RuntimeError(text))).__name__
        'ConstraintError'
    """
    found = _RAISED.search(str(error))
    kind: Any = None if found is None else getattr(errors, found["kind"], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, HaloclineError)):
        return None
    raised: HaloclineError = kind(found["message"], condition=found["condition"])
    return raised
