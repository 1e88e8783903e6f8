"""What a question about compatibility can be answered with.

An `Answer` is one of four words. `wrong` is the loudest: the party would not be stopped and would silently work with
wrong data. `unknown` never counts as permission. A `Reason` says which feature led to the answer and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """May it? The members stand in order of loudness, quietest first."""

    OK = "ok"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    WRONG = "wrong"

    @property
    def loudness(self) -> int:
        """0 for `ok`, rising to `wrong`."""
        return _LOUDNESS[self]

    @staticmethod
    def loudest(answers: Iterable[Answer]) -> Answer:
        """The answer that decides when several hold at once; `ok` if there are none."""
        return max(answers, key=_LOUDNESS.__getitem__, default=Answer.OK)


_LOUDNESS = {answer: rank for rank, answer in enumerate(Answer)}


@dataclass(frozen=True, slots=True)
class Reason:
    """One feature, what it does to the answer, and a sentence for people.

    Args:
        feature: The feature's name; empty when the reason is about a version as a whole.
        text: What is the matter, as a clause without a full stop.
        answer: The answer this reason alone leads to.
        source: Where the fact comes from, empty if it was computed here.
        kind: One word for programs, such as `missing` or `removed`.
    """

    feature: str
    text: str
    answer: Answer = Answer.REFUSED
    source: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, str]:
        """The same facts for programs."""
        facts = {"feature": self.feature, "answer": str(self.answer), "text": self.text}
        extra = {"kind": self.kind, "source": self.source}
        return facts | {key: value for key, value in extra.items() if value}


def called(token: str) -> str:
    """What a token is called in texts: numbers are those of versions."""
    return token.replace("reader ", "reader version ").replace("writer ", "writer version ")


def in_one_line(reasons: Iterable[Reason]) -> str:
    """All reasons in one line; what holds for several features is said once.

    Example:
        >>> in_one_line(Reason(name, f"no known release reads {name}") for name in ("collations", "geospatial"))
        'no known release reads collations, geospatial'
    """
    names: dict[tuple[str, str], list[str]] = {}
    for each in reasons:
        before, name, after = each.text.partition(called(each.feature)) if each.feature else (each.text, "", "")
        names.setdefault((before, after), []).append(name)
    return "; ".join(before + ", ".join(filter(None, some)) + after for (before, after), some in names.items())
