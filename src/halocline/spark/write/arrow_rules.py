"""The rules of a table that are kept without an engine, and those that are not.

NOT NULL is checked where rows are fitted (`halocline.spark.write.arrow_fit`). A CHECK constraint and an invariant are
checked here where `halocline.formats.delta.stats.row_filter` understands them: a row obeys one that is exactly true.
Generated and identity columns, columns with a length, variants, a default that rows leave out, and all other conditions
need Spark, and a table that has one is refused before a row is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import UnsupportedError
from halocline.formats.delta.configuration import identity
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.stats.row_filter import RowFilter
from halocline.schema.defaults import default_of
from halocline.schema.types import Field, Struct
from halocline.spark.types.columns import holds
from halocline.spark.write.arrow_fit import logical_column
from halocline.spark.write.rules import RowRule, rules_of

_CONDITIONS = ("CHECK ", "invariant of ")


@dataclass(frozen=True)
class ArrowRules:
    """What rows of Arrow batches must obey.

    Attributes:
        rules: The rules, each with the filter that tells which rows obey it.
        fields: The columns that the rules speak of.
        partitions: The partition columns, in which empty text is null.
        table: The table, for messages.
    """

    rules: Sequence[tuple[RowRule, RowFilter]]
    fields: Sequence[Field]
    partitions: Sequence[str]
    table: str

    @staticmethod
    def of(state: TableConfiguration, columns: Struct, table: str, zone: str) -> ArrowRules:
        """The rules of a table, for rows with these columns.

        Raises:
            UnsupportedError: One of them needs Spark.
        """
        schema = state.schema
        given = {name.lower() for name in columns.names}
        needs: list[str] = []
        rules = []
        for rule in rules_of(schema, state.metadata.configuration):
            if rule.name.startswith(_CONDITIONS):
                try:
                    rules.append((rule, RowFilter.parse(rule.condition, state.columns, zone)))
                except UnsupportedError:
                    needs.append(rule.name)
            elif not rule.name.startswith("NOT NULL"):
                needs.append(rule.name)
        needs += [f"identity column {each.name}" for each in identity.identity_columns(schema)]
        lacking = [field for field in schema.fields if field.name.lower() not in given]
        needs += [f"default of {field.name}" for field in lacking if default_of(field) is not None]
        needs += [f"variant column {field.name}" for field in schema.fields if holds(field.type, ("variant",))]
        if needs:
            raise UnsupportedError(
                f"rows cannot be written to {table} without Spark: {needs[0]} needs it",
                sides={"needs Spark": ", ".join(needs)[:300], "without Spark": "NOT NULL, and plain CHECK constraints"},
                next_step=f'Use Table.for_path("{table}", spark).append(df); in a stream, with foreachBatch.',
            )
        spoken_of = {column.path[0].lower() for _, each in rules for column in each.columns}
        fields = [field for field in schema.fields if field.name.lower() in spoken_of]
        return ArrowRules(rules, fields, tuple(state.partition_columns), table)

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, if they obey.

        Raises:
            ConstraintError: One does not.
        """
        if self.rules and batch.num_rows:
            seen = pa.RecordBatch.from_arrays(
                [logical_column(batch, field) for field in self.fields], names=[field.name for field in self.fields]
            )
            for rule, obeys in self.rules:
                broken = pc.invert(obeys.mask(seen, self.partitions))
                if pc.any(broken).as_py():
                    row = batch.filter(broken).slice(0, 1).to_pylist()[0]
                    raise rule.refusal(msgspec.json.encode(row, enc_hook=str).decode(), self.table)
        return batch
