"""What is published: the package and nothing else, with a page that an index can show."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(folder, **environment: str):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    known = ("HALOCLINE_REPOSITORY", "GITHUB_REPOSITORY")
    given = {name: value for name, value in os.environ.items() if name not in known} | environment
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=given)
    (found,) = folder.glob("*.whl")
    return found


def metadata_of(wheel) -> tuple[str, str]:
    """The headers and the page."""
    archive = zipfile.ZipFile(wheel)
    (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
    headers, _, page = archive.read(name).decode().partition("\n\n")
    return headers, page


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("dist"))


def test_page_renders(wheel):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_link_of_the_page_is_dead(wheel):
    _, page = metadata_of(wheel)
    assert "# Halocline" in page
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", page) == [], "an index shows no file of the repository"
    relative = re.findall(r"\]\((?!https?://|#)([^)#]*)", (ROOT / "README.md").read_text())
    assert relative
    assert [each for each in relative if not (ROOT / each).exists()] == []
    assert [each for each in set(relative) if each.endswith(".md") and f"(`{each}`)" not in page] == []


def test_repository_that_is_known_is_linked_and_none_is_made_up(wheel, tmp_path):
    assert "Project-URL" not in metadata_of(wheel)[0]
    place = "https://git.example.org/sea/halocline"
    known = built(tmp_path, HALOCLINE_REPOSITORY=f"{place}/")
    headers, page = metadata_of(known)
    names = re.findall(rf"^Project-URL: (\w+), {place}", headers, re.MULTILINE)
    assert names == ["Source", "Documentation", "Changelog", "Issues"]
    assert f"[Speed]({place}/blob/main/docs/speed.md)" in page
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", page) == []


def test_wheel_holds_the_package_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"halocline", "pyspark_halocline"}
    assert [name for name in names if "test" in name.rpartition("/")[2] and name.endswith(".py")] == []
    assert "halocline/py.typed" in names
    assert "halocline/lake/page.html" in names


def test_code_of_the_wheel_imports_no_package_of_the_tests(wheel):
    archive = zipfile.ZipFile(wheel)
    trees = {name: ast.parse(archive.read(name)) for name in archive.namelist() if name.endswith(".py")}
    packages = {"pytest", "hypothesis", "deltalake", "duckdb", "moto", "tests"}
    found = [
        (name, each)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        for each in (
            [part.name for part in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None)]
        )
        if isinstance(node, ast.Import | ast.ImportFrom) and (each or "").partition(".")[0] in packages
    ]
    assert found == []
