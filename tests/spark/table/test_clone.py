from tests.support.tables import Untouched, in_order, live_files, rows, their_rows

from halocline.table import Table


def test_clone_is_read_and_written_without_touching_its_source(spark, tmp_path):
    source = Table.create(
        tmp_path / "a source",
        spark.sql("SELECT id, CAST(id % 2 AS INT) p FROM range(6)"),
        partition_by="p",
        properties={"delta.enableDeletionVectors": "true", "delta.constraints.positive": "id >= 0"},
    )
    source.overwrite(spark.sql("SELECT 1L id, 1 p"), where="id IN (1, 2)")
    with Untouched(tmp_path / "a source"):
        clone = source.shallow_clone(tmp_path / "clone")
        assert rows(clone) == rows(source) == their_rows(tmp_path / "clone")
        clone.append(spark.sql("SELECT 100L id, 0 p"))
        clone.overwrite(spark.sql("SELECT 3L id, 1 p"), where="id = 3 OR id = 4")
    assert rows(clone, "id") == in_order([(n,) for n in (0, 1, 3, 5, 100)])
    assert their_rows(tmp_path / "clone") == rows(clone)
    assert any(path.startswith("file://") for path in live_files(tmp_path / "clone"))
    old = source.shallow_clone(tmp_path / "old", version=0)
    assert len(rows(old)) == 6
