"""Every error that Halocline raises on purpose.

Three things that other tools blur are kept apart here: what *you gave us* cannot be used, what *lies on disk* is
damaged, and what is *valid but beyond* one of the parties. A fourth, our own bug, says so.

    HaloclineError
    ├── InputError            an argument, a path, a version or a row does not fit
    │   ├── NotFoundError       there is no such table, version, history, product or feature
    │   ├── SchemaError         the columns offered do not fit the table's
    │   └── ConstraintError     rows break a rule of the table; nothing was written
    ├── MalformedError        what was read is damaged or breaks its own specification (a table: exit code 2)
    ├── UnsupportedError      valid, but this release of Halocline does not do it
    │   ├── MissingExtraError   an optional part is not installed
    │   └── MissingVerbError    tables of this format have no such verb
    ├── IncompatibleError     one party lacks a feature that the other requires (exit code 2)
    ├── ConflictError         somebody else changed the same thing first
    │   ├── AlreadyExistsError  the name is taken
    │   └── StaleEpochError     another coordinator has taken over
    ├── NotYetError           time must pass first; the error says until when
    ├── UnavailableError      a service or store could not be reached, or answered too late
    ├── StorageFullError      there is no room for what was to be written
    ├── DeniedError           the caller has no right to do this
    └── InternalError         a bug in Halocline

Each error carries a stable *condition* code for programs, both *sides* of the mismatch and the *next* step for people:

    READER_TOO_OLD: lake/orders requires reader feature deletionVectors.
      table     (3,7)  readerFeatures: deletionVectors
      you are   deltalake@1.0.2, which reads: timestampNtz
    Upgrade to deltalake 1.3.2 or later, or: halocline plan lake/orders --drop deletionVectors
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from halocline.addresses import hidden_in, hide_secrets
from halocline.place_names import with_place_names

CONDITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AGGREGATE_INVALID": "A column cannot be aggregated or grouped in the way that was asked for.",
        "AGGREGATE_OVERFLOW": "A sum is larger than its type can hold.",
        "ALREADY_EXISTS": "The name to be created is taken.",
        "ARGUMENT_INVALID": "An argument or option has a value that cannot be used.",
        "CHANGE_FEED_INCOMPLETE": "The log does not say enough about a change to show its rows.",
        "CHANGE_FEED_OFF": "The change feed was not enabled for the versions asked for.",
        "CHANGE_FEED_SCHEMA_CHANGED": "Columns were dropped or renamed within the range of changes.",
        "CLOCK_SKEW": "The clocks of two parties are too far apart.",
        "COLUMN_NOT_FOUND": "The table has no such column.",
        "COMMIT_INVALID": "The actions offered cannot be one commit.",
        "COMPANION_SOURCE_REPLACED": "Another table lies where the source of a companion index was.",
        "COMPANION_STALE": "A companion index shows another version than its source has.",
        "COMPANION_UNBOUND": "A companion index does not say which table it belongs to.",
        "CONCURRENT_APPEND": "Somebody else added files that this commit should have read.",
        "CONCURRENT_DELETE_DELETE": "Somebody else removed a file that this commit removes as well.",
        "CONCURRENT_DELETE_READ": "Somebody else removed a file that this commit has read.",
        "CONCURRENT_DOMAIN_CHANGE": "Somebody else changed the same domain first.",
        "CONCURRENT_METADATA_CHANGE": "Somebody else changed the table's metadata first.",
        "CONCURRENT_PROTOCOL_CHANGE": "Somebody else changed the table's protocol first.",
        "CONCURRENT_TRANSACTION": "The same application recorded another transaction first.",
        "CONFLICT": "Somebody else changed the same thing first.",
        "CONSTRAINT_VIOLATED": "Rows break a rule of the table; nothing was written.",
        "CREDENTIALS_MISSING": "A store wants credentials and none were found.",
        "DATA_FILES_MISSING": "Files that a version of the table consists of no longer exist.",
        "DENIED": "The caller has no right to do this.",
        "DOWNGRADE_BLOCKED": "A downgrade cannot start or go on as things stand.",
        "DROP_WAIT_FOR_RETENTION": "A feature is out of the table, but its history must grow older before it can go.",
        "FEATURE_DEPENDENCY": "A feature needs, or excludes, another one.",
        "FEATURE_NEEDS_MANUAL_ENABLEMENT": "An existing table gains this feature only when it is asked for by name.",
        "FEATURE_NOT_DROPPABLE": "The feature cannot be taken out of the table as it stands.",
        "FEATURE_UNKNOWN": "No feature of that name is known for this format.",
        "GATE_CLOSED": "The fleet's level does not allow this yet, or no longer.",
        "HELD": "A hold keeps the level from rising.",
        "INCARNATION_ENDED": "This life of the member is over; it must join again.",
        "INCARNATION_REPLAYED": "The member was already here in this life or a later one.",
        "INCOMPATIBLE_VERSION": "One party lacks a feature that the other requires.",
        "INTERNAL_ERROR": "Halocline found itself in a state it should never reach.",
        "LEVEL_BLOCKED": "Something is in the way of the level.",
        "MALFORMED": "Something that was read breaks its own specification.",
        "MALFORMED_DELETION_VECTOR": "A deletion vector is missing, damaged or not what the log says.",
        "MALFORMED_HISTORY": "A history file breaks its own rules.",
        "MALFORMED_KNOWLEDGE": "A knowledge file breaks its own rules.",
        "MALFORMED_LOG": "A table's log is damaged, incomplete or contradicts itself.",
        "MALFORMED_METADATA": "A table's properties or schema break their own specification.",
        "MALFORMED_PROTOCOL": "A protocol's versions and feature lists contradict each other.",
        "MALFORMED_SPLIT": "A split's index is missing, damaged or not what its footer says.",
        "MERGE_AMBIGUOUS": "Several rows of the source of a merge match the same row of the table.",
        "MISSING_EXTRA": "An optional part of Halocline is not installed.",
        "MOVE_UNVERIFIED": "The table would not be the same after it has moved to another table version.",
        "NOT_FOUND": "The thing named does not exist.",
        "PLAN_STALE": "Tables or members have moved since the plan was made.",
        "POINT_OF_NO_RETURN": "The downgrade has gone too far to be cancelled.",
        "PREDICATE_INVALID": "The text is not an SQL condition.",
        "PROPERTY_INVALID": "A table property has a value, or a name, that it cannot have.",
        "PROTOCOL_NOT_DOWNGRADABLE": "The new protocol lacks features of the old one.",
        "PROTOCOL_TOO_LOW": "The protocol's version numbers have no room for the feature.",
        "QUERY_INVALID": "A search query is not understood, or a column cannot answer it.",
        "RANGE_UNSETTLED": "A write that a range of writes would miss is still under way.",
        "READER_TOO_OLD": "The reader lacks a feature that the table requires for reading.",
        "RELEASE_UNKNOWN": "Nothing is known about whether this release may do that.",
        "RETENTION_TOO_SHORT": "Files would be deleted sooner than the table promises.",
        "ROLLOUT_RUNNING": "Somebody else applies a plan to the same lake.",
        "SCHEMA_MISMATCH": "The columns offered do not fit the table's.",
        "SESSION_STOPPED": "The Spark session that the table was opened with has been stopped.",
        "SPARK_TOO_OLD": "The Spark release is older than Halocline needs.",
        "STALE_EPOCH": "Another coordinator has taken over.",
        "STORAGE_FULL": "A disk or a quota has no room left.",
        "STORE_IN_USE": "Another coordinator uses the same store.",
        "STORE_REPLACED": "Another file has taken the place of a coordinator's store.",
        "STORE_TOO_NEW": "A newer release has changed the store in a way that this one does not know.",
        "STREAM_ROWS_REMOVED": "A version takes rows away that a stream has delivered.",
        "STREAM_SCHEMA_CHANGED": "Columns changed under a running stream.",
        "STREAM_START_UNKNOWN": "Nothing says any more where the first micro-batch of a stream began.",
        "STREAM_TABLE_REPLACED": "Another table lies where a stream's table was.",
        "TABLE_APPEND_ONLY": "The table only takes new rows.",
        "TABLE_MOVED": "The table has moved to another table version since.",
        "TABLE_NOT_FOUND": "There is no table at that place.",
        "TOKEN_INVALID": "A token or secret is missing, expired, or was not issued here.",
        "TOO_MANY": "Too many requests at once, or too much in one.",
        "TYPE_CHANGE_UNKNOWN": "A column changed its type in a way that this release does not know.",
        "UNAVAILABLE": "A service or store could not be reached, or answered too late.",
        "UNSUPPORTED": "Valid, but this release of Halocline does not do it.",
        "VACUUM_LITE_IMPOSSIBLE": "The log no longer tells which files were removed since the last vacuum.",
        "VERSION_NOT_FOUND": "The table has no such version, or its log no longer holds it.",
        "VERSION_UNKNOWN": "A version is missing, zero or cannot be read, so nothing can be said about it.",
        "WOULD_BREAK_USERS": "Somebody who uses the table could not do so any more.",
        "WRITER_TOO_OLD": "The writer lacks a feature that the table requires for writing.",
        "WRITE_UNDER_WAY": "A write is under way that must end first.",
    }
)
"""Condition codes and what each means. Codes are never reused or renamed."""


_DAMAGE: Final = frozenset(
    {
        "DATA_FILES_MISSING",
        "MALFORMED_DELETION_VECTOR",
        "MALFORMED_LOG",
        "MALFORMED_METADATA",
        "MALFORMED_PROTOCOL",
        "MALFORMED_SPLIT",
    }
)
"""Conditions that tell of a table that is damaged."""


class HaloclineError(Exception):
    """Base of the tree.

    Args:
        message: One sentence that names what is wrong and with what.
        condition: A code from `CONDITIONS`; each class has a default.
        sides: What each party has or wants, label to text, in the order to show them.
        next_step: The command or change that gets the caller further.
        data: What programs are told besides, and people are not shown.

    Example:
        >>> print(NotFoundError("no table at lake/orders", next_step="halocline inspect lake"))
        NOT_FOUND: no table at lake/orders
        halocline inspect lake
    """

    default_condition: ClassVar[str] = "INTERNAL_ERROR"

    def __init_subclass__(cls, *, condition: str | None = None) -> None:
        cls.default_condition = condition or cls.default_condition

    @property
    def exit_code(self) -> int:
        """What a command ends with that ends with this error: 2 if it found out that something is wrong, 1 if nothing.

        Example:
            >>> MalformedError("torn", condition="MALFORMED_LOG").exit_code, NotFoundError("no table").exit_code
            (2, 1)
        """
        return 2 if isinstance(self, IncompatibleError) or self.condition in _DAMAGE else 1

    def __init__(
        self,
        message: str,
        *,
        condition: str | None = None,
        sides: Mapping[str, str] | None = None,
        next_step: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        # Whatever an error is about, and wherever it is shown, stored or sent: no URL in it has a secret.
        self.message = hide_secrets(message)
        super().__init__(self.message)
        self.condition = condition or self.default_condition
        self.sides = hidden_in(sides or {})
        self.next_step = next_step and hide_secrets(next_step)
        self.data = {name: _without_secrets(value) for name, value in (data or {}).items()}
        if self.condition not in CONDITIONS:
            raise InternalError(f"condition {self.condition} is not registered in halocline.errors.CONDITIONS")

    def __str__(self) -> str:
        lines = [f"{self.condition}: {self.message}"]
        width = max((len(label) for label in self.sides), default=0) + 2
        lines += [f"  {label:<{width}}{text}" for label, text in self.sides.items()]
        if self.next_step:
            lines.append(self.next_step)
        return with_place_names("\n".join(lines))

    def __reduce__(self) -> tuple[Callable[..., HaloclineError], tuple[object, ...]]:
        # Errors cross process borders, and not every class takes the same arguments.
        return _rebuilt, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, object]:
        """The same facts for programs, as printed by `--output json`."""
        return {
            "condition": self.condition,
            "message": self.message,
            "sides": self.sides,
            "next": self.next_step,
            **({"data": self.data} if self.data else {}),
        }


def _without_secrets(value: object) -> object:
    """A value for programs, in which no URL has a secret."""
    match value:
        case str():
            return hide_secrets(value)
        case list() | tuple():
            return type(value)(map(_without_secrets, value))
        case dict():
            return {name: _without_secrets(part) for name, part in value.items()}
        case _:
            return value


def _rebuilt(kind: type[HaloclineError], args: tuple[object, ...], state: Mapping[str, object]) -> HaloclineError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(HaloclineError, condition="ARGUMENT_INVALID"):
    """What the caller gave cannot be used as it is."""

    @classmethod
    def unknown(
        cls, message: str, name: str, known: Iterable[str], *, condition: str | None = None, next_step: str = ""
    ) -> Self:
        """The error for a name that there is not: it asks whether the nearest one is meant, and tells which there are.

        Example:
            >>> print(InputError.unknown("append has no argument 'txm'", "txm", ["txn", "cast"]))
            ARGUMENT_INVALID: append has no argument 'txm'
              given    txm
              nearest  txn
              known    txn, cast
            Did you mean txn?
        """
        names = list(known)
        near = nearest(name, names)
        sides = {"given": name, "nearest": near or "none", "known": shortened(names, 25) or "none"}
        step = f"Did you mean {near}?" if near else next_step or ("Take one of those that are known." if names else "")
        return cls(message, condition=condition, sides=sides, next_step=step)


class NotFoundError(InputError, condition="NOT_FOUND"):
    """There is no such table, version, history, product or feature."""


class SchemaError(InputError, condition="SCHEMA_MISMATCH"):
    """The columns offered do not fit the table's."""


