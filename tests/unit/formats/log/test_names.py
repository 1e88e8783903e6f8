import pytest

from halocline.formats.log.names import DELTA, FileKind
from halocline.storage.base import ObjectMeta

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
V = f"{7:020d}"


@pytest.mark.parametrize(
    ("name", "kind", "end", "part", "parts"),
    [
        (f"{V}.json", FileKind.COMMIT, 7, 0, 0),
        (f"{V}.crc", FileKind.CHECKSUM, 7, 0, 0),
        (f"{V}.checkpoint.parquet", FileKind.CHECKPOINT, 7, 0, 0),
        (f"{V}.checkpoint.0000000002.0000000003.parquet", FileKind.CHECKPOINT_PART, 7, 2, 3),
        (f"{V}.checkpoint.{UUID}.json", FileKind.CHECKPOINT_BY_ID, 7, 0, 0),
        (f"{V}.checkpoint.{UUID}.parquet", FileKind.CHECKPOINT_BY_ID, 7, 0, 0),
        (f"{V}.{9:020d}.compacted.json", FileKind.COMPACTION, 9, 0, 0),
    ],
)
def test_every_name_of_a_log_says_what_it_is(name, kind, end, part, parts):
    file = DELTA.parse(ObjectMeta(f"_delta_log/{name}", 10, 20))
    assert file is not None, name
    assert (file.kind, file.version, file.end, file.part, file.parts, file.name) == (kind, 7, end, part, parts, name)
    assert (file.size, file.modified_ms) == (10, 20)


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/_last_checkpoint",
        "_delta_log/7.json",
        f"_delta_log/{V}.json.tmp",
        f"_delta_log/.{V}.json.crc",
        f"_delta_log/_staged_commits/{V}.{UUID}.json",
        f"_delta_log/_sidecars/{V}.parquet",
        f"other/{V}.json",
        f"_delta_log/{V}.checkpoint.2.3.parquet",
        f"_delta_log/{V}.checkpoint.{UUID}.avro",
        f"_delta_log/{'٧' * 20}.json",
    ],
)
def test_other_names_are_no_part_of_the_log(path):
    assert DELTA.parse(ObjectMeta(path, 1, 1)) is None
