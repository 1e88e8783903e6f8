"""Runs inside an environment with one release of DuckDB, polars or Daft, which its argument names: takes jobs from
standard input, one JSON object a line, and answers each with one line.
"""

import datetime
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")


def read_duckdb(path, columns):
    return rows_of(connected().execute(f"SELECT * FROM delta_scan('file://{path}')").fetch_arrow_table(), columns)


def append_duckdb(path, row):
    values = ", ".join(repr(value) if isinstance(value, (int, str)) else f"'{value}'" for value in row.values())
    session = connected()
    session.execute(f"ATTACH 'file://{path}' AS into_table (TYPE delta)")
    names = ", ".join(f'"{name}"' for name in row)
    session.execute(f"INSERT INTO into_table ({names}) VALUES ({values})")


def connected():
    import glob

    import duckdb
    import duckdb_extension_delta

    folder = os.path.dirname(duckdb_extension_delta.__file__)
    session = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    session.execute(f"LOAD '{glob.glob(folder + '/extensions/*/delta.duckdb_extension')[0]}'")
    return session


def read_polars(path, columns):
    import polars

    return rows_of(polars.scan_delta(path).collect().to_arrow(), columns)


def append_polars(path, row):
    import polars

    polars.from_arrow(one_row(row)).write_delta(path, mode="append")


def read_daft(path, columns):
    import daft

    return rows_of(daft.read_deltalake(path).to_arrow(), columns)


def append_daft(path, row):
    import daft

    daft.from_arrow(one_row(row)).write_deltalake(path, mode="append")


def one_row(row):
    import pyarrow as pa

    columns = {}
    for name, value in row.items():
        if name == "at":
            columns[name] = pa.array([datetime.datetime.fromisoformat(value)], pa.timestamp("us"))
        elif name == "v":
            type = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
            columns[name] = pa.array([{"metadata": b"\x01\x00\x00", "value": bytes([0x0C, value])}], type)
        else:
            columns[name] = pa.array([value], pa.int64() if isinstance(value, int) else pa.string())
    return pa.table(columns)


def rows_of(table, columns):
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        return {"outcome": "done", "rows": None, "note": "no column " + ", ".join(missing)}
    rows = zip(*([plain(value) for value in table[name].to_pylist()] for name in columns), strict=True)
    return {"outcome": "done", "rows": sorted((list(row) for row in rows), key=repr)}


def plain(value):
    if isinstance(value, datetime.datetime):
        return str(value.replace(tzinfo=None))
    return value if isinstance(value, (int, str, type(None))) else str(value)


READS = {"duckdb": read_duckdb, "polars": read_polars, "daft": read_daft}
APPENDS = {"duckdb": append_duckdb, "polars": append_polars, "daft": append_daft}


def done(product, job):
    if job["operation"] == "read":
        return READS[product](job["path"], job["columns"])
    APPENDS[product](job["path"], job["row"])
    return {"outcome": "done"}


if __name__ == "__main__":
    # Libraries print to standard output as they please; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = done(sys.argv[1], job)
        except BaseException as error:  # a panic in Rust is no Exception
            answer = {"outcome": "error", "note": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
