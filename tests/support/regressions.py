"""What to paste so that a failure found by chance is tried for ever.

Hypothesis notes the smallest failing case on the error. Most are calls with plain values: those become an
`@example(...)`. A value drawn in the middle of a test has no spelling as an argument: there the decorator that repeats
the draws stands in, until the case is written out by hand. A state machine notes a program, which is pasted whole.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

_CASE = re.compile(r"\s*(?:Falsifying example|Failing test case): (.*)", re.DOTALL)
_DRAWS = re.compile(r"@reproduce_failure\([^)]*\)")
_LATER = "data(...)"


def regression(error: BaseException, fixtures: Collection[str] = ()) -> str | None:
    """The text to paste for the error of a property test; None where the error has no example with it.

    Examples:
        >>> error = ValueError("too small")
        >>> error.add_note("Failing test case: test_size(\\n    size=0,  # or any other\\n    name='a',\\n)")
        >>> print(regression(error))
        @example(size=0, name='a')
    """
    texts = [text for each in _errors(error) if (text := _pasted(getattr(each, "__notes__", ()), fixtures))]
    return "\n".join(dict.fromkeys(texts)) or None


def _errors(error: BaseException) -> Iterator[BaseException]:
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _errors(each)


def _pasted(notes: Sequence[str], fixtures: Collection[str]) -> str | None:
    at = next((at for at, note in enumerate(notes) if _CASE.match(note)), None)
    if at is None:
        return None
    match = _CASE.match(notes[at])
    assert match is not None
    draws = next((found[0] for note in notes if (found := _DRAWS.search(note))), None)
    if match[1].startswith("<state machine>"):
        return _program(notes[at + 1 :], draws)
    return _example(match[1], fixtures) or draws or match[1]


def _example(call: str, fixtures: Collection[str]) -> str | None:
    """The decorator for a call as it is printed; None where one of its values cannot be spelt."""
    try:
        parsed = ast.parse(call.strip(), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(parsed, ast.Call) or parsed.args:
        return None
    values = [ast.unparse(each) for each in parsed.keywords if each.arg not in fixtures]
    return None if any(_LATER in value for value in values) else f"@example({', '.join(values)})"


def _program(notes: Sequence[str], draws: str | None) -> str:
    steps = [note for note in notes if not _DRAWS.search(note) and not note.startswith("Draw ")]
    program = "\n".join(["def test_regression():", *(f"    {line}" for step in steps for line in step.splitlines())])
    return f"{program}\n# or, on the machine's TestCase: {draws}" if _LATER in program and draws else program
