"""The journal of a survey: facts, a line for each table, so that a survey that was ended goes on.

The first line says what the survey is about; another survey refuses the file. What was written in the middle of a line
when the process ended is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from halocline.errors import InputError
from halocline.lake.facts import Job, SurveyTarget, TableFacts
from halocline.lake.surveyors import look_at

if TYPE_CHECKING:
    from halocline.lake.lake import LakeEntry


class _Heading(msgspec.Struct, frozen=True):
    """What the facts of a journal are about."""

    lake: str
    target: SurveyTarget


def journaled(
    entries: Sequence[LakeEntry], job: Job, journal: Path | None, place: str, processes: int | None = None
) -> Iterator[TableFacts]:
    """The facts of every table in order, those that a journal has as it has them; new ones are written to it.

    Raises:
        InputError: The journal is about something else, or cannot be written.
    """
    if journal is not None:
        check_writable(journal)
    known = {} if journal is None else _read(journal, _Heading(place, job.target))
    missing = [(each.name, each.url, each.formats) for each in entries if each.url not in known]
    looked = look_at(missing, job, processes=processes)
    if journal is None:
        yield from looked
        return
    with journal.open("ab") as written:
        if written.tell() == 0:
            written.write(msgspec.json.encode(_Heading(place, job.target)) + b"\n")
        for each in entries:
            facts = known.get(each.url)
            if facts is None:
                facts = next(looked)
                written.write(msgspec.json.encode(facts) + b"\n")
                written.flush()
            yield msgspec.structs.replace(facts, name=each.name)


def check_writable(file: Path) -> None:
    """Refuses a place where no file can be written, before the work whose result it is to hold.

    Raises:
        InputError: It is a folder, or lies in none.
    """
    if file.is_dir():
        raise InputError(f"{file} is a folder", sides={"needed": "a file"}, next_step="Name a file in it.")
    if not file.parent.is_dir():
        raise InputError(
            f"{file} cannot be written",
            sides={"needed": f"the folder {file.parent}", "found": "no such folder"},
            next_step="Make the folder, or name another one.",
        )


def _read(journal: Path, heading: _Heading) -> dict[str, TableFacts]:
    if not journal.exists():
        return {}
    first, *rest = journal.read_bytes().splitlines(keepends=True) or [b""]
    try:
        found = msgspec.json.decode(first, type=_Heading)
        # The last line is torn if the survey was ended while it wrote.
        whole = [msgspec.json.decode(line, type=TableFacts) for line in rest if line.endswith(b"\n")]
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{journal} is not the journal of a survey", sides={"found": str(error)}, next_step="Name another file."
        ) from None
    if found != heading:
        raise InputError(
            f"{journal} is the journal of another survey",
            sides={
                "there": f"{found.lake}, {found.target or 'no target'}",
                "asked for": f"{heading.lake}, {heading.target or 'no target'}",
            },
            next_step="Name another file.",
        )
    if rest and not rest[-1].endswith(b"\n"):
        with journal.open("r+b") as torn:
            torn.truncate(sum(map(len, (first, *rest[:-1]))))
    return {each.url: each for each in whole}
