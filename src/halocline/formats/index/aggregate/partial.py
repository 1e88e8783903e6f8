"""Partials: what some rows add up to, as an Arrow table of groups and states, and how partials become a result.

The columns of a partial are the keys of its groups and the states of the metrics. A sum of whole
numbers or decimals is a decimal wide enough for any number of rows; one of doubles is exact text. Partials merge into a
partial, so it does not matter who merges how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.aggregate.doubles import added, from_ordered, ordered, sums_by_group, total_of
from halocline.formats.index.aggregate.keys import WIDE, keys_of, shown
from halocline.formats.index.aggregate.request import (
    Aggregation,
    Avg,
    Bucket,
    Count,
    HistogramBuckets,
    Max,
    Metric,
    Min,
    Sum,
)
from halocline.schema.types import decimal_of

Partial: TypeAlias = pa.Table
_GROUP: Final = "group"


def partial_of(asked: Aggregation, rows: pa.Table) -> Partial:
    """What some rows add up to.

    Args:
        asked: What is to be worked out.
        rows: The rows, with the columns that it needs.
    """
    keys = [keys_of(bucket, _one(rows.column(bucket.column))) for bucket in asked.by.values()]
    named: dict[str, pa.Array] = {f"k{number}": each for number, each in enumerate(keys)}
    for number, metric in enumerate(asked.metrics.values()):
        for state, _ in _states(asked, metric):
            named[f"m{number}.{state}"] = _start(asked, metric, state, rows)
    return _grouped(asked, pa.table(named), first=True)


def merged(asked: Aggregation, partials: Iterable[Partial]) -> Partial:
    """What several partials add up to."""
    return _grouped(asked, pa.concat_tables([nothing(asked), *partials]), first=False)


def nothing(asked: Aggregation) -> Partial:
    """The partial of no rows."""
    keys = [(f"k{number}", _key_type(asked, each)) for number, each in enumerate(asked.by.values())]
    states = [
        (f"m{number}.{state}", type)
        for number, metric in enumerate(asked.metrics.values())
        for state, type in _states(asked, metric)
    ]
    return pa.schema(keys + states).empty_table()


def partial_of_values(asked: Aggregation, keys: Sequence[pa.Scalar], values: Mapping[str, pa.Scalar]) -> Partial:
    """The partial of rows that are known by their number and bounds, and not looked at.

    Args:
        asked: What is to be worked out.
        keys: The values of the columns that they are grouped by.
        values: The count, or the least or greatest value, of each metric by its name.
    """
    buckets = asked.by.values()
    found = {f"k{n}": keys_of(bucket, pa.repeat(keys[n], 1)) for n, bucket in enumerate(buckets)}
    for number, (name, metric) in enumerate(asked.metrics.items()):
        for state, type in _states(asked, metric):
            value = pa.repeat(values[name], 1)
            found[f"m{number}.{state}"] = (ordered(value) if _is_double(asked, metric) else value).cast(type)
    return pa.table(found, schema=nothing(asked).schema)


def result_of(asked: Aggregation, partial: Partial) -> pa.Table:
    """The result: a row for each group, in the order of the keys, null last; one row if nothing is grouped by.

    Raises:
        InputError: A sum does not fit the type of the result.
    """
    if not asked.by and not len(partial):
        partial = _of_no_rows(asked)
    keys = [(f"k{number}", "ascending") for number in range(len(asked.by))]
    ordered_rows = partial.sort_by(keys) if keys else partial
    columns = [
        shown(_one(ordered_rows.column(f"k{number}")), asked.result_type(bucket))
        for number, bucket in enumerate(asked.by.values())
    ]
    for number, (name, metric) in enumerate(asked.metrics.items()):
        states = {state: _one(ordered_rows.column(f"m{number}.{state}")) for state, _ in _states(asked, metric)}
        columns.append(_finished(asked, name, metric, states))
    return pa.Table.from_arrays(columns, names=[*asked.by, *asked.metrics])


# ------------------------------------------------------------------ states


def _states(asked: Aggregation, metric: Metric) -> list[tuple[str, pa.DataType]]:
    """The states of a metric: the name of each, and its type."""
    match metric:
        case Count():
            return [("count", pa.int64())]
        case Min() | Max():
            state = "min" if isinstance(metric, Min) else "max"
            return [(state, pa.int64() if _is_double(asked, metric) else asked.result_type(metric))]
        case Sum() | Avg():
            if _is_double(asked, metric):
                return [("exact", pa.string()), ("count", pa.int64())]
            digits = decimal_of(asked.type_of(metric.column))
            return [("sum", pa.decimal256(76, 0 if digits is None else digits[1])), ("count", pa.int64())]


def _start(asked: Aggregation, metric: Metric, state: str, rows: pa.Table) -> pa.Array:
    """What one row has of a state, before rows are put together."""
    if metric.column is None:
        return pa.array(np.ones(len(rows), dtype=np.int64))
    values = _one(rows.column(metric.column))
    if state == "count":
        return pa.array(values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64))
    if state in ("min", "max"):
        return ordered(values) if _is_double(asked, metric) else values
    if state == "exact":
        return values.cast(pa.float64())
    if pa.types.is_integer(values.type):
        values = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return values.cast(pa.decimal256(76, values.type.scale))


def _grouped(asked: Aggregation, table: pa.Table, *, first: bool) -> Partial:
    names = [f"k{number}" for number in range(len(asked.by))]
    groups, keys = _groups(table, names)
    columns: dict[str, pa.Array] = dict(zip(names, keys, strict=True))
    count = len(keys[0]) if keys else int(len(table) > 0)
    for number, metric in enumerate(asked.metrics.values()):
        for state, type in _states(asked, metric):
            name = f"m{number}.{state}"
            columns[name] = _put_together(_one(table.column(name)), state, groups, count, type, first=first)
    return pa.table(columns, schema=nothing(asked).schema)


def _groups(table: pa.Table, names: Sequence[str]) -> tuple[np.ndarray, list[pa.Array]]:
    """The number of the group of each row, and the keys of each group."""
    if not names:
        return np.zeros(len(table), dtype=np.int64), []
    codes = np.zeros(len(table), dtype=np.int64)
    for name in names:
        column = _one(table.column(name)).dictionary_encode(null_encoding="encode")
        inner = np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        # Renumbered after each key, so that the product of how many there are never grows beyond the rows.
        codes = np.unique(codes * max(len(column.dictionary), 1) + inner, return_inverse=True)[1]
    firsts = np.unique(codes, return_index=True)[1]
    return codes, [_one(table.column(name)).take(pa.array(firsts)) for name in names]


def _put_together(
    values: pa.Array, state: str, groups: np.ndarray, count: int, type: pa.DataType, *, first: bool
) -> pa.Array:
    if state == "exact" and first:
        valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        return pa.array(sums_by_group(numbers[valid], groups[valid], count), type)
    if state == "exact":
        texts: list[list[str | None]] = [[] for _ in range(count)]
        for group, text in zip(groups.tolist(), values.to_pylist(), strict=True):
            texts[group].append(text)
        return pa.array([added(each) for each in texts], type)
    how = "sum" if state in ("sum", "count") else state
    found = pa.table({_GROUP: groups, state: values}).group_by(_GROUP, use_threads=False).aggregate([(state, how)])
    return _one(found.sort_by(_GROUP).column(f"{state}_{how}")).cast(type)


# ------------------------------------------------------------------ results


def _finished(asked: Aggregation, name: str, metric: Metric, states: dict[str, pa.Array]) -> pa.Array:
    type = asked.result_type(metric)
    match metric:
        case Count():
            return states["count"]
        case Min() | Max():
            (found,) = states.values()
            return from_ordered(found).cast(type) if _is_double(asked, metric) else found
        case Sum() | Avg():
            counts = states["count"].to_pylist()
            average = isinstance(metric, Avg)
            if "exact" in states:
                texts = states["exact"].to_pylist()
                return pa.array(
                    [total_of(*each) for each in zip(texts, counts if average else [1] * len(texts), strict=True)], type
                )
            totals = states["sum"].to_pylist()
            if average and pa.types.is_floating(type):
                found = [None if not n else int(total) / n for total, n in zip(totals, counts, strict=True)]
                return pa.array(found, type)
            if average:
                totals = [_mean(total, n, type.scale) for total, n in zip(totals, counts, strict=True)]
            return _fitting(totals, type, name)


def _mean(total: Decimal | None, count: int, scale: int) -> Decimal | None:
    if total is None or not count:
        return None
    return WIDE.divide(total, Decimal(count)).quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, WIDE)


def _fitting(totals: list[Decimal | None], type: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array([each if each is None or pa.types.is_decimal(type) else int(each) for each in totals], type)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(
            f"{name!r} is too large for its type",
            condition="AGGREGATE_OVERFLOW",
            sides={"result": str(max((each for each in totals if each is not None), key=abs)), "type": str(type)},
            next_step="Ask for the average, or for smaller groups.",
        ) from error


def _of_no_rows(asked: Aggregation) -> Partial:
    zero: dict[str, list[Any]] = {
        name: [0 if name.endswith(".count") else None] for name in nothing(asked).schema.names
    }
    return pa.table(zero, schema=nothing(asked).schema)


def _is_double(asked: Aggregation, metric: Metric) -> bool:
    if metric.column is None or isinstance(metric, Count):
        return False
    return asked.type_of(metric.column).name in ("float", "double")


def _key_type(asked: Aggregation, bucket: Bucket) -> pa.DataType:
    type = asked.result_type(bucket)
    if pa.types.is_floating(type):
        return pa.int64()
    if not isinstance(bucket, HistogramBuckets):
        return type
    return pa.decimal256(76, type.scale) if pa.types.is_decimal(type) else pa.int64()


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
