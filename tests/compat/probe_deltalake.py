"""Runs inside an environment with one release of deltalake: takes jobs from standard input, one JSON object a line, and
answers each with one line. Old releases have other names for things, so everything is looked for before it is used.
"""

import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")


def read_query(path, columns):
    import deltalake
    import pyarrow as pa

    if not hasattr(deltalake, "QueryBuilder"):
        return {"outcome": "absent"}
    table = deltalake.DeltaTable(path)
    result = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    if hasattr(result, "read_all"):
        found = pa.table(result.read_all())
    else:
        batches = result.fetchall() if hasattr(result, "fetchall") else list(result)
        found = pa.Table.from_batches(batches)
    return rows_of(found, columns)


def read_arrow(path, columns):
    from deltalake import DeltaTable

    return rows_of(DeltaTable(path).to_pyarrow_table(), columns)


def rows_of(table, columns):
    import pyarrow as pa

    missing = [name for name in columns if name not in table.column_names]
    if missing:
        return {"outcome": "done", "rows": None, "note": "no column " + ", ".join(missing)}
    found = []
    for name in columns:
        column = table[name].combine_chunks() if table.num_rows else table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us"))
        found.append(
            [str(value) if not isinstance(value, (int, str, type(None))) else value for value in column.to_pylist()]
        )
    return {"outcome": "done", "rows": sorted((list(row) for row in zip(*found, strict=True)), key=repr)}


def append(path, row, engine):
    import inspect

    import deltalake
    import pyarrow as pa

    columns = {}
    for name, value in row.items():
        if name == "at":
            import datetime

            columns[name] = pa.array([datetime.datetime.fromisoformat(value)], pa.timestamp("us"))
        elif name == "v":
            type = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
            columns[name] = pa.array([{"metadata": b"\x01\x00\x00", "value": bytes([0x0C, value])}], type)
        else:
            columns[name] = pa.array([value], pa.int64() if isinstance(value, int) else pa.string())
    options = {}
    takes_engine = "engine" in inspect.signature(deltalake.write_deltalake).parameters
    if takes_engine:
        options["engine"] = engine
    elif (engine == "pyarrow") != is_before_engines():
        return {"outcome": "absent"}
    deltalake.write_deltalake(path, pa.table(columns), mode="append", **options)
    return {"outcome": "done"}


def is_before_engines():
    """Releases before 0.14 wrote through Arrow only; from 1.0 there is only the engine in Rust."""
    from importlib.metadata import version

    return version("deltalake").startswith("0.")


OPERATIONS = {
    "read.query": lambda job: read_query(job["path"], job["columns"]),
    "read.arrow": lambda job: read_arrow(job["path"], job["columns"]),
    "write.append": lambda job: append(job["path"], job["row"], "rust"),
    "write.arrow": lambda job: append(job["path"], job["row"], "pyarrow"),
}

if __name__ == "__main__":
    # Libraries print to standard output as they please; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = OPERATIONS[job["operation"]](job)
        except BaseException as error:  # a panic in Rust is no Exception
            answer = {"outcome": "error", "note": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
