"""What a table's protocol must be for a commit, and how it gets there.

`needed_by` is the least protocol for some actions. A commit that needs more than the table has raises the protocol by
exactly that: numbers and lists only grow, and what the table had stays. A table without a protocol action is (1,1), and
its first commit records one. Whether a table is raised at all is the caller's to say: with `auto_upgrade` off, a commit
that needs more is refused before anything is written.

The gate is that of the log engine. A refusal tells both sides in full, and what may still be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from halocline.compat.answer import in_one_line
from halocline.compat.product import is_number
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict, can
from halocline.errors import IncompatibleError
from halocline.formats.index.log.actions import IndexAction, SplitAdd, SplitSkip
from halocline.formats.log.gate import UNCHECKED, check_access

LEGACY: Final = Protocol.index(1, 1)
"""What a table without a protocol action requires."""

OWN_FEATURES: Final = ("parquetSplit", "tantivyFst7")
OWN: Final = Protocol.index(5, 5, OWN_FEATURES, OWN_FEATURES)
"""What a table with our own splits requires: a number that others refuse, and the names in both sets."""

AVRO_STATE: Final = "avroState"


def needed_by(actions: Iterable[IndexAction]) -> Protocol:
    """The least protocol under which these actions may be in a table.

    Example:
        >>> print(needed_by([SplitSkip("a.split", 0, "the footer is damaged", "merge")]))
        index(2,2)
        >>> print(needed_by([SplitAdd("a.split", {}, 9, 0, True)]))
        index(1,1)
    """
    needed = LEGACY
    for action in actions:
        if isinstance(action, SplitAdd) and action.is_own:
            needed = needed.merged(OWN)
        for name in _features_of(action):
            if not needed.supports(name):
                needed = needed.merged(Protocol.of("index", [name]))
    return needed


def raised(current: Protocol, actions: Iterable[IndexAction], *, auto_upgrade: bool, table: str) -> Protocol:
    """The protocol of the table once the actions are in it.

    Raises:
        IncompatibleError: The table would have to be raised, and may not be.

    Example:
        >>> skip = SplitSkip("a.split", 0, "the footer is damaged", "merge")
        >>> print(raised(LEGACY, [skip], auto_upgrade=True, table="lake/logs"))
        index(2,2)
    """
    needed = needed_by(actions)
    after = current.merged(needed)
    if after != current and not auto_upgrade:
        raise IncompatibleError(
            f"the commit needs a higher protocol than {table} has, and upgrades are off",
            condition="PROTOCOL_TOO_LOW",
            sides={"table": str(current), "commit needs": str(needed)},
            next_step="Switch protocol.autoUpgrade on, once everybody who uses the table can follow.",
        )
    return after


def terms_of(protocol: Protocol, *, has_avro_state: bool) -> Terms:
    """The terms of a table: what it lists is in use, and of what its numbers imply, what its log shows."""
    return Terms(protocol, protocol.listed | ({AVRO_STATE} if has_avro_state else frozenset()))


def check_use(release: Release, terms: Terms, operation: str, table: str) -> None:
    """Returns if the release may do the operation to a table with these terms.

    Raises:
        IncompatibleError: It may not. The error names both sides' numbers, what is missing, and what is still possible.
    """
    verdict = None if release == UNCHECKED else can(release, terms, operation)
    if verdict is None or not verdict.refused:
        check_access(release, terms, operation, table)
        return
    raise _refusal(verdict, table)


def _features_of(action: IndexAction) -> Iterator[str]:
    match action:
        case SplitSkip():
            yield "skippedFiles"
        case SplitAdd():
            if action.has_footer_offsets or action.footer_start_offset is not None:
                yield "footerOffsets"
            if action.doc_mapping_json is not None or action.num_merge_ops is not None:
                yield "extendedMetadata"
            if action.doc_mapping_ref is not None:
                yield "schemaDeduplication"
            if action.deletion_mask is not None:
                yield "deletionMasks"


def _refusal(verdict: Verdict, table: str) -> IncompatibleError:
    protocol, writes = verdict.protocol, verdict.operation.startswith("write")
    numbers = {side: _highest(verdict, side) for side in ("reader", "writer")}
    missing = sorted(name for name in verdict.blockers if not is_number(name))
    sides = {
        "this table requires": f"minReaderVersion = {protocol.reader}, minWriterVersion = {protocol.writer}",
        "your release supports": ", ".join(f"{side}Version = {number}" for side, number in numbers.items()),
        "you are": str(verdict.release),
    }
    if protocol.listed:
        sides["its features"] = ", ".join(sorted(protocol.listed))
    if missing:
        sides["you lack"] = ", ".join(missing)
    if because := [each for each in verdict.reasons if ": " in each.text]:
        sides["because"] = in_one_line(because)
    step = f"Upgrade {verdict.release.product}. See who could: halocline matrix --protocol '{protocol}'"
    if writes and can(verdict.release, verdict.terms, "read").ok:
        sides["still possible"] = "reading it"
        step = "Write with the product that the table belongs to, or write its rows into a new table."
    step = verdict.fix.sentence(table) if verdict.fix else step
    return IncompatibleError(
        f"{table} requires a newer version of {verdict.release.product} to be {'written' if writes else 'read'}"
        if not missing
        else f"{table} requires {'writer' if writes else 'reader'} features {', '.join(missing)}",
        condition="WRITER_TOO_OLD" if writes else "READER_TOO_OLD",
        sides=sides,
        next_step=step,
    )


def _highest(verdict: Verdict, side: str) -> int:
    """The highest number of a side that the release accepts for writing, which covers reading."""
    provided = can(verdict.release, Terms(LEGACY), "write").provided
    return max((int(token.split()[1]) for token in provided if token.startswith(f"{side} ")), default=0)
