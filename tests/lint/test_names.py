"""One word names one thing: no public class name stands in two modules of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "halocline"
GENERATED = SOURCE / "fleet" / "wire" / "proto" / "v1"


def classes() -> dict[str, list[str]]:
    """Where each public class is defined, however deep, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(GENERATED):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def test_no_public_class_name_occurs_twice():
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    assert not twice, "name each after what it is of: " + "; ".join(
        f"{name} in {', '.join(places)}" for name, places in sorted(twice.items())
    )


def test_the_search_finds_the_classes_there_are():
    found = classes()
    assert len(found) > 300, "the search must not miss the package"
    assert found["FleetHandle"] == [f"fleet/member/handle.py:{line_of('class FleetHandle')}"]


def line_of(text: str) -> int:
    lines = (SOURCE / "fleet" / "member" / "handle.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(text))
