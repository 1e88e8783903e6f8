"""The schemas that other implementations wrote come out as they were."""

from __future__ import annotations

import json

from tests.support.conformance import tables_of

from halocline.schema.json_edge import dump, parse

TABLES = tables_of("delta")


def schemas() -> set[str]:
    lines = (line for path in TABLES.rglob("_delta_log/*.json") for line in path.read_text().splitlines())
    actions = (json.loads(line) for line in lines if '"metaData"' in line)
    return {action["metaData"].get("schemaString", "") for action in actions if "metaData" in action}


def test_every_schema_of_another_implementation_comes_out_as_it_was():
    found = schemas()
    assert len(found) >= 20
    assert [text for text in found if text and dump(parse(text)) != text] == []
