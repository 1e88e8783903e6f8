"""What a write is asked to do to an index table: its rows, the rows that they replace, and its columns.

The words are those of Delta tables. New columns come in at the end, so splits that are older keep their indexes, and
searches find nothing in columns that a split does not have. How a new column is indexed is said when it comes in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.companion.identity import check_own_rows
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import IndexMetadata, SplitAdd, SplitRemove
from halocline.formats.index.rows import partition_value
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY, fields_of
from halocline.schema.arrow import arrow_schema
from halocline.schema.growth import grown_by
from halocline.schema.json_edge import dump, parse
from halocline.schema.types import Struct
from halocline.spark.write.split_rows import check_columns
from halocline.table.index.columns import field_options

SchemaMode = Literal["merge", "overwrite"]
Removal = SplitAdd | SplitRemove
_MERGE: Final = "merge"
_OVERWRITE: Final = "overwrite"


@dataclass(frozen=True)
class SplitWrite:
    """A write, which makes sense as a whole.

    Attributes:
        replaces: Whether the rows come in place of others; they are added otherwise.
        where: The condition that rows to be replaced meet; None for all rows.
        dynamic: Whether exactly the partitions of the new rows are replaced.
        schema_mode: What may become of the table's columns.
        partition_by: The new partition columns, if columns are overwritten; they stay if None.
        fields: How columns that come in are indexed, as for `Table.create`.
    """

    replaces: bool = False
    where: str | None = None
    dynamic: bool = False
    schema_mode: SchemaMode | None = None
    partition_by: Sequence[str] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = {
            "where": self.where is not None,
            "partitions='dynamic'": self.dynamic,
            "schema_mode='overwrite'": self.schema_mode == _OVERWRITE,
        }
        both = [name for name, given in chosen.items() if given]
        if len(both) > 1:
            raise InputError(
                f"{both[0]} and {both[1]} contradict each other",
                sides={"given": ", ".join(both), "possible": "one of them"},
                next_step="Leave one of them out.",
            )
        needs = {
            "partition_by": (self.partition_by is not None, self.schema_mode == _OVERWRITE, "schema_mode='overwrite'"),
            "fields": (bool(self.fields), self.schema_mode is not None, "schema_mode"),
        }
        for name, (given, may, needed) in needs.items():
            if given and not may:
                raise InputError(
                    f"{name} says nothing where the columns stay as they are",
                    sides={"given": name, "needed": needed},
                    next_step=f"Leave {name} out, or give {needed} with it.",
                )

    @property
    def operation(self) -> str:
        """What it is to the gate."""
        return "write" if self.replaces else "write.append"

    @property
    def parameters(self) -> dict[str, Any]:
        """What the history says of it."""
        growth = {_MERGE: {"canMergeSchema": True}, _OVERWRITE: {"canOverwriteSchema": True}}
        return {
            "mode": "Overwrite" if self.replaces else "Append",
            **({} if self.where is None else {"predicate": self.where}),
            **({"isDynamicPartitionOverwrite": True} if self.dynamic else {}),
            **(growth[self.schema_mode] if self.schema_mode else {}),
        }

    def metadata(self, snapshot: IndexSnapshot, rows: Struct) -> IndexMetadata:
        """What the table is once it has rows with these columns; the same object if nothing changes.

        Raises:
            InputError: A column cannot be indexed so, a partition column is missing, or the table is a companion.
            UnsupportedError: A column has a type that no split holds.
        """
        before = snapshot.metadata
        check_own_rows(snapshot)
        if self.schema_mode is None:
            return before
        known = parse(before.schema_string)
        schema = grown_by(known, rows) if self.schema_mode == _MERGE else rows
        if schema is known:
            self._check_new(known, known)
            return before
        check_columns(schema)
        partitions = before.partition_columns
        if self.schema_mode == _OVERWRITE:
            asked = partitions if self.partition_by is None else self.partition_by
            partitions = tuple(schema.find([name])[0][0] for name in asked)
        self._check_new(known, schema)
        configuration = dict(before.configuration) | self._options(before, schema, partitions)
        fields_of(schema, configuration, partitions)
        after = replace(before, schema_string=dump(schema), partition_columns=partitions, configuration=configuration)
        same = (after.schema_string, after.partition_columns, after.configuration)
        return before if same == (before.schema_string, before.partition_columns, before.configuration) else after

    def _options(self, before: IndexMetadata, schema: Struct, partitions: Iterable[str]) -> dict[str, str]:
        """How columns are indexed: as before where they stay, and as is said where they come in."""
        inside = {each.name for each in schema.fields} - set(partitions)
        held = json.loads(before.configuration.get(OPTIONS_KEY, "{}"))
        said = json.loads(field_options(self.fields, schema).get(OPTIONS_KEY, "{}"))
        found = {name: options for name, options in {**held, **said}.items() if name in inside}
        return {OPTIONS_KEY: json.dumps(found, separators=(",", ":"))} if found or held else {}

    def _check_new(self, known: Struct, schema: Struct) -> None:
        """Merging leaves columns that are there as they are, also in how they are indexed."""
        if self.schema_mode != _MERGE:
            return
        for name in self.fields:
            (spelt,), _ = schema.find([name])
            if known.get(spelt) is not None:
                raise InputError(
                    f"column {spelt!r} is there already, and its splits are indexed as they are",
                    sides={"given": f"fields of {spelt}", "possible": "columns that come in with these rows"},
                    next_step="Leave it out, or overwrite the table with schema_mode='overwrite'.",
                )

    def gone(
        self,
        snapshot: IndexSnapshot,
        new: Sequence[SplitAdd],
        matching: Callable[[str], Sequence[Removal]],
        now_ms: int,
    ) -> list[Removal]:
        """What takes out the rows that are replaced.

        Args:
            snapshot: The table as it is.
            new: The splits of the new rows.
            matching: What takes out the rows that meet a condition.
            now_ms: The present, in milliseconds since the epoch.

        Raises:
            InputError: Partitions are to be replaced, and there are none.
        """
        if not self.replaces:
            return []
        if self.where is not None:
            return list(matching(self.where))
        splits = snapshot.files.values()
        if not self.dynamic:
            return [removal(each, now_ms) for each in splits]
        names = snapshot.metadata.partition_columns
        if not names:
            raise InputError(
                f"{snapshot.store.root} is not partitioned, so no partition of it can be replaced",
                sides={"asked for": "partitions='dynamic'", "table": "no partition columns"},
                next_step="Overwrite it whole, or by a condition.",
            )
        columns = arrow_schema([snapshot.schema.find([name])[1] for name in names])
        written = {_partition(each, columns) for each in new}
        return [removal(each, now_ms) for each in splits if _partition(each, columns) in written]


def _partition(split: SplitAdd, columns: pa.Schema) -> tuple[Any, ...]:
    """The values of a split's partition, the same however writers spell a number."""
    values = (partition_value(split, each).as_py() for each in columns)
    # Not-a-number is one value, which Python says is not equal to itself.
    return tuple("NaN" if value != value else value for value in values)
