"""Tables whose rows are changed at random: columns with values to draw from, and what is special about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.interop_jvm.delta_kinds import FEED, MAPPED, TRACKED, VECTORS

VALUES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("0", "1", "-128", "127"),
    "SMALLINT": ("0", "1", "-7", "32767"),
    "INT": ("0", "1", "2", "3", "-5", "7", "2147483647"),
    "BIGINT": ("0", "1", "2", "-3", "40", "900", "5000000000"),
    "STRING": ("''", "'a'", "'b'", "'ab'", "'A'", "'é'", "' a '", "'it''s'", "'a%b'"),
    "BOOLEAN": ("true", "false"),
    "BINARY": ("X''", "X'00FF'", "X'61'"),
    "DOUBLE": ("0.0D", "-0.0D", "'NaN'", "'Infinity'", "'-Infinity'", "1.5D", "-2.25D", "1e300"),
    "FLOAT": ("0.0", "-0.0D", "'NaN'", "'-Infinity'", "1.1", "16777217"),
    "DECIMAL(9,2)": ("0", "1.25", "-1.25", "9999999.99", "12.5"),
    "DECIMAL(18,4)": ("0", "0.0001", "-12345678901234.5678", "7"),
    "DECIMAL(38,10)": ("0", "1234567890123456789012345678.0123456789", "-0.0000000001", "3"),
    "DATE": ("'1500-02-28'", "'1582-10-04'", "'1582-10-15'", "'1970-01-01'", "'2024-02-29'", "'9999-12-31'"),
    "TIMESTAMP": (
        "'1500-02-28 01:02:03.456789'",
        "'1582-10-10 12:00:00'",
        "'1899-12-31 23:59:59.999999'",
        "'1970-01-01 00:00:00'",
        "'2024-03-10 02:30:00.000001'",
        "'9999-12-31 23:59:59.999999'",
    ),
    "TIMESTAMP_NTZ": ("'1500-02-28 01:02:03.456789'", "'1970-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"),
    "CHAR(3)": ("'a'", "'ab'", "'abc'", "'a '", "''"),
    "VARCHAR(4)": ("'a'", "'abcd'", "'a  '", "''"),
    "STRUCT<a: INT, b: STRING>": (
        "named_struct('a', 1, 'b', 'x')",
        "named_struct('a', CAST(NULL AS INT), 'b', 'y')",
        "named_struct('a', CAST(NULL AS INT), 'b', CAST(NULL AS STRING))",
    ),
    "STRUCT<f: DOUBLE, in: STRUCT<at: TIMESTAMP, n: BIGINT>>": (
        "named_struct('f', -0.0D, 'in', named_struct('at', TIMESTAMP'1500-01-01 00:00:00', 'n', 3L))",
        "named_struct('f', double('NaN'), 'in', CAST(NULL AS STRUCT<at: TIMESTAMP, n: BIGINT>))",
    ),
    "ARRAY<INT>": ("array()", "array(1, 2)", "array(CAST(NULL AS INT))", "array(3, NULL, 3)"),
    "ARRAY<STRUCT<x: INT, y: DATE>>": (
        "array(named_struct('x', 1, 'y', DATE'1500-01-01'))",
        "array(named_struct('x', CAST(NULL AS INT), 'y', DATE'2024-01-01'), NULL)",
    ),
    "MAP<STRING, DOUBLE>": ("map()", "map('k', double('NaN'), 'l', -0.0D)", "map('k', CAST(NULL AS DOUBLE))"),
    "MAP<INT, ARRAY<STRING>>": ("map(1, array('a', NULL))", "map(2, array(), 3, NULL)"),
}
"""Literals of a type, as SQL casts them."""


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: Its name.
        type: Its type in SQL.
        declared: What follows the type where the table is made.
        values: Literals to draw from; those of the type if there are none.
        wild: Literals that statements draw as well, although the table may refuse them.
        nulls: How often a value is null.
        made: The expression that its values are made by.
        first: The type it has until it is widened.
    """

    name: str
    type: str
    declared: str = ""
    values: tuple[str, ...] = ()
    wild: tuple[str, ...] = ()
    nulls: float = 0.15
    made: str = ""
    first: str = ""

    @property
    def sql(self) -> str:
        return f"`{self.name}`"

    @property
    def is_atomic(self) -> bool:
        return not self.type.startswith(("STRUCT", "ARRAY", "MAP"))

    def drawn(self, random: Random, *, tame: bool = False) -> str:
        """A value of it."""
        if random.random() < self.nulls:
            return f"CAST(NULL AS {self.stored})"
        values = self.values or VALUES[self.type]
        return self.given(random.choice(values if tame else (*values, *self.wild)))

    def compared(self, random: Random) -> str:
        """A value of it to compare with as people write it, so that files may be left out by it."""
        literal = random.choice(self.values or VALUES[self.type])
        if random.random() < 0.2 or (self.type in ("FLOAT", "DOUBLE") and literal.startswith("'")):
            return self.drawn(random)
        if self.type in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and literal.startswith("'") and random.random() < 0.7:
            return self.type + literal
        return literal

    def given(self, literal: str) -> str:
        return f"CAST({literal} AS {self.stored})"

    @property
    def stored(self) -> str:
        """The type of its values, which know nothing of lengths."""
        return "STRING" if self.type.startswith(("CHAR", "VARCHAR")) else self.type


