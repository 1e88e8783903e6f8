"""Random statements that change rows: merges of every kind of clause, updates and deletes, the same ones for a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.interop_jvm.delta_shapes import ID, UID, Column, Shape

FIRST_NEW_UID = 1000
Known = tuple[str, Column]
"""How an expression speaks of a column, and the column."""


def statements(shape: Shape, seed: int, count: int) -> list[str]:
    """Statements to be done to a table one after the other; `{t}` stands for it."""
    random = Random(f"{shape.name}, {seed}")
    changes = Changes(shape, random)
    kinds = random.choices([changes.merge, changes.update, changes.delete], [8, 3, 2], k=count)
    return [make() for make in kinds]


@dataclass
class Changes:
    """Draws statements for a table.

    Attributes:
        shape: The table.
        random: What chance decides by.
        uid: The next one that no row has.
        grew: Whether a merge may have given the table more columns.
    """

    shape: Shape
    random: Random
    uid: int = FIRST_NEW_UID
    grew: bool = False

    def delete(self) -> str:
        where = "" if self._is(0.03) else f" WHERE {self.condition(self._own())}"
        return f"DELETE FROM {{t}}{where}"

    def update(self) -> str:
        where = "" if self._is(0.1) else f" WHERE {self.condition(self._own())}"
        return f"UPDATE {{t}} SET {self._assigned(self._own())}{where}"

    def merge(self) -> str:
        random, evolves = self.random, self._is(self.shape.evolves)
        self.grew = self.grew or evolves
        left_out = set()
        if evolves:
            plain = [each.name for each in self.shape.columns if not each.made and not each.declared]
            left_out = {name for name in plain if self._is(0.2)}
        given = [each for each in self.shape.all_columns if each.name not in left_out]
        source = self._source(given, extra=evolves)
        theirs = [(f"s.{each.sql}", each) for each in given]
        both = [*self._own("t."), *theirs]
        clauses = []
        for number in reversed(range(random.choice([0, 1, 1, 2, 3]))):
            clauses.append(self._matched(both, theirs, condition=bool(number) or self._is(0.5)))
        for number in reversed(range(random.choice([0, 1, 1, 2]))):
            when = f" AND {self.condition(theirs)}" if number or self._is(0.4) else ""
            clauses.append(f"WHEN NOT MATCHED{when} THEN {self._inserted(theirs)}")
        for number in reversed(range(random.choice([0, 0, 1, 2]))):
            when = f" AND {self.condition(self._own('t.'))}" if number or self._is(0.7) else ""
            done = "DELETE" if self._is(0.4) else f"UPDATE SET {self._assigned(self._own('t.'))}"
            clauses.append(f"WHEN NOT MATCHED BY SOURCE{when} THEN {done}")
        clauses = clauses or [f"WHEN MATCHED THEN UPDATE SET {self._assigned(both)}"]
        evolution = "WITH SCHEMA EVOLUTION " if evolves or self.grew else ""
        return f"MERGE {evolution}INTO {{t}} t USING {source} s ON {self._on(given, both)} {' '.join(clauses)}"

    # ------------------------------------------------------------------ parts of a merge

    def _source(self, given: Sequence[Column], *, extra: bool) -> str:
        random = self.random
        count = random.choice([0, 1, 3, 5, 5, 8, 8])
        ids = [*ID.values, "20", "21", "22", "23"]
        keys = random.choices(ids, k=count) if self._is(0.2) else random.sample(ids, count)
        drawn = [each for each in given if not each.made and each not in (ID, UID)]
        rows = []
        for key in keys:
            uid = random.randrange(12) if self._is(0.25) else self.uid
            self.uid += 1
            id = "NULL" if self._is(0.08) else key
            more = [str(random.randrange(5))] if extra else []
            rows.append(f"({', '.join([ID.given(id), UID.given(str(uid)), *(c.drawn(random) for c in drawn), *more])})")
        names = [each.sql for each in (ID, UID, *drawn)] + (["x1"] if extra else [])
        where = ""
        if not rows:
            first = [each.given("NULL") for each in (ID, UID, *drawn)] + (["1"] if extra else [])
            rows, where = [f"({', '.join(first)})"], " WHERE false"
        items = [*names]
        for each in given:
            if each.made:
                wrong = each.made.replace("2", "3").replace("upper", "lower")
                items.append(f"{each.made if self._is(0.85) else wrong} AS {each.sql}")
        if extra and self._is(0.4):
            nested = next((each for each in drawn if each.type == "STRUCT<a: INT, b: STRING>"), None)
            if nested is not None:
                items.remove(nested.sql)
                items.append(f"named_struct('b', {nested.sql}.b, 'c', {nested.sql}.a) AS {nested.sql}")
        random.shuffle(items)
        return f"(SELECT {', '.join(items)} FROM VALUES {', '.join(rows)} AS v({', '.join(names)}){where})"

    def _on(self, given: Sequence[Column], both: Sequence[Known]) -> str:
        random = self.random
        equal = random.choices(["=", "<=>"], [9, 1])[0]
        key = f"t.id {equal} s.id"
        others = [each for each in given if each.is_atomic and each is not ID]
        other = random.choice(others)
        draws = {
            key: 10,
            f"{key} AND {self.condition([known for known in both if known[0].startswith('t.')])}": 2,
            f"{key} AND {self.condition([known for known in both if known[0].startswith('s.')])}": 1,
            f"{key} AND t.{other.sql} {equal} s.{other.sql}": 2,
            f"t.{other.sql} {equal} s.{other.sql}": 3,
            "t.uid = s.uid": 2,
            "t.id = s.id + 1": 1,
            "t.id = s.id OR t.uid = s.uid": 1,
            "false": 0.3,
        }
        return random.choices([*draws], [*draws.values()])[0]

    def _matched(self, both: Sequence[Known], theirs: Sequence[Known], *, condition: bool) -> str:
        when = f" AND {self.condition(both)}" if condition else ""
        if self._is(0.3):
            return f"WHEN MATCHED{when} THEN DELETE"
        if self._is(0.3):
            return f"WHEN MATCHED{when} THEN UPDATE SET *"
        return f"WHEN MATCHED{when} THEN UPDATE SET {self._assigned(both)}"

    def _inserted(self, theirs: Sequence[Known]) -> str:
        if self._is(0.5):
            return "INSERT *"
        free = [each for each in self.shape.columns if not each.made]
        columns = [ID, UID, *(each for each in free if "NOT NULL" in each.declared or self._is(0.7))]
        values = [f"s.{UID.sql}" if each is UID else self.value(each, theirs) for each in columns]
        return f"INSERT ({', '.join(each.sql for each in columns)}) VALUES ({', '.join(values)})"

    # ------------------------------------------------------------------ expressions

    def _own(self, alias: str = "") -> list[Known]:
        return [(f"{alias}{each.sql}", each) for each in self.shape.all_columns]

    def _assigned(self, known: Sequence[Known]) -> str:
        random = self.random
        alias = random.choice(["t.", ""]) if known[0][0].startswith("t.") else ""
        free = [each for each in self.shape.all_columns if each is not UID and not each.made]
        chosen = random.sample(free, min(len(free), random.choice([1, 1, 2, 3])))
        items = []
        for each in chosen:
            if each.type == "STRUCT<a: INT, b: STRING>" and self._is(0.4):
                items.append(f"{alias}{each.sql}.a = {self.value(Column('a', 'INT'), known)}")
            else:
                items.append(f"{alias}{each.sql} = {self.value(each, known)}")
        return ", ".join(items)

    def value(self, column: Column, known: Sequence[Known]) -> str:
        """A value for a column."""
        random = self.random
        same = [sql for sql, each in known if each.stored == column.stored]
        of = random.choice(same) if same else column.drawn(random)
        other = random.choice(same) if same else column.drawn(random)
        forms = [
            column.drawn(random),
            of,
            other,
            f"coalesce({of}, {column.drawn(random)})",
            f"CASE WHEN {self.condition(known)} THEN {of} ELSE {column.drawn(random)} END",
            f"if({of} IS NULL, {column.drawn(random)}, {other})",
        ]
        match column.stored.partition("(")[0].partition("<")[0]:
            case "BIGINT" | "INT" | "SMALLINT" | "TINYINT":
                forms += [f"CAST({of} % 1000 + 3 AS {column.stored})", f"abs(coalesce({other}, 0) % 7)", "4"]
            case "STRING":
                forms += [f"concat({of}, 'x')", f"upper({of})", f"concat({of}, {other})", f"substr({of}, 2)"]
            case "DOUBLE" | "FLOAT":
                forms += [f"-{of}", f"{of} * 2", f"{of} + {other}", "0"]
            case "DECIMAL":
                forms += [f"CAST({of} / 2 AS {column.stored})", f"-{of}", "7"]
            case "TIMESTAMP" | "TIMESTAMP_NTZ":
                forms += [f"{of} - INTERVAL '1' DAY", f"{of} - INTERVAL '1' SECOND", "DATE'1500-01-01'"]
            case "DATE":
                forms += [f"{of} - INTERVAL '1' DAY", f"date_sub({of}, 300)"]
            case "ARRAY":
                forms += [f"concat({of}, {other})", f"slice({of}, 1, 1)"]
            case "STRUCT" if column.type == "STRUCT<a: INT, b: STRING>":
                forms += [f"named_struct('a', {of}.a, 'b', {other}.b)"]
        return random.choice(forms)

    def condition(self, known: Sequence[Known], depth: int = 0) -> str:
        """A condition on columns."""
        random = self.random
        if depth < 2 and self._is(0.2):
            word = random.choice(["AND", "OR"])
            return f"({self.condition(known, depth + 1)} {word} {self.condition(known, depth + 1)})"
        if self._is(0.1):
            return f"NOT ({self.condition(known, depth + 1)})"
        sql, column = random.choice(known)
        partition = [each for each in known if each[1].name in [name.strip("`") for name in self.shape.by]]
        if partition and self._is(0.3):
            sql, column = random.choice(partition)
        if not column.is_atomic:
            return random.choice([f"{sql} IS NULL", f"{sql} IS NOT NULL"])
        value, second = column.compared(random), column.compared(random)
        if column is UID:
            value, second = (str(random.randrange(20)) for _ in range(2))
        same = [other for other, each in known if each.stored == column.stored and other != sql]
        forms = [
            *(f"{sql} {operator} {value}" for operator in ("=", "=", "<>", "<", ">=", "<=>", ">")),
            f"{sql} IS NULL",
            f"{sql} IS NOT NULL",
            f"{sql} IN ({value}, {second})",
            f"{sql} NOT IN ({value}, {second})",
            f"{sql} BETWEEN {value} AND {second}",
            *(f"{sql} {operator} {other}" for operator in ("=", "<", "<>") for other in same[:1]),
        ]
        if column.stored == "STRING":
            forms += [f"{sql} LIKE 'a%'", f"length({sql}) > 1"]
        if column.stored in ("INT", "BIGINT"):
            forms += [f"{sql} % 2 = 0", f"{sql} < 4", f"{sql} > 2"]
        return random.choice(forms)

    def _is(self, likelihood: float) -> bool:
        return self.random.random() < likelihood
