import shutil

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from tests.support import columns
from tests.support.columns import field
from tests.support.tables import live_files, their_rows

import halocline as hc
from halocline.errors import AlreadyExistsError, InputError
from halocline.formats.delta.actions.action import Add, DeletionVector, DomainMetadata
from halocline.formats.delta.actions.deletion_vectors import read_positions, write_file
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.log.file_actions import adds_from, removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.table.delta.clone import CloneRequest
from halocline.table.delta.clone import clone as cloned
from halocline.table.delta.opened import Opened

MAPPED = {"delta.columnMapping.mode": "name"}
ROWS = pa.table({"id": [1, 2, 3], "country": ["at", "nz", "at"]})


class Lake:
    def __init__(self, folder, configuration=None, named=()):
        self.folder = folder
        self.store = open_store(str(folder))
        schema = columns.schema(field("id", "long"))
        state = new_table(schema, (), configuration, name="orders", named=named)
        Transaction.create(self.store).commit((), "CREATE TABLE", configuration=state)

    def add(self, name, values, deleted=()):
        pq.write_table(pa.table({"id": values}), self.folder / name)
        vector = write_file(self.store, [deleted])[0] if deleted else None
        path = name.replace(" ", "%20")
        stats = f'{{"numRecords":{len(values)}}}'
        self.commit([Add(path, {}, (self.folder / name).stat().st_size, 1, True, stats=stats, deletion_vector=vector)])

    def commit(self, actions):
        return Transaction(Snapshot.load(self.store)).commit(actions, "WRITE")


def rows(folder):
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(folder)))
    return sorted(query.execute("SELECT id FROM t").read_all()["id"].to_pylist())


def test_clone_has_the_rows_of_a_version_and_a_life_of_its_own(tmp_path):
    source = Lake(tmp_path / "source", {"owner": "me", "delta.constraints.positive": "id > 0"})
    source.add("a b.parquet", [1, 2])
    source.add("c.parquet", [3])
    clone = cloned(Opened(source.store), tmp_path / "clone", CloneRequest(version=1, properties={"owner": "you"}))
    assert rows(tmp_path / "clone") == [1, 2]
    found, original = clone.snapshot(), Snapshot.load(source.store)
    assert (found.version, found.metadata.name) == (0, None)
    assert found.metadata.id != original.metadata.id
    assert found.protocol == original.protocol
    assert found.properties == {"owner": "you", "delta.constraints.positive": "id > 0"}
    info = found.commit_info.values
    assert (info["operation"], info["operationParameters"]["sourceVersion"]) == ("CLONE", 1)
    assert info["operationMetrics"]["sourceNumOfFiles"] == "1"
    target = tmp_path / "clone" / "new.parquet"
    pq.write_table(pa.table({"id": [9]}), target)
    Transaction(found).commit([Add("new.parquet", {}, target.stat().st_size, 1, True)], "WRITE")
    assert rows(tmp_path / "clone") == [1, 2, 9]
    assert rows(tmp_path / "source") == [1, 2, 3]


def test_deletion_vectors_are_named_by_where_they_are(tmp_path):
    source = Lake(tmp_path / "a source", {"delta.enableDeletionVectors": "true"})
    source.add("a.parquet", [1, 2, 3], deleted=[0, 2])
    clone = cloned(Opened(source.store), tmp_path / "clone")
    assert rows(tmp_path / "clone") == [2]
    again = cloned(clone, tmp_path / "again")
    assert rows(tmp_path / "again") == [2]
    vector = DeletionVector(**again.snapshot().files()["deletion_vector"][0].as_py())
    assert vector.storage_type == "p"
    assert list(read_positions(again.store, vector)) == [0, 2]


def test_row_ids_begin_anew_and_clustering_is_taken_over(tmp_path):
    source = Lake(tmp_path / "source", {"delta.enableRowTracking": "true"}, named=["clustering"])
    source.commit([DomainMetadata("delta.clustering", '{"clusteringColumns":[["id"]]}'), DomainMetadata("own", "{}")])
    source.add("a.parquet", [1, 2])
    source.add("b.parquet", [3, 4])
    column = "delta.rowTracking.materializedRowIdColumnName"
    clone = cloned(Opened(source.store), tmp_path / "clone").snapshot()
    assert sorted(clone.files()["base_row_id"].to_pylist()) == [0, 2]
    assert clone.domains.keys() == {"delta.clustering", "delta.rowTracking"}
    assert clone.properties[column] != Snapshot.load(source.store).properties.get(column)


