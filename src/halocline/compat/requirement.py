"""What a protocol requires of a party, as tokens.

A *token* is a version number in words (`reader 3`, `writer 7`, `table version 8`) or a feature's name. Numbers and
listed names are required whatever the table does, because clients compare them before they look at anything else. A
feature that a number only implies is required if it is in use.

When nobody says what is in use, a feature that the reader number stands for counts as used (columnMapping at reader
2: a reader that knows the number but not the feature returns wrong rows). Features that numbers imply for writers do
not: every client that knows the number handles or refuses them. In formats where the number is all that clients look
at, it alone is required.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from halocline.compat.features import FeatureKind, feature, rules
from halocline.compat.normal_form import Form
from halocline.compat.product import checked_operation


@dataclass(frozen=True, slots=True)
class Requirements:
    """The tokens for one operation.

    Args:
        always: Required whatever is in use.
        if_used: Required as well where they are in use.
        unless_told: What is required when nobody says what is in use.
    """

    always: frozenset[str]
    if_used: frozenset[str]
    unless_told: frozenset[str]

    def tokens(self, enabled: frozenset[str] | None) -> frozenset[str]:
        """The tokens, given the features in use."""
        return self.unless_told if enabled is None else self.always | (self.if_used & enabled)


def reading(format: str, form: Form, supported: frozenset[str]) -> Requirements:
    """What a reader must provide."""
    how = rules(format)
    told = form.reader_features
    names = {name for name in supported if feature(format, name).kind is FeatureKind.READER_WRITER}
    left = names - {feature(format, name).name for name in told or ()}
    number = f"{how.level_name} {form.reader}" if how.level_name else f"reader {form.reader}"
    always = frozenset({number, *(told or ())})
    if told is not None and how.lists_replace_numbers:
        # Named for writers but not for readers: clients take it as named for both.
        return Requirements(always | left, frozenset(), always | left)
    return Requirements(always, frozenset(left), always | left if how.lists_replace_numbers else always)


def writing(format: str, form: Form, supported: frozenset[str], implied: frozenset[str]) -> Requirements:
    """What a writer must provide: all that a reader must, and its own."""
    how = rules(format)
    read = reading(format, form, supported)
    own = frozenset(form.writer_features or ())
    if not how.level_name:
        own |= {f"writer {form.writer}"}
    return Requirements(read.always | own, read.if_used | implied, read.unless_told | own)


@lru_cache(maxsize=1024)
def is_write(operation: str) -> bool:
    """True for `write` and everything finer, such as `write.append`; false for `read` and everything finer."""
    return checked_operation(operation).partition(".")[0] == "write"
