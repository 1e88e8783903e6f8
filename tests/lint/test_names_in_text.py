"""Names of modules, classes, functions and files in the documentation and in docstrings are names of what exists."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import halocline
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.split.layout import KEY as LAYOUT_KEY
from halocline.spark.session.settings import NAMES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "halocline"
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))]
DOTTED = re.compile(r"(?<![\w./@-])halocline(?:\.[A-Za-z_]\w*)+")
QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
PATH = re.compile(r"(?<![\w./:-])(?:src|tests|docs|bench|examples)/[\w./*-]*[\w*/]")
QUOTED_PATH = re.compile(r"`([a-z_]+/[\w./*-]+)`")
LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]+)?\)")
# Properties, settings, keys of files, operations of a verdict, files, names of columns, and what a DataFrame has.
FOREIGN = re.compile(
    r"(delta|spark|hoodie|with|read|write|df|_metadata|DataFrame|sales|[a-z])\.|.*\.(py|toml|md|json|proto)$"
)
PROPERTIES = (OPTIONS_KEY, LAYOUT_KEY.decode())
EXAMPLE_LAKE = ("lake/sales", "lake/orders", "lake/items")  # the tables of examples lie where a room has its name
PROTOBUF_PACKAGE = "halocline.fleet.v1"
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """The names that statements bind, each with what it is bound to."""
    for node in body:
        if isinstance(node, Definition):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            yield from bound(node.body)
        else:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))


@functools.cache
def module_members() -> dict[str, dict[str, ast.AST]]:
    found = {module_name(path): dict(bound(tree(path).body)) for path in MODULES}
    for name in list(found):
        package, _, stem = name.rpartition(".")
        found.get(package, {}).setdefault(stem, ast.Module([], []))
    found["halocline"] |= dict.fromkeys(halocline.__all__, ast.Module([], []))
    return found


@functools.cache
def class_members() -> dict[str, set[str]]:
    """What the classes of each name have, with what they inherit; of `Table`, also what the formats' own add."""
    members: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                members[node.name] |= {name for name, _ in bound(node.body)}
                members[node.name] |= {each.attr for each in ast.walk(node) if is_own_attribute(each)}
                bases[node.name] |= {each.id for each in node.bases if isinstance(each, ast.Name)}
    changed = True
    while changed:
        changed = False
        for name, above in bases.items():
            inherited = set().union(*(members[each] for each in above if each in members)) - members[name]
            members[name] |= inherited
            changed = changed or bool(inherited)
    members["Table"] |= set().union(*(members[name] for name, above in bases.items() if "Table" in above))
    return members


def is_own_attribute(node: ast.AST) -> bool:
    """Whether it is `self.x = ...`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def resolves(name: str) -> bool:
    """Whether a dotted name that begins with the package is a module, one of its names, or a member of its classes."""
    parts = name.split(".")
    cut = next(cut for cut in range(len(parts), 0, -1) if ".".join(parts[:cut]) in module_members())
    members, rest = module_members()[".".join(parts[:cut])], parts[cut:]
    return not rest or (rest[0] in members and (not rest[1:] or rest[1] in class_members().get(rest[0], ())))


def exists(name: str, path: Path) -> bool:
    """Whether a name in backticks is one of ours, spelt from a package, a module or a class; or a foreign one."""
    first, second = name.split(".")[:2]
    if FOREIGN.match(name):
        return True
    if first in class_members():
        return second in class_members()[first]
    ours = [module for module in module_members() if module.split(".")[-1] == first]
    if ours:
        return any(resolves(module + name[len(first) :]) for module in ours)
    return first in names_used(path) or importlib.util.find_spec(first) is not None


@functools.cache
def names_used(path: Path) -> set[str]:
    """The variables and attributes of a module; none of a page."""
    nodes = list(ast.walk(tree(path))) if path.suffix == ".py" else []
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@functools.cache
def text_of(path: Path) -> str:
    """A page as it is, and of a module its docstrings."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8")
    nodes = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Module | Definition)]
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def assert_none(unknown: list[tuple[Path, str]]) -> None:
    lines = sorted({f"{path.relative_to(ROOT)}: {name}" for path, name in unknown})
    assert not lines, "these names are of nothing that exists:\n" + "\n".join(lines)


def test_names_that_begin_with_the_package_are_ours_or_settings():
    named = [(path, match[0]) for path in [*PAGES, *MODULES] for match in DOTTED.finditer(text_of(path))]
    assert len(named) > 80, "the texts name hardly anything: is the pattern right?"
    assert_none(
        [
            (path, name)
            for path, name in named
            if not resolves(name) and name not in {*NAMES, *PROPERTIES, PROTOBUF_PACKAGE}
        ]
    )


def test_names_in_backticks_are_ours_or_foreign():
    named = [(path, match[1]) for path in [*PAGES, *MODULES] for match in QUOTED.finditer(text_of(path))]
    named = [(path, name) for path, name in named if not name.startswith("halocline.")]
    assert len(named) > 80, "the texts name hardly anything: is the pattern right?"
    assert_none([(path, name) for path, name in named if not exists(name, path)])


def test_paths_are_files_or_folders():
    missing = []
    for path in [*PAGES, *MODULES]:
        text = text_of(path)
        named = {match[0] for match in PATH.finditer(text)}
        missing += [(path, each) for each in named if not any(ROOT.glob(each))]
        for each in {match[1] for match in QUOTED_PATH.finditer(text)} - named:
            if (
                (SOURCE / each.split("/")[0]).is_dir()
                and not each.startswith(EXAMPLE_LAKE)
                and not any(SOURCE.glob(each))
            ):
                missing.append((path, each))
    assert_none(missing)


def test_links_between_pages_lead_somewhere():
    links = [(page, match[1]) for page in PAGES for match in LINK.finditer(text_of(page))]
    assert_none([(page, link) for page, link in links if not (page.parent / link).exists()])


@pytest.mark.parametrize(
    "name",
    ["halocline.tables", "halocline.table.Tables", "halocline.table.table.Table.for_paths", "halocline.fleet.x.y"],
)
def test_a_name_of_nothing_is_noticed(name):
    assert not resolves(name)
