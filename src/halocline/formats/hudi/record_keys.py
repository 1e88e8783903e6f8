"""The key of a row: where it stands, or what it is made of.

A table that populates meta fields has the key in a column of its own. One that does not makes it from the key fields
whenever it is needed: one field as it is, several as `field:value,field:value`. Nulls and empty texts have names of
their own among several fields, and are no keys where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import UnsupportedError
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType

if TYPE_CHECKING:
    from halocline.formats.hudi.snapshot import HudiSnapshot

RECORD_KEY: Final = "_hoodie_record_key"
NULL_KEY: Final = "__null__"
EMPTY_KEY: Final = "__empty__"


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Where the key of a row comes from.

    Attributes:
        names: The columns it is made of.
        named: Whether each value comes with the name of its field.
        made_of: The fields that a stored key was made of, where one of Hudi's own key generators made it.
    """

    names: tuple[str, ...]
    named: bool = False
    made_of: tuple[str, ...] = ()

    def of(self, rows: pa.Table | pa.RecordBatch) -> pa.Array:
        """The key of each row.

        Example:
            >>> rows = pa.table({"a": ["x", None], "b": [1, 2]})
            >>> KeyColumns(("a", "b"), named=True).of(rows).to_pylist()
            ['a:x,b:1', 'a:__null__,b:2']
        """
        texts = [_text(rows.column(name)) for name in self.names]
        if not self.named:
            return texts[0]
        pieces = [
            pc.binary_join_element_wise(pa.scalar(name), pc.fill_null(_named_empty(text), NULL_KEY), ":")
            for name, text in zip(self.names, texts, strict=True)
        ]
        return pc.binary_join_element_wise(*pieces, ",") if len(pieces) > 1 else pieces[0]

    def made(self, rows: pa.Table | pa.RecordBatch) -> pa.Array:
        """The key of each row that is about to be written; null if nothing of it has a value.

        Example:
            >>> KeyColumns(("a", "b"), named=True).made(pa.table({"a": ["x", ""], "b": [1, None]})).to_pylist()
            ['a:x,b:1', None]
        """
        found = self.of(rows)
        empty = [pc.fill_null(pc.equal(_text(rows.column(name)), ""), True) for name in self.names]
        nothing = reduce(pc.and_, empty)
        return pc.if_else(nothing, pa.scalar(None, pa.string()), found)


def key_columns(config: HudiTableConfig) -> KeyColumns:
    """Where the keys of a table's rows come from.

    Raises:
        UnsupportedError: Keys are made by code that only the table's owner has.
    """
    if config.meta_fields:
        known = config.key_generator is not KeyGeneratorType.USER_PROVIDED
        return KeyColumns((RECORD_KEY,), made_of=config.record_keys if known else ())
    if not config.record_keys or config.key_generator is KeyGeneratorType.USER_PROVIDED:
        raise UnsupportedError(
            f"the keys of {config.name} are neither stored nor made by a known key generator",
            sides={"table": f"key generator {config.key_generator or 'none'}", "halocline knows": "Hudi's own"},
            next_step='Read without log files: query="read_optimized".',
        )
    return _made(config)


def written_key_columns(config: HudiTableConfig, stored: str | None = None) -> KeyColumns:
    """What the keys of new rows are made of.

    Args:
        config: What the table is.
        stored: A key that the table holds. With a complex key generator and one field, releases differ in whether the
            name of the field is part of the key; only a stored one tells.

    Raises:
        UnsupportedError: Keys are made by code that only the table's owner has, or are made up.
    """
    if not config.record_keys or config.key_generator is KeyGeneratorType.USER_PROVIDED:
        raise UnsupportedError(
            f"rows of {config.name} cannot be written: their keys are not made of stored fields",
            sides={
                "table": f"key fields {','.join(config.record_keys) or 'none'}, generator {config.key_generator}",
                "halocline writes": "tables with key fields and one of Hudi's own key generators",
            },
            next_step="Write with the writer that made the table.",
        )
    return _made(config, stored)


def stored_key(snapshot: HudiSnapshot) -> str | None:
    """A key that a table holds, where only such a one tells how keys are spelt."""
    config = snapshot.config
    if len(config.record_keys) != 1 or config.key_generator is not KeyGeneratorType.COMPLEX or not config.meta_fields:
        return None
    reader = snapshot.reader([RECORD_KEY], merging=any(each.logs for each in snapshot.slices))
    batches = (batch for slice in snapshot.slices for batch in reader.read(snapshot.store, slice))
    first = next((batch for batch in batches if batch.num_rows), None)
    return None if first is None else str(first.column(0)[0].as_py())


def _made(config: HudiTableConfig, stored: str | None = None) -> KeyColumns:
    named = len(config.record_keys) > 1
    if not named and config.key_generator is KeyGeneratorType.COMPLEX:
        named = stored.startswith(f"{config.record_keys[0]}:") if stored is not None else config.version >= 9
    return KeyColumns(config.record_keys, named)


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.array([], whole.type)
    if pa.types.is_string(whole.type):
        return whole
    check_key_type(whole.type)
    return whole.cast(pa.string())


def check_key_type(type: pa.DataType) -> None:
    """Refuses a column that keys are not made of here.

    Raises:
        UnsupportedError: Releases of Apache Hudi write such a value in different ways, or not at all.
    """
    if pa.types.is_string(type) or pa.types.is_integer(type) or pa.types.is_boolean(type):
        return
    raise UnsupportedError(
        f"a column of type {type} cannot be part of a record key here",
        sides={"key column": str(type), "halocline makes keys of": "text, whole numbers and booleans"},
        next_step="Choose other key columns, or cast it to text. A table that is like that is read with "
        'query="read_optimized", and written by the writer that made it.',
    )


def _named_empty(text: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(text, ""), EMPTY_KEY, text)
