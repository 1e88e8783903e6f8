"""Analyzers: what cuts text into words.

    text         runs of letters and digits, in lower case
    en_stem      the same, then English endings are cut off
    whitespace   whatever stands between blanks, as it is

All of them drop words of more than 255 bytes; a search for such a word is refused rather than left without an answer.
The library keeps no definitions in an index, so they are registered whenever one is opened; a layout records their
names and `DEFINITIONS`, which changes when what they do does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from halocline.errors import UnsupportedError
from halocline.formats.index.split.library import library

if TYPE_CHECKING:
    import tantivy

ANALYZERS: Final = ("text", "en_stem", "whitespace")
DEFAULT_ANALYZER: Final = "text"
DEFINITIONS: Final = 1
LONGEST_WORD: Final = 255


@cache
def analyzer(name: str, longest: int | None = LONGEST_WORD) -> tantivy.TextAnalyzer:
    """The analyzer of that name, which leaves longer words out, or none.

    Raises:
        UnsupportedError: There is none; a later release may have one.
    """
    if name not in ANALYZERS:
        raise UnsupportedError(
            f"there is no analyzer {name!r} in this release",
            sides={"asked for": name, "known": ", ".join(ANALYZERS)},
            next_step="Upgrade, or index the column with one of these.",
        )
    found = library()
    filters = found.Filter
    source = found.Tokenizer.whitespace() if name == "whitespace" else found.Tokenizer.simple()
    builder = found.TextAnalyzerBuilder(source)
    builder = builder if longest is None else builder.filter(filters.remove_long(longest + 1))
    if name != "whitespace":
        builder = builder.filter(filters.lowercase())
    if name == "en_stem":
        builder = builder.filter(filters.stemmer("english"))
    return builder.build()  # type: ignore[no-any-return]


def words(name: str, text: str, longest: int | None = LONGEST_WORD) -> list[str]:
    """The words that an analyzer makes of a text, without longer ones if there is a limit.

    Example:
        >>> words("text", "Time-out: 3 s")
        ['time', 'out', '3', 's']
    """
    return analyzer(name, longest).analyze(text)


def lowered(text: str) -> str:
    """A text in lower case as analyzers have it: letter by letter, whatever stands beside one.

    Example:
        >>> lowered("ΟΔΟΣ"), "ΟΔΟΣ".lower()
        ('οδοσ', 'οδος')
    """
    return "".join(map(str.lower, text))


def register(index: tantivy.Index, names: Iterable[str]) -> None:
    """Makes the analyzers known to an opened index."""
    for name in set(names):
        index.register_tokenizer(name, analyzer(name))
