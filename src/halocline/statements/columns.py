"""Columns as a statement declares them: name, type, and what the table does when rows come without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from halocline.schema import Field
from halocline.statements.text import Reader
from halocline.table.delta.new_table import Identity, column

_AFTER_A_TYPE: Final = ("NOT", "NULL", "COMMENT", "DEFAULT", "GENERATED", "CONSTRAINT", "CHECK", "PRIMARY", "FOREIGN")
_SAID: Final = frozenset({"NULL", "COMMENT", "DEFAULT", "GENERATED"})
_STOPS: Final = (*_AFTER_A_TYPE, "COLLATE", "MASK", "REFERENCES", "UNIQUE", "FIRST", "AFTER", ",")


@dataclass(frozen=True)
class SqlColumn:
    """A column as a statement declares it."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated: str | None = None
    identity: Identity | None = None

    @property
    def field(self) -> Field:
        """The column of a table."""
        declared: dict[str, Any] = {name: getattr(self, name) for name in ("default", "generated", "identity")}
        return column(self.name, self.type, nullable=self.nullable, comment=self.comment, **declared)


def take_column(reader: Reader) -> SqlColumn:
    """Takes `name type [NOT NULL] [COMMENT …] [DEFAULT …] [GENERATED …]`."""
    name = reader.identifier()
    return take_constraints(reader, SqlColumn(name, take_type(reader)))


def take_type(reader: Reader) -> str:
    """Takes a type, in which `<` and `>` are brackets."""
    start, depth = reader.at, 0
    while not reader.is_done:
        word = reader.word()
        if not depth and (word in (*_STOPS, ")") or (reader.at > start and not word)):
            break
        depth += word.count("<") + word.count("(") - word.count(">") - word.count(")")
        reader.at += 1
    if reader.at == start:
        reader.refuse("a type was expected")
    return reader.slice(start)


def take_constraints(reader: Reader, found: SqlColumn) -> SqlColumn:
    """Takes what is said of a column behind its type, each thing once."""
    given: set[str] = set()
    while (word := "NULL" if reader.starts("NOT", "NULL") else reader.word()) in _SAID:
        if word in given:
            reader.refuse(f"{word} is given twice")
        given.add(word)
        if reader.accept("NOT", "NULL"):
            found = replace(found, nullable=False)
        elif reader.accept("COMMENT"):
            found = replace(found, comment=reader.string())
        elif reader.accept("DEFAULT", "NULL"):
            found = replace(found, default="NULL")
        elif reader.accept("DEFAULT"):
            found = replace(found, default=reader.until(*_STOPS))
        elif reader.accept("GENERATED"):
            found = _generated(reader, found)
        else:
            reader.expect("NULL")
    if reader.starts("PRIMARY") or reader.starts("UNIQUE") or reader.starts("REFERENCES"):
        reader.refuse("tables keep no keys: NOT NULL and CHECK are what they hold rows to")
    return found


def _generated(reader: Reader, found: SqlColumn) -> SqlColumn:
    always = reader.accept("ALWAYS")
    if not always:
        reader.expect("BY", "DEFAULT")
    reader.expect("AS")
    if reader.accept("IDENTITY"):
        start: int | None = None
        step: int | None = None
        if reader.accept("("):
            while reader.word() != ")":
                if start is None and reader.accept("START", "WITH"):
                    start = reader.whole_number()
                elif step is None and reader.accept("INCREMENT", "BY"):
                    step = reader.whole_number()
                else:
                    reader.refuse("START WITH or INCREMENT BY was expected")
                reader.accept(",")
            reader.expect(")")
        sequence = Identity(1 if start is None else start, 1 if step is None else step, always)
        return replace(found, identity=sequence)
    if not always:
        reader.refuse("a value by default that is no identity is written DEFAULT")
    reader.expect("(")
    text = reader.until()
    reader.expect(")")
    return replace(found, generated=text)