def test_place_that_is_taken_and_new_constraints_are_refused(tmp_path):
    source = Lake(tmp_path / "source")
    with pytest.raises(AlreadyExistsError):
        cloned(Opened(source.store), tmp_path / "source")
    with pytest.raises(InputError, match="constraints"):
        cloned(Opened(source.store), tmp_path / "clone", CloneRequest(properties={"delta.constraints.a": "id > 0"}))
    assert not (tmp_path / "clone").exists()


def test_files_elsewhere_are_spelt_as_delta_spells_them(tmp_path):
    source = Lake(tmp_path / "a source", {"delta.enableDeletionVectors": "true"})
    source.add("a b.parquet", [1, 2, 3], deleted=[0])
    (file,) = cloned(Opened(source.store), tmp_path / "clone").snapshot().files().to_pylist()
    assert file["log_path"] == f"file:{tmp_path}/a%20source/a%20b.parquet"
    assert file["deletion_vector"]["path_or_inline_dv"].startswith(f"file:{tmp_path}/a%20source/deletion_vector_")


@pytest.mark.parametrize("spelt", ["file:{root}", "file://{root}", "{root}", "file:{root}/x/.."])
def test_clone_of_a_clone_keeps_the_spelling_of_urls(tmp_path, spelt):
    source = Lake(tmp_path / "source")
    other = Lake(tmp_path / "other")
    other.add("b.parquet", [7])
    written = spelt.format(root=tmp_path / "other") + "/b.parquet"
    source.commit([Add(written, {}, (tmp_path / "other" / "b.parquet").stat().st_size, 1, True)])
    (file,) = cloned(Opened(source.store), tmp_path / "clone").snapshot().files().to_pylist()
    assert file["log_path"] == (written if written.startswith("file:") else f"file:{written}")
    assert rows(tmp_path / "clone") == [7]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_removed_file_is_gone_for_clients_that_compare_paths_as_text(tmp_path, checkpointed):
    source = Lake(tmp_path / "a source")
    source.add("a b.parquet", [1])
    source.add("c.parquet", [2])
    clone = cloned(Opened(source.store), tmp_path / "clone", CloneRequest(version=1))
    Transaction(clone.snapshot()).commit([Add(f"file://{tmp_path}/a%20source/x/../c.parquet", {}, 1, 1, True)], "WRITE")
    if checkpointed:
        write_checkpoint(clone.store, 1)
    snapshot = clone.snapshot()
    assert len(deltalake.DeltaTable(str(tmp_path / "clone")).file_uris()) == snapshot.files().num_rows == 2
    Transaction(snapshot).commit(list(removes_from(snapshot.files(), timestamp_ms=1, data_change=True)), "DELETE")
    assert deltalake.DeltaTable(str(tmp_path / "clone")).file_uris() == []


def test_deep_clone_has_files_of_its_own(tmp_path):
    path = tmp_path / "source"
    source = hc.Table.create(path, ROWS, partition_by="country", properties={"delta.enableDeletionVectors": "true"})
    deltalake.DeltaTable(str(path)).delete("id = 2")
    required = source.deep_clone(tmp_path / "clone").protocol
    shutil.rmtree(path)
    shutil.move(tmp_path / "clone", tmp_path / "moved")
    found = hc.Table.for_path(tmp_path / "moved")
    assert sorted(found.to_arrow().read_all()["id"].to_pylist()) == [1, 3]
    assert found.history()[0].operation == "CLONE"
    assert found.protocol == required


@pytest.mark.parametrize("deep", [True, False])
def test_clone_in_place_of_a_table_is_its_next_version(tmp_path, deep):
    source = hc.Table.create(tmp_path / "source", ROWS)
    there = hc.Table.create(tmp_path / "there", pa.table({"other": [7]}), properties={"owner": "me"})
    with pytest.raises(AlreadyExistsError):
        source.shallow_clone(tmp_path / "there")
    identity = there.snapshot().metadata.id
    clone = (source.deep_clone if deep else source.shallow_clone)(tmp_path / "there", replace=True)
    assert (clone.version, clone.snapshot().metadata.id) == (1, identity)
    assert sorted(clone.to_arrow().read_all()["id"].to_pylist()) == [1, 2, 3]
    assert clone.to_arrow(version=0).read_all()["other"].to_pylist() == [7]
    assert "owner" not in clone.detail()["properties"]
    assert sorted(row[0] for row in their_rows(tmp_path / "there", "id")) == [1, 2, 3]


