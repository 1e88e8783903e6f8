"""The Delta tables that every release is tried on: each number, each feature, unused and in use."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from .delta_tables import PLAIN, PLAIN_TABLE, ROWS, Builder, Case, field_json, mapped, v2_checkpoint

# Features that only writers must know and that need nothing on disk to be listed.
_LISTED_FOR_WRITERS = (
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "identityColumns",
    "domainMetadata",
    "allowColumnDefaults",
    "inCommitTimestamp",
    "checkpointProtection",
    "materializePartitionColumns",
    "collations",
    "collations-preview",
    "icebergWriterCompatV1",
)
# Features that readers must know too.
_LISTED_FOR_READERS = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding-preview",
    "geospatial",
)
_COORDINATED = "(3,7|R: vacuumProtocolCheck|W: coordinatedCommits-preview,inCommitTimestamp,vacuumProtocolCheck)"
_LEGACY = ("(1,1)", "(1,2)", "(1,3)", "(1,4)", "(1,5)", "(1,6)", "(2,5)", "(2,6)", "(3,7)", "(1,7)")


def delta_cases() -> list[Case]:
    """All cases, in the order of the report."""
    cases = [Case(f"{text} unused", text, Builder(text)) for text in _LEGACY]
    cases += [_listed(f"(1,7|W: {name})", name) for name in _LISTED_FOR_WRITERS]
    cases += [_listed(f"(3,7|R: {name}|W: {name})", name) for name in _LISTED_FOR_READERS]
    cases += [
        _listed("(1,7|W: domainMetadata,rowTracking)", "rowTracking"),
        _listed("(1,7|W: clustering,domainMetadata)", "clustering"),
        _listed("(3,7|R: variantShredding,variantType|W: variantShredding,variantType)", "variantShredding"),
        _listed("(2,7|W: columnMapping)", "columnMapping, reader 2"),
        *(_listed(f"(2,7|W: columnMapping,icebergCompatV{n})", f"icebergCompatV{n}") for n in (1, 2)),
        _catalog("catalogManaged"),
        _catalog("catalogOwned-preview"),
        _listed(_COORDINATED, "coordinatedCommits-preview"),
    ]
    return cases + _from_the_future() + _in_use() + _mixed()


def spark_cases() -> list[Case]:
    """Those that releases of Delta Spark are tried on: they tell more kinds of tables apart.

    For a number of the future they want a list of features, where deltalake wants none.
    """
    feeding, vectors = {"delta.enableChangeDataFeed": "true"}, {"delta.enableDeletionVectors": "true"}
    fields, data, mapping = mapped("name")
    found = [
        *(each for each in delta_cases() if each.name != "writer 8"),
        Case("writer 8", "(1,8)", Builder("(1,8|W: )"), must_refuse=("write",)),
        Case(
            "change feed and vectors",
            "(3,7|R: deletionVectors|W: changeDataFeed,deletionVectors)",
            Builder("(3,7|R: deletionVectors|W: changeDataFeed,deletionVectors)", configuration=feeding | vectors),
            frozenset({"changeDataFeed", "deletionVectors"}),
        ),
        Case(
            "change feed on mapped columns",
            "(2,5)",
            Builder("(2,5)", fields, data, mapping | feeding),
            frozenset({"changeDataFeed", "columnMapping", "columnMapping:name"}),
        ),
    ]
    for name in ("typeWidening", "typeWidening-preview"):
        protocol = f"(3,7|R: {name}|W: {name})"
        change = {"toType": "integer", "fromType": "byte"} | ({"tableVersion": 0} if "preview" in name else {})
        wide = [*PLAIN, field_json("small", "integer", {"delta.typeChanges": [change]})]
        narrow = PLAIN_TABLE.append_column("small", pa.array([1, 2, 3], pa.int8()))
        rows = [(*row, n) for n, row in enumerate(ROWS, start=1)]
        case = {"rows": rows, "columns": ("id", "value", "small"), "row": {"id": 10, "value": "z", "small": 10}}
        on = {"delta.enableTypeWidening": "true"}
        made = _used("byte widened", protocol, name, fields=wide, data=narrow, configuration=on, case=case)
        found.append(made)
    return found


def trino_cases() -> list[Case]:
    """Those that releases of Trino are tried on, where every commit asks for a checkpoint.

    Besides those of Delta Spark, tables of whose kind some release returned or deleted other rows than asked for.
    """
    vectors, protocol = {"delta.enableDeletionVectors": "true"}, "(3,7|R: deletionVectors|W: deletionVectors)"
    parted = [*PLAIN, field_json("part", "string")]
    # The rows that are asked for and deleted are in the last of several pages.
    ids = range(40, 0, -1)
    paged: dict[str, Any] = {"data": pa.table({"id": pa.array(ids, pa.int64()), "value": ["p"] * 40}), "paged": True}
    rows = [(id, "p") for id in ids]
    found = [
        *spark_cases(),
        Case(
            "vector in a partition, (3,7)",
            protocol,
            Builder(protocol, parted, configuration=vectors, deleted=[1], partition={"part": "x"}),
            frozenset({"deletionVectors", "deletionVectors:partitioned"}),
            rows=[(1, "a", "x"), (3, "c", "x")],
            columns=("id", "value", "part"),
            row={"id": 10, "value": "z", "part": "x"},
        ),
        Case("several pages, (1,2)", "(1,2)", Builder("(1,2)", **paged), rows=rows),
        _used(
            "several pages under a vector",
            protocol,
            "deletionVectors",
            configuration=vectors,
            deleted=[38],
            # Its only file has a vector, and pages are skipped in files that have none.
            case={"rows": [row for row in rows if row[0] != 2], "untold": ("write.delete", "write.merge")},
            **paged,
        ),
    ]
    # No file of this one has a vector, and what becomes of those that have one is the question.
    none_yet = {"change feed and vectors": ("write.optimize",)}
    return [
        dataclasses.replace(each, build=_as_trino_meets_it(each.build), untold=none_yet.get(each.name, each.untold))
        for each in found
    ]


def _as_trino_meets_it(build: Any) -> Any:
    """With a checkpoint for every commit, and variants as Spark lays them out: Trino goes by their order.

    The hint at a V2 checkpoint names it, as Spark's does: Trino looks for it nowhere else.
    """
    if not isinstance(build, Builder):
        return lambda folder: _hinted(build, folder)
    data = build.data
    if "v" in data.column_names:
        parts = [data["v"].combine_chunks().field(name) for name in ("value", "metadata")]
        inside = [pa.field(name, pa.binary(), False) for name in ("value", "metadata")]
        data = data.set_column(2, "v", pa.StructArray.from_arrays(parts, fields=inside))
    return dataclasses.replace(build, data=data, configuration=build.configuration | {"delta.checkpointInterval": "1"})


def _hinted(build: Any, folder: Path) -> None:
    build(folder)
    log = folder / "_delta_log"
    checkpoint = next(log.glob("*.checkpoint.*.json"))
    told = {"path": checkpoint.name, "sizeInBytes": checkpoint.stat().st_size, "modificationTime": 1_700_000_000_000}
    hint = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps(hint | {"v2Checkpoint": told}))


def _from_the_future() -> list[Case]:
    """Numbers and names that do not exist: whoever acts on such a table cannot know what it is doing."""
    reader, writer = "(3,7|R: shinyReader|W: shinyReader)", "(1,7|W: shinyWriter)"
    both, write = ("read", "write"), ("write",)
    names = frozenset({"shinyReader", "shinyWriter"})
    return [
        Case("reader 4 and writer 8", "(4,8)", Builder("(4,8)"), must_refuse=both),
        Case("writer 8", "(1,8)", Builder("(1,8)"), must_refuse=write),
        Case("a reader feature of the future", reader, Builder(reader), names, must_refuse=both),
        Case("a writer feature of the future", writer, Builder(writer), names, must_refuse=write),
    ]


def _listed(protocol: str, name: str) -> Case:
    return Case(f"{name} listed", protocol, Builder(protocol))


def _catalog(name: str) -> Case:
    protocol = f"(3,7|R: {name},vacuumProtocolCheck|W: {name},inCommitTimestamp,vacuumProtocolCheck)"
    builder = Builder(protocol, commit_info={"inCommitTimestamp": 1_700_000_000_000})
    builder.configuration = {"delta.enableInCommitTimestamps": "true"}
    # Newer commits may be known to the catalog alone, so whoever goes by the folder cannot know what it reads.
    used, both = frozenset({"inCommitTimestamp", name}), ("read", "write")
    return Case(f"{name}, (3,7)", protocol, builder, used, must_refuse=both, by_catalog=True)


def _in_use() -> list[Case]:
    return [
        *_mapped_tables(),
        *_rules(),
        *_vectors(),
        *_types(),
        *_writer_duties(),
    ]


def _mapped_tables() -> list[Case]:
    found = []
    for mode in ("name", "id"):
        fields, data, configuration = mapped(mode)
        for protocol in ("(2,5)", "(2,7|W: columnMapping)", "(3,7|R: columnMapping|W: columnMapping)"):
            builder = Builder(protocol, fields, data, configuration)
            modes = {"columnMapping", f"columnMapping:{mode}"}
            name = f"column mapping by {mode}, {protocol[:4]})"
            found.append(Case(name, protocol, builder, frozenset(modes), promised=_physical_names))
    return found


def _rules() -> list[Case]:
    invariant = '{"expression":{"expression":"id < 100"}}'
    with_invariant = [field_json("id", "long", {"delta.invariants": invariant}), PLAIN[1]]
    constraint = {"delta.constraints.small": "id < 100"}
    bad = {"id": 1000, "value": "z"}
    doubled = [*PLAIN, field_json("twice", "long", {"delta.generationExpression": "id * 2"})]
    doubled_data = PLAIN_TABLE.append_column("twice", pa.array([2, 4, 6], pa.int64()))
    generated: dict[str, Any] = {
        "rows": [(1, "a", 2), (2, "b", 4), (3, "c", 6)],
        "columns": ("id", "value", "twice"),
        "row": {"id": 10, "value": "z", "twice": 20},
        "bad_row": {"id": 10, "value": "z", "twice": 999},
    }
    appending, feeding = {"delta.appendOnly": "true"}, {"delta.enableChangeDataFeed": "true"}
    return [
        _used("append-only", "(1,2)", "appendOnly", configuration=appending),
        _used("append-only", "(1,7|W: appendOnly)", "appendOnly", configuration=appending),
        _used("invariant", "(1,2)", "invariants", fields=with_invariant, case={"bad_row": bad}),
        _used("invariant", "(1,7|W: invariants)", "invariants", fields=with_invariant, case={"bad_row": bad}),
        _used("check constraint", "(1,3)", "checkConstraints", configuration=constraint, case={"bad_row": bad}),
        _used(
            "check constraint",
            "(1,7|W: checkConstraints)",
            "checkConstraints",
            configuration=constraint,
            case={"bad_row": bad},
        ),
        _used("change feed", "(1,4)", "changeDataFeed", configuration=feeding),
        _used("change feed", "(1,7|W: changeDataFeed)", "changeDataFeed", configuration=feeding),
        _used("generated column", "(1,4)", "generatedColumns", fields=doubled, data=doubled_data, case=generated),
        _used(
            "generated column",
            "(1,7|W: generatedColumns)",
            "generatedColumns",
            fields=doubled,
            data=doubled_data,
            case=generated,
        ),
        *(_identity(protocol) for protocol in ("(1,6)", "(1,7|W: identityColumns)")),
    ]


def _identity(protocol: str) -> Case:
    facts = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 3}
    key = field_json("key", "long", facts | {"delta.identity.allowExplicitInsert": False})
    data = PLAIN_TABLE.append_column("key", pa.array([1, 2, 3], pa.int64()))

    def promised(actions: list[dict[str, Any]], rows: pa.Table) -> str:
        missing = "key" not in rows.column_names or rows["key"].null_count > 0
        return "the identity column was left empty" if missing else ""

    return _used("identity column", protocol, "identityColumns", fields=[*PLAIN, key], data=data, promised=promised)


def _vectors() -> list[Case]:
    protocol = "(3,7|R: deletionVectors|W: deletionVectors)"
    left = {"rows": [ROWS[0], ROWS[2]]}
    on = {"delta.enableDeletionVectors": "true"}
    return [
        _used("vector in a file", protocol, "deletionVectors", configuration=on, deleted=[1], case=left),
        _used(
            "vector inline", protocol, "deletionVectors", configuration=on, deleted=[1], inline_vector=True, case=left
        ),
        Case(
            "V2 checkpoint, (3,7)",
            "(3,7|R: v2Checkpoint|W: v2Checkpoint)",
            v2_checkpoint(
                Builder("(3,7|R: v2Checkpoint|W: v2Checkpoint)", configuration={"delta.checkpointPolicy": "v2"})
            ),
            frozenset({"v2Checkpoint"}),
        ),
    ]


def _types() -> list[Case]:
    found = []
    moments = [datetime.datetime(2024, 1, day, 12) for day in (1, 2, 3)]
    clocks = PLAIN_TABLE.append_column("at", pa.array(moments, pa.timestamp("us")))
    local = [*PLAIN, field_json("at", "timestamp_ntz")]
    at = {"id": 10, "value": "z", "at": datetime.datetime(2024, 1, 4, 12)}
    ntz = {"rows": [(*row, moment) for row, moment in zip(ROWS, moments, strict=True)], "row": at}
    ntz["columns"] = ("id", "value", "at")
    protocol = "(3,7|R: timestampNtz|W: timestampNtz)"
    found.append(_used("local timestamps", protocol, "timestampNtz", fields=local, data=clocks, case=ntz))
    for name in ("typeWidening", "typeWidening-preview"):
        protocol = f"(3,7|R: {name}|W: {name})"
        change = {"toType": "long", "fromType": "integer"} | ({"tableVersion": 0} if "preview" in name else {})
        wide = [field_json("id", "long", {"delta.typeChanges": [change]}), PLAIN[1]]
        narrow = PLAIN_TABLE.set_column(0, "id", pa.array([1, 2, 3], pa.int32()))
        on = {"delta.enableTypeWidening": "true"}
        made = _used("widened column", protocol, name, fields=wide, data=narrow, configuration=on)
        found.append(dataclasses.replace(made, enabled=frozenset({name, f"{name}:beyond-integer"})))
    for name in ("variantType", "variantType-preview"):
        protocol = f"(3,7|R: {name}|W: {name})"
        # The variants of the numbers 1, 2 and 3: an empty dictionary, and a one-byte integer each.
        values = [{"value": bytes([0x0C, n]), "metadata": b"\x01\x00\x00"} for n in (1, 2, 3)]
        type = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
        data = PLAIN_TABLE.append_column("v", pa.array(values, type))
        row = {"id": 10, "value": "z", "v": 10}
        found.append(
            _used(
                "variant column",
                protocol,
                name,
                fields=[*PLAIN, field_json("v", "variant")],
                data=data,
                case={"row": row},
            )
        )
    return found


def _writer_duties() -> list[Case]:
    row_ids = '{"rowIdHighWaterMark":2}'

    def numbered(actions: list[dict[str, Any]], rows: pa.Table) -> str:
        adds = [action["add"] for action in actions if "add" in action]
        return "" if all("baseRowId" in add for add in adds) else "new files have no row ids"

    def stamped(actions: list[dict[str, Any]], rows: pa.Table) -> str:
        first = actions[0].get("commitInfo", {})
        return "" if "inCommitTimestamp" in first else "the commit has no in-commit timestamp"

    tracking = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col-1",
    }
    defaults = [PLAIN[0], field_json("value", "string", {"CURRENT_DEFAULT": "'x'"})]
    time = 1_700_000_000_000
    return [
        _used(
            "row tracking",
            "(1,7|W: domainMetadata,rowTracking)",
            "rowTracking",
            configuration=tracking,
            domains={"delta.rowTracking": row_ids},
            add={"baseRowId": 0, "defaultRowCommitVersion": 0},
            promised=numbered,
        ),
        _used(
            "in-commit timestamps",
            "(1,7|W: inCommitTimestamp)",
            "inCommitTimestamp",
            configuration={"delta.enableInCommitTimestamps": "true"},
            commit_info={"inCommitTimestamp": time},
            promised=stamped,
        ),
        _used(
            "clustering",
            "(1,7|W: clustering,domainMetadata)",
            "clustering",
            domains={"delta.clustering": '{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}'},
        ),
        _used(
            "column default",
            "(1,7|W: allowColumnDefaults)",
            "allowColumnDefaults",
            fields=defaults,
            case={"short_row": {"id": 10}},
        ),
        _used(
            "protected history",
            "(1,7|W: checkpointProtection)",
            "checkpointProtection",
            configuration={"delta.requireCheckpointProtectionBeforeVersion": "0"},
        ),
    ]


def _mixed() -> list[Case]:
    """Several features at once, as real tables have them. Knowledge is about single ones; here it must add up."""
    fields, data, mapping = mapped("name")
    vectors = {"delta.enableDeletionVectors": "true"}
    left = {"rows": [ROWS[0], ROWS[2]]}
    rules = {"delta.constraints.small": "id < 100", "delta.enableChangeDataFeed": "true"}
    wide = [field_json("id", "long", {"delta.typeChanges": [{"toType": "long", "fromType": "integer"}]}), PLAIN[1]]
    narrow = PLAIN_TABLE.set_column(0, "id", pa.array([1, 2, 3], pa.int32()))

    def both(*names: str, writers: tuple[str, ...] = ()) -> str:
        return f"(3,7|R: {','.join(sorted(names))}|W: {','.join(sorted((*names, *writers)))})"

    def mix(name: str, protocol: str, used: set[str], case: dict[str, Any] | None = None, **parts: Any) -> Case:
        return Case(f"mixed: {name}", protocol, Builder(protocol, **parts), frozenset(used), **(case or {}))

    plain = ("appendOnly", "invariants")
    checkpointed = both("deletionVectors", "v2Checkpoint", writers=plain)
    policy = {"delta.checkpointPolicy": "v2"}
    return [
        mix(
            "vectors",
            both("deletionVectors", writers=plain),
            {"deletionVectors"},
            left,
            configuration=vectors,
            deleted=[1],
        ),
        mix(
            "vectors on mapped columns",
            both("columnMapping", "deletionVectors", writers=plain),
            {"columnMapping", "columnMapping:name", "deletionVectors"},
            left | {"promised": _physical_names},
            fields=fields,
            data=data,
            configuration=mapping | vectors,
            deleted=[1],
        ),
        mix(
            "vectors and vacuum check",
            both("deletionVectors", "vacuumProtocolCheck", writers=plain),
            {"deletionVectors"},
            left,
            configuration=vectors,
            deleted=[1],
        ),
        mix(
            "mapped columns, reader 2",
            "(2,7|W: appendOnly,columnMapping,invariants)",
            {"columnMapping", "columnMapping:name"},
            {"promised": _physical_names},
            fields=fields,
            data=data,
            configuration=mapping,
        ),
        mix("mapped columns, (2,6)", "(2,6)", {"columnMapping"}, fields=fields, data=data, configuration=mapping),
        mix(
            "widened, vectors listed",
            both("deletionVectors", "typeWidening"),
            {"typeWidening", "typeWidening:beyond-integer"},
            fields=wide,
            data=narrow,
        ),
        mix("after a drop", "(1,7|W: appendOnly,checkpointProtection,invariants)", {"checkpointProtection"}),
        mix("in-commit timestamps listed", "(1,7|W: appendOnly,changeDataFeed,inCommitTimestamp,invariants)", set()),
        mix(
            "constraint and change feed, (1,4)",
            "(1,4)",
            {"checkConstraints", "changeDataFeed"},
            {"bad_row": {"id": 1000, "value": "z"}},
            configuration=rules,
        ),
        mix(
            "constraint and change feed, (1,7)",
            "(1,7|W: appendOnly,changeDataFeed,checkConstraints,invariants)",
            {"checkConstraints", "changeDataFeed"},
            {"bad_row": {"id": 1000, "value": "z"}},
            configuration=rules,
        ),
        mix("variants and vectors listed", both("deletionVectors", "variantType", writers=plain), set()),
        Case(
            "mixed: V2 checkpoint, vectors listed",
            checkpointed,
            v2_checkpoint(Builder(checkpointed, configuration=policy)),
            frozenset({"v2Checkpoint"}),
        ),
    ]


def _physical_names(actions: list[dict[str, Any]], rows: pa.Table) -> str:
    return "" if {"col-1111", "col-2222"} <= set(rows.column_names) else "new files do not use the physical names"


def _used(
    name: str, protocol: str, feature: str, *, case: dict[str, Any] | None = None, promised: Any = None, **parts: Any
) -> Case:
    made = Case(f"{name}, {protocol[:4]})", protocol, Builder(protocol, **parts), frozenset({feature}), **(case or {}))
    if feature.endswith("-preview"):
        made = dataclasses.replace(made, name=f"{made.name} preview")
    return dataclasses.replace(made, promised=promised) if promised else made