ID = Column("id", "INT", values=tuple(map(str, range(9))), nulls=0.1)
UID = Column("uid", "BIGINT")
V = Column("v", "STRING")
N = Column("n", "BIGINT")


@dataclass(frozen=True)
class Shape:
    """A table with the columns `id`, which matches, and `uid`, which tells rows apart, and what makes it special.

    Args:
        name: What it is about.
        columns: More columns.
        by: The partition columns.
        properties: Its properties.
        then: Statements after it was made; `{t}` is the table.
        later: Statements after the first half of its rows is there.
        inserts: How many statements bring its rows.
        evolves: How often a merge may change the columns.
    """

    name: str
    columns: Sequence[Column] = (V, N)
    by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    then: Sequence[str] = ()
    later: Sequence[str] = ()
    inserts: int = 4
    evolves: float = 0.1

    @property
    def all_columns(self) -> list[Column]:
        return [ID, UID, *self.columns]

    @property
    def is_tracked(self) -> bool:
        return "delta.enableRowTracking" in self.properties

    @property
    def has_feed(self) -> bool:
        return "delta.enableChangeDataFeed" in self.properties

    def create(self, table: str) -> list[str]:
        """The statements that make it, with its rows; always the same ones."""
        random = Random(self.name)
        columns = ", ".join(
            f"{each.sql} {each.first or each.type} {each.declared}".rstrip() for each in self.all_columns
        )
        by = f" PARTITIONED BY ({', '.join(self.by)})" if self.by else ""
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        made = [f"CREATE TABLE {table} ({columns}) USING delta{by} TBLPROPERTIES ({properties or DEFAULTS})"]
        made += [each.format(t=table) for each in self.then]
        uid = 0
        for number in range(self.inserts):
            if number == self.inserts // 2:
                made += [each.format(t=table) for each in self.later]
            types = {each.name: each.first for each in self.columns if each.first and number < self.inserts // 2}
            rows = []
            for _ in range(random.randint(3, 6)):
                rows.append(self.row(random, uid, random.choice(ID.values), types))
                uid += 1
            made.append(f"INSERT INTO {table} ({self.names()}) VALUES {', '.join(rows)}")
        # Of a table that marks rows, some are marked already.
        made.append(f"DELETE FROM {table} WHERE uid IN (1, 5)")
        return made

    def names(self) -> str:
        return ", ".join(each.sql for each in self.all_columns if not each.made)

    def row(self, random: Random, uid: int, id: str, types: Mapping[str, str]) -> str:
        """A row with a key; some columns may have other types."""
        drawn = [(each, each.drawn(random, tame=True)) for each in self.columns if not each.made]
        rest = [f"CAST({sql} AS {types[each.name]})" if each.name in types else sql for each, sql in drawn]
        key = "NULL" if random.random() < ID.nulls else id
        return f"({', '.join([ID.given(key), UID.given(str(uid)), *rest])})"


DEFAULTS = "'delta.enableDeletionVectors' = 'false'"
ALLOWED = {"delta.feature.allowColumnDefaults": "supported"}
WIDENED = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"}
BY_ID = {"delta.columnMapping.mode": "id"}
P = Column("p", "STRING", values=("''", "'a'", "'a=b/c%'", "' x '", "'é'"), nulls=0.25)
DAY = Column("day", "DATE", nulls=0.25)
MOVED = Column("a b.c", "STRING")
SMALL = Column("k", "BIGINT", values=("0", "1", "2", "900", "40", "7"), wild=("5000",))
RENAMED = ("ALTER TABLE {t} RENAME COLUMN v TO w", "ALTER TABLE {t} RENAME COLUMN w TO v")

SHAPES = (
    Shape("plain"),
    Shape("vectors", properties=VECTORS),
    Shape("small files", inserts=9),
    Shape("small files and vectors", inserts=9, properties=VECTORS),
    Shape("partitioned", columns=(V, P, N), by=["p"]),
    Shape("partitioned twice, vectors", columns=(DAY, V, N, P), by=["p", "day"], properties=VECTORS),
    Shape(
        "partitioned by numbers and times",
        columns=(Column("f", "DOUBLE", nulls=0.3), Column("at", "TIMESTAMP"), V),
        by=["f", "at"],
        inserts=2,
    ),
    Shape("mapped by name", columns=(V, N, MOVED), properties=MAPPED, later=RENAMED),
    Shape("mapped by id, vectors", columns=(V, N, MOVED), properties=BY_ID | VECTORS, later=RENAMED),
    Shape("mapped partitions", columns=(V, Column("p q", "STRING")), by=["`p q`"], properties=MAPPED),
    Shape("row tracking", properties=TRACKED),
    Shape("row tracking and vectors", properties=TRACKED | VECTORS),
    Shape("row tracking on mapped columns", columns=(V, P, N), by=["p"], properties=TRACKED | MAPPED),
    Shape(
        "generated columns",
        columns=(
            Column("n", "BIGINT", values=("0", "1", "2", "-3")),
            Column("v", "STRING", values=("'a'", "'b'", "'A'", "'ab'", "'é'", "' a '"), wild=("''",)),
            Column("g", "BIGINT", "GENERATED ALWAYS AS (n * 2)", made="n * 2"),
            Column("h", "STRING", "GENERATED ALWAYS AS (upper(v))", made="upper(v)"),
        ),
        by=["h"],
    ),
    Shape(
        "check constraints",
        columns=(V, SMALL, Column("r", "INT", "NOT NULL", values=tuple("012345"), wild=("NULL",), nulls=0)),
        then=("ALTER TABLE {t} ADD CONSTRAINT few CHECK (k IS NULL OR k < 5000 OR v = 'a')",),
        properties=VECTORS,
    ),
    Shape("defaults", columns=(V, Column("d", "STRING", "DEFAULT 'dd'"), N), properties=ALLOWED),
    Shape("change feed", properties=FEED),
    Shape("change feed and vectors", properties=FEED | VECTORS),
    Shape(
        "everything at once",
        columns=(V, P, N, MOVED),
        by=["p"],
        properties=FEED | VECTORS | MAPPED | TRACKED,
        later=RENAMED,
    ),
    Shape(
        "widened",
        columns=(
            Column("a", "INT", values=VALUES["SMALLINT"], first="SMALLINT"),
            Column("b", "DOUBLE", values=("1", "2", "-3", "1.1"), first="FLOAT"),
            Column("c", "DECIMAL(18,4)", values=("1.25", "3", "-7.5"), first="DECIMAL(9,2)"),
            Column("e", "TIMESTAMP_NTZ", values=("DATE'1500-01-01'", "DATE'2024-01-01'"), first="DATE"),
        ),
        properties=WIDENED | {"delta.feature.timestampNtz": "supported"},
        later=(
            "ALTER TABLE {t} ALTER COLUMN a TYPE INT",
            "ALTER TABLE {t} ALTER COLUMN b TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN c TYPE DECIMAL(18,4)",
            "ALTER TABLE {t} ALTER COLUMN e TYPE TIMESTAMP_NTZ",
        ),
    ),
    Shape("floating point", columns=(Column("f", "DOUBLE"), Column("g", "FLOAT"), V)),
    Shape("floating point and vectors", columns=(Column("f", "DOUBLE"), Column("g", "FLOAT")), properties=VECTORS),
    Shape("times", columns=(Column("at", "TIMESTAMP"), Column("on", "DATE"), Column("w", "TIMESTAMP_NTZ"), V)),
    Shape(
        "decimals",
        columns=(Column("a", "DECIMAL(9,2)"), Column("b", "DECIMAL(18,4)"), Column("c", "DECIMAL(38,10)")),
    ),
    Shape(
        "nested",
        columns=(
            Column("s1", "STRUCT<a: INT, b: STRING>"),
            Column("l", "ARRAY<INT>"),
            Column("m", "MAP<STRING, DOUBLE>"),
            V,
        ),
        evolves=0.3,
    ),
    Shape(
        "nested deeper, mapped, vectors",
        columns=(
            Column("s2", "STRUCT<f: DOUBLE, in: STRUCT<at: TIMESTAMP, n: BIGINT>>"),
            Column("ls", "ARRAY<STRUCT<x: INT, y: DATE>>"),
            Column("ml", "MAP<INT, ARRAY<STRING>>"),
            Column("b", "BINARY"),
        ),
        properties=MAPPED | VECTORS,
    ),
    Shape("char and varchar", columns=(Column("c", "CHAR(3)"), Column("w", "VARCHAR(4)"), N)),
    Shape("char partitions", columns=(Column("c", "CHAR(3)"), V), by=["c"], properties=VECTORS),
    Shape("small numbers and flags", columns=(Column("a", "TINYINT"), Column("o", "BOOLEAN"), Column("b", "BINARY"))),
    Shape("evolving", columns=(V, N, Column("s1", "STRUCT<a: INT, b: STRING>")), evolves=0.6),
    Shape("evolving with a feed and vectors", properties=FEED | VECTORS, evolves=0.6),
    Shape("no statistics", properties={"delta.dataSkippingNumIndexedCols": "0"}),
)