def test_clone_in_place_of_a_clone_of_the_same_source_keeps_the_files_that_it_has(tmp_path):
    tracked = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    source = Lake(tmp_path / "source", tracked)
    source.add("a b.parquet", [1, 2])
    source.add("c.parquet", [3, 4], deleted=[0])
    there = cloned(Opened(source.store), tmp_path / "clone", CloneRequest(version=2)).snapshot()
    source.add("d.parquet", [5])
    files = Snapshot.load(source.store).files()
    first = files.filter([path == "a b.parquet" for path in files["path"].to_pylist()])
    (vector,), (add,) = write_file(source.store, [[1]]), adds_from(first, data_change=True)
    source.commit([replace(add, deletion_vector=vector), *removes_from(first, timestamp_ms=1, data_change=True)])
    again = cloned(Opened(source.store), tmp_path / "clone", CloneRequest(replace=True)).snapshot()
    assert rows(tmp_path / "clone") == [1, 4, 5]
    metrics = again.commit_info.values["operationMetrics"]
    assert (metrics["sourceNumOfFiles"], metrics["numRemovedFiles"]) == ("3", "1"), "only the marked one is exchanged"
    column = "delta.rowTracking.materializedRowIdColumnName"
    assert again.properties[column] == there.properties[column], "rows that were rewritten keep their ids there"


@pytest.mark.parametrize("deep", [True, False])
def test_clone_in_place_of_a_mapped_table_is_mapped_by_the_names_of_its_source(tmp_path, deep):
    source = hc.Table.create(tmp_path / "source", ROWS, partition_by="country")
    there = hc.Table.create(tmp_path / "there", pa.table({"x": [7], "y": [8]}), properties=MAPPED)
    there.drop_column("y")
    clone = (source.deep_clone if deep else source.shallow_clone)(tmp_path / "there", replace=True)
    clone.rename_column("id", "key")
    clone.append_arrow(pa.table({"key": [4], "country": ["nz"]}))
    assert sorted(clone.to_arrow().read_all()["key"].to_pylist()) == [1, 2, 3, 4]
    assert clone.to_arrow(version=0).read_all().to_pydict() == {"x": [7], "y": [8]}
    assert clone.snapshot().properties["delta.columnMapping.maxColumnId"] == "4", "no id is given out twice"
    assert source.to_arrow().read_all().num_rows == 3


def test_shallow_clone_of_a_table_in_its_own_place_keeps_what_both_versions_have(tmp_path):
    source = Lake(tmp_path / "t")
    source.add("a.parquet", [1])
    source.add("b.parquet", [2])
    cloned(Opened(source.store), tmp_path / "t", CloneRequest(replace=True, version=1))
    assert rows(tmp_path / "t") == [1]
    assert Snapshot.load(source.store).files()["log_path"].to_pylist() == ["a.parquet"]


def test_failed_deep_clone_leaves_nothing_behind(tmp_path):
    source = hc.Table.create(tmp_path / "source", ROWS, partition_by="country")
    (tmp_path / "source" / sorted(live_files(tmp_path / "source"))[-1]).unlink()
    with pytest.raises(hc.NotFoundError):
        source.deep_clone(tmp_path / "clone")
    assert not [each for each in (tmp_path / "clone").rglob("*") if each.is_file()]


def test_copies_of_a_clone_that_is_interrupted_when_it_is_there_stay_readable(tmp_path, monkeypatch):
    source = hc.Table.create(tmp_path / "source", ROWS)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("halocline.formats.delta.commit.transaction.after_commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        source.deep_clone(tmp_path / "copy")
    copy = hc.Table.for_path(tmp_path / "copy")
    assert sorted(copy.to_arrow().read_all()["id"].to_pylist()) == [1, 2, 3]
