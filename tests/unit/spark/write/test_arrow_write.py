from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.schema import Array, Field, Map, Primitive, Struct
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.arrow_write import ArrowWriter
from halocline.storage import open_store

LONG, TEXT = Primitive("long"), Primitive("string")
MANY = 60_000


def encodings(root, columns):
    """Whether each column of a file that is written has a dictionary."""
    fields = [Field(name, type) for name, (type, _) in columns.items()]
    writer = ArrowWriter.of(open_store(str(root)), FileLayout(Struct(fields), [], "none"), {}, name="new")
    rows = pa.table({name: values for name, (_, values) in columns.items()})
    (file,) = writer.write(iter(rows.to_batches()))
    found = pq.ParquetFile(root / file.path)
    assert found.read().to_pylist() == rows.to_pylist(), "what is written is the same with and without"
    group = found.metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}


def test_values_that_hardly_repeat_have_no_dictionary(tmp_path):
    found = encodings(
        tmp_path,
        {
            "id": (LONG, pa.array(range(MANY))),
            "text": (TEXT, pa.array([f"name-{n}" for n in range(MANY)])),
            "k": (LONG, pa.array([n % 20_000 for n in range(MANY)])),
            "few": (TEXT, pa.array([None if n % 3 else f"name-{n % 9}" for n in range(MANY)])),
            "none": (TEXT, pa.nulls(MANY, pa.string())),
        },
    )
    assert found == {"id": False, "text": False, "k": True, "few": True, "none": True}


def test_rows_inside_of_others_and_few_rows_have_dictionaries(tmp_path):
    inside = {
        "s": (Struct([Field("a", TEXT)]), pa.array([{"a": f"{n % 7}"} for n in range(MANY)])),
        "l": (Array(LONG), pa.array([[n % 5] for n in range(MANY)])),
        "m": (
            Map(TEXT, LONG),
            pa.array([[(f"{n % 3}", n % 4)] for n in range(MANY)], pa.map_(pa.string(), pa.int64())),
        ),
    }
    found = encodings(tmp_path / "inside", inside)
    assert found == {"s.a": True, "l.list.element": True, "m.key_value.key": True, "m.key_value.value": True}
    assert encodings(tmp_path / "few", {"id": (LONG, pa.array(range(100)))}) == {"id": True}