class ConstraintError(InputError, condition="CONSTRAINT_VIOLATED"):
    """Rows break a rule of the table; nothing was written."""


class MalformedError(HaloclineError, condition="MALFORMED"):
    """What was read is damaged or breaks its own specification."""


class UnsupportedError(HaloclineError, condition="UNSUPPORTED"):
    """Valid, but this release of Halocline does not do it."""


class MissingExtraError(UnsupportedError, condition="MISSING_EXTRA"):
    """An optional part is not installed; the message names the extra."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed", next_step=f"pip install 'halocline[{extra}]'")
        self.extra = extra


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Around imports of an optional part: says which extra to install where it is not there.

    Example:
        >>> with needs_extra("the demo", "all"):
        ...     import json
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(what, extra) from error


class MissingVerbError(UnsupportedError, AttributeError):
    """Tables of this format have no such verb; the nearest that they have is named."""


class IncompatibleError(HaloclineError, condition="INCOMPATIBLE_VERSION"):
    """One party lacks a feature that the other requires."""


class ConflictError(HaloclineError, condition="CONFLICT"):
    """Somebody else changed the same thing first."""


class AlreadyExistsError(ConflictError, condition="ALREADY_EXISTS"):
    """The name to be created is taken; nothing was written."""


class StaleEpochError(ConflictError, condition="STALE_EPOCH"):
    """Another coordinator has taken over; nothing was written."""


class NotYetError(HaloclineError, condition="DROP_WAIT_FOR_RETENTION"):
    """Time must pass before this can be done.

    `until_ms` is when to come back, in milliseconds since the epoch; 0 if that is not known.
    """

    def __init__(self, message: str, *, until_ms: int = 0, **told: Any) -> None:
        super().__init__(message, **told)
        self.until_ms = until_ms


class UnavailableError(HaloclineError, condition="UNAVAILABLE"):
    """A service or store could not be reached, or answered too late."""


class StorageFullError(HaloclineError, condition="STORAGE_FULL"):
    """There is no room for what was to be written."""


class DeniedError(HaloclineError, condition="DENIED"):
    """The caller has no right to do this."""


class InternalError(HaloclineError):
    """A bug in Halocline: the message says what was found, please report it."""


def shortened(names: Sequence[str], most: int = 10, total: int | None = None) -> str:
    """Names for a message, and how many more there are, of the total if these are only the first.

    Example:
        >>> shortened(["a", "b", "c"], 2), shortened(["a", "b"], total=7)
        ('a, b and 1 more', 'a, b and 5 more')
    """
    shown = names[:most]
    more = (len(names) if total is None else total) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like another, for messages; empty if none is.

    Example:
        >>> nearest("versionAsOff", ["versionAsOf", "timestampAsOf"])
        'versionAsOf'
    """
    from difflib import get_close_matches

    folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), folded, n=1)
    return folded[found[0]] if found else ""
