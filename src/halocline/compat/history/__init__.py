"""Histories: two sides of a wire, feature by feature.

A *history* describes a client and a server that are released on their own. For each feature it says in which server
versions it is *provided*, and in which client versions it is *required*, or *optional*: used if present, with a
fallback. A feature is *removed* from a server whose version is not below the end of what is provided; one that is not
added yet is *missing*, not removed.

From that follow, for one pair, the exact answer (`History.check`), and for one version the *minimum* and the range of
the other side. The minimum is a single number that a handshake can compare. It is a promise only while clients stop
requiring a feature before servers remove it; `History.lint` finds where that does not hold.

Limits: a history knows what its file says. A version before its beginning, one that cannot be read, and 0.0.0 are
`unknown`, which is never ok. A version after the last release is judged by the spans that are still open, with a note.
"""

from halocline.compat.history.core import History
from halocline.compat.history.diff import Diff, HistoryChangeKind
from halocline.compat.history.lifetime import Lifetime
from halocline.compat.history.lint import HistoryRule
from halocline.compat.history.result import HistoryVerdict, Minimum, SideNames, in_words

__all__ = [
    "Diff",
    "History",
    "HistoryChangeKind",
    "HistoryRule",
    "HistoryVerdict",
    "Lifetime",
    "Minimum",
    "SideNames",
    "in_words",
]
