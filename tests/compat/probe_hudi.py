"""Runs inside an environment with one release of hudi (hudi-rs): jobs in, answers out, one JSON object a line each."""

import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")


def batches(table, job):
    import hudi

    if job["operation"] == "read":
        return table.read() if hasattr(table, "read") else table.read_snapshot()
    if hasattr(hudi, "HudiReadOptions"):
        options = hudi.HudiReadOptions().with_query_type(hudi.HudiQueryType.Incremental)
        options = options.with_start_timestamp(job["begin"])
        return table.read(options.with_end_timestamp(job["end"]) if job["end"] else options)
    if hasattr(table, "read_incremental_records"):
        return table.read_incremental_records(job["begin"], job["end"])
    return None


def do(job):
    """Rows as text, because releases differ in the types that they show."""
    import hudi
    import pyarrow as pa

    if hasattr(hudi, "HudiTableBuilder"):
        table = hudi.HudiTableBuilder.from_base_uri(job["path"]).build()
    else:
        table = hudi.HudiTable(job["path"])
    found = batches(table, job)
    if found is None:
        return {"outcome": "absent"}
    if not found:
        return {"outcome": "done", "rows": []}
    # Batches of one table may differ in what can be null.
    whole = pa.concat_tables([pa.table(each).select(job["columns"]) for each in found], promote_options="permissive")
    values = [column.to_pylist() for column in whole.columns]
    return {"outcome": "done", "rows": sorted([str(value) for value in row] for row in zip(*values, strict=True))}


if __name__ == "__main__":
    # Libraries print to standard output as they please; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = do(json.loads(line))
        except BaseException as error:  # a panic in Rust is no Exception
            answer = {"outcome": "error", "note": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
