import pytest

from halocline.errors import InputError, NotFoundError
from halocline.formats.base import TableFormat, detect_format, formats_at
from halocline.storage.memory import MemoryStore

COMMIT = f"{0:020d}.json"


def store(*paths: str) -> MemoryStore:
    made = MemoryStore()
    for path in paths:
        made.put(path, b"{}")
    return made


@pytest.mark.parametrize(
    ("path", "format"),
    [
        (f"_delta_log/{COMMIT}", TableFormat.DELTA),
        (f"_delta_log/{7:020d}.checkpoint.parquet", TableFormat.DELTA),
        (".hoodie/hoodie.properties", TableFormat.HUDI),
        (".hoodie/hoodie.properties.backup", TableFormat.HUDI),
        (f"_transaction_log/{COMMIT}", TableFormat.INDEX),
        (f"_transaction_log/state-v{1:020d}/_manifest.avro", TableFormat.INDEX),
    ],
)
def test_a_format_shows_by_its_log(path, format):
    assert detect_format(store(path, "part-0.parquet")) is format


@pytest.mark.parametrize("paths", [[], ["part-0.parquet"], ["_delta_log/readme.txt"], [f"deeper/_delta_log/{COMMIT}"]])
def test_a_folder_without_a_log_is_no_table(paths):
    assert formats_at(store(*paths)) == ()
    with pytest.raises(NotFoundError) as caught:
        detect_format(store(*paths))
    assert caught.value.condition == "TABLE_NOT_FOUND"
    assert "_delta_log" in caught.value.sides["looked for"]


def test_a_table_in_two_formats_asks_which_is_meant():
    both = store(f"_delta_log/{COMMIT}", ".hoodie/hoodie.properties")
    assert formats_at(both) == (TableFormat.DELTA, TableFormat.HUDI)
    with pytest.raises(InputError, match="more than one table"):
        detect_format(both)
