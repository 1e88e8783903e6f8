"""Conditions and classes of errors: registered, documented, and raised somewhere."""

import inspect
import re
from pathlib import Path

import halocline
from halocline import errors
from halocline.errors import CONDITIONS, HaloclineError

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, HaloclineError)]
SOURCES = sorted(Path(halocline.__file__).parent.rglob("*.py"))


def test_every_error_class_of_the_package_is_in_the_tree_or_private():
    """Other modules may refine an error for their own use, but not give callers one to catch that is not drawn."""
    strays = [
        f"{path.name}: {found['name']}"
        for path in SOURCES
        if path.name != "errors.py"
        for found in re.finditer(r"^class (?P<name>\w+)\((?P<bases>[^)]*Error)\)", path.read_text(), re.MULTILINE)
        if not found["name"].startswith("_")
    ]
    assert strays == []


def test_conditions_are_sorted_and_spelled_alike():
    assert list(CONDITIONS) == sorted(CONDITIONS)
    for code, meaning in CONDITIONS.items():
        assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code)
        assert re.fullmatch(r"[A-Z].*\.", meaning), f"{code}: {meaning}"


def test_every_condition_used_in_the_sources_is_registered():
    used = {
        (path.name, code)
        for path in SOURCES
        for code in re.findall(r"\b(?:condition|default_condition)\s*=\s*\"([A-Z_]+)\"", path.read_text())
    }
    assert {(name, code) for name, code in used if code not in CONDITIONS} == set()


def test_every_registered_condition_is_raised_somewhere():
    """A code that nothing raises is a promise that nothing keeps."""
    registry = inspect.getsource(errors).partition("CONDITIONS: Final")[2].partition("\n)\n")[0]
    text = "".join(path.read_text() for path in SOURCES).replace(registry, "")
    assert [code for code in CONDITIONS if f'"{code}"' not in text] == []
