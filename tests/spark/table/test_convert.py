from datetime import date

from tests.support.tables import data_files, live_files, rows, their_rows

from halocline.table import Table


def test_folder_that_spark_wrote_is_read_appended_to_and_pruned(spark, tmp_path):
    path = tmp_path / "t"
    df = spark.sql("SELECT id, IF(id < 2, DATE '2024-01-31', NULL) day, 'a b/c' `Name`, double(id) d FROM range(4)")
    df.write.partitionBy("day").parquet(str(path))
    table = Table.convert_to_delta(path, spark, partition_by="day DATE")
    expected = [(n, "a b/c", float(n), date(2024, 1, 31) if n < 2 else None) for n in range(4)]
    assert rows(table) == expected
    assert their_rows(path) == expected
    converted = live_files(path)
    assert converted == {file for file in data_files(path) if file.endswith(".parquet") and "_SUCCESS" not in file}
    table.append(spark.sql("SELECT 9L id, 'new' name, 1.5 d"))
    assert len(rows(table)) == 5
    assert len(table.snapshot().files("day = DATE '2024-01-31'")) < len(live_files(path))
    assert len(table.snapshot().files("id > 100")) == 0
