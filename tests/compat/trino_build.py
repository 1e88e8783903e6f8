"""A release of Trino with its Delta Lake connector and nothing else.

Maven Central has the server of every release, but the connector of few. So the connector is compiled from the source
at the release's tag, together with those of Trino's own libraries that Maven Central does not have either; everything
else is fetched. Nothing is changed in what is compiled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.interop_jvm.maven import NoEngineError

SOURCE = "HALOCLINE_TRINO_SOURCE"
"""A clone of Trino's repository with its tags; without it the tag is fetched from where the project has it."""

_ORIGIN = "https://github.com/trinodb/trino"
_CENTRAL = "https://repo1.maven.org/maven2/io/trino"
_ANTLR = "https://repo1.maven.org/maven2/org/antlr/antlr4"
_CONNECTOR = "trino-delta-lake"
_POM = '<project xmlns="http://maven.apache.org/POM/4.0.0">'
_JVMS = Path("/usr/lib/jvm")


def java(version: str) -> Path:
    """The home of the oldest Java here that runs a release.

    Raises:
        NoEngineError: There is none, or the release cannot be looked at.
    """
    wanted = int(_text(version, "pom.xml", r"<project.build.targetJdk>(\d+)<"))
    homes = {_major(home): home for home in _homes()}
    fitting = sorted(major for major in homes if major >= wanted)
    if not fitting:
        raise NoEngineError(f"Trino {version} needs a JDK {wanted}, here are {', '.join(map(str, sorted(homes)))}")
    return homes[fitting[0]]


def build(version: str, folder: Path) -> None:
    """Puts a server with the connector into a folder: `core/*.jar` and `plugin/delta-lake/*.jar`.

    Raises:
        NoEngineError: Something cannot be fetched or compiled here.
    """
    home = java(version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        work = Path(made)
        modules = dict(_unpublished(version))
        main = "<dependency><groupId>io.trino</groupId><artifactId>trino-main</artifactId></dependency>"
        _fetch(work / "core", version, [main], scope="runtime")
        needed, properties = _dependencies(modules.values())
        plugin = work / "plugin" / "delta-lake"
        _fetch(plugin, version, needed, properties, scope="runtime")
        _fetch(work / "seen", version, needed, properties, scope="compile")
        sources = [f"{Path(path).parent}/src/main" for path in modules]
        _unpack(version, sources, work / "source")
        _compile(home, work, [work / "source" / each for each in sources], plugin / f"{_CONNECTOR}-{version}.jar")
        _launcher(home, work)
        for each in ("source", "seen", "classes"):
            shutil.rmtree(work / each)
        (work / "kept").mkdir()
        for each in ("core", "plugin"):
            (work / each).rename(work / "kept" / each)
        (work / "kept").rename(folder)


def _homes() -> Iterator[Path]:
    if "JAVA_HOME" in os.environ:
        yield Path(os.environ["JAVA_HOME"])
    yield from sorted(_JVMS.glob("*")) if _JVMS.exists() else ()


def _major(home: Path) -> int:
    """The version of a JDK with a compiler; 0 if it is none."""
    if not (home / "bin" / "javac").exists():
        return 0
    told = subprocess.run([str(home / "bin" / "javac"), "-version"], capture_output=True, text=True).stdout
    found = re.match(r"javac (\d+)", told)
    return int(found[1]) if found else 0


def _source(version: str) -> Path:
    """A repository that has the tag."""
    if SOURCE in os.environ:
        return Path(os.environ[SOURCE])
    place = Path(tempfile.gettempdir()) / f"halocline-trino-{version}"
    if not place.exists():
        _run(["git", "clone", "--quiet", "--bare", "--depth", "1", "--branch", version, _ORIGIN, str(place)])
    return place


def _text(version: str, path: str, pattern: str) -> str:
    found = re.search(pattern, _run(["git", "-C", str(_source(version)), "show", f"{version}:{path}"]))
    if not found:
        raise NoEngineError(f"{path} of Trino {version} is not as expected")
    return found[1]


def _unpublished(version: str) -> Iterator[tuple[str, ElementTree.Element]]:
    """The modules that the connector is made of and that Maven Central does not have, each with what it declares."""
    git = ["git", "-C", str(_source(version))]
    listed = _run([*git, "ls-tree", "-r", "--name-only", version, "lib", "plugin", "core", "client"]).split()
    places = {Path(path).parent.name: path for path in listed if path.endswith("/pom.xml")}
    wanted, seen = [_CONNECTOR], set()
    while wanted:
        name = wanted.pop()
        if name in seen or (name != _CONNECTOR and _is_published(name, version)):
            continue
        seen.add(name)
        pom = _parsed(_run([*git, "show", f"{version}:{places[name]}"]))
        yield places[name], pom
        wanted += [_of(each, "artifactId") for each in _declared(pom) if _of(each, "groupId") == "io.trino"]


def _is_published(name: str, version: str) -> bool:
    request = urllib.request.Request(f"{_CENTRAL}/{name}/{version}/{name}-{version}.jar", method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=60).close()
    except urllib.error.HTTPError:
        return False
    except OSError as error:
        raise NoEngineError(f"Maven Central cannot be reached: {error}") from error
    return True


def _parsed(text: str) -> ElementTree.Element:
    """A POM, in which names stand without their namespace."""
    return ElementTree.fromstring(re.sub(r'\sxmlns(:xsi)?="[^"]*"|\sxsi:schemaLocation="[^"]*"', "", text))


def _declared(pom: ElementTree.Element) -> list[ElementTree.Element]:
    """What a module needs outside its tests."""
    return [each for each in pom.findall("./dependencies/dependency") if _of(each, "scope") != "test"]


def _of(element: ElementTree.Element, name: str) -> str:
    return (element.findtext(name, "") or "").strip()


def _dependencies(poms: Iterable[ElementTree.Element]) -> tuple[list[str], list[str]]:
    """What the modules need besides each other, and the properties that say in which version."""
    poms = list(poms)
    own = {_of(pom, "artifactId") for pom in poms}
    needed: dict[tuple[str, str, str], str] = {}
    for pom in poms:
        for each in _declared(pom):
            key = (_of(each, "groupId"), _of(each, "artifactId"), _of(each, "classifier"))
            if not (key[0] == "io.trino" and key[1] in own) and (key not in needed or not _of(each, "scope")):
                needed[key] = ElementTree.tostring(each, encoding="unicode")
    properties = [
        ElementTree.tostring(each, encoding="unicode") for pom in poms for each in pom.findall("./properties/*")
    ]
    return list(needed.values()), [each for each in properties if "air." not in each]


def _fetch(
    into: Path, version: str, dependencies: Sequence[str], properties: Sequence[str] = (), *, scope: str
) -> None:
    """Has Maven fetch jars, in the versions that the release's own root names."""
    into.mkdir(parents=True)
    pom = into.with_suffix(".xml")
    pom.write_text(
        f"{_POM}<modelVersion>4.0.0</modelVersion><parent><groupId>io.trino</groupId>"
        f"<artifactId>trino-root</artifactId><version>{version}</version></parent><artifactId>jars</artifactId>"
        f"<properties>{''.join(properties)}</properties><dependencies>{''.join(dependencies)}</dependencies></project>"
    )
    maven = shutil.which("mvn")
    if maven is None:
        raise NoEngineError("Maven is not installed. On Debian: apt-get install maven")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={into}", f"-DincludeScope={scope}"]
    _run([maven, "-q", "-B", "-f", str(pom), *goal])


def _unpack(version: str, paths: Sequence[str], into: Path) -> None:
    into.mkdir()
    archive = into.with_suffix(".tar")
    _run(["git", "-C", str(_source(version)), "archive", "-o", str(archive), version, *paths])
    _run(["tar", "-xf", str(archive), "-C", str(into)])
    archive.unlink()


def _compile(home: Path, work: Path, sources: Sequence[Path], into: Path) -> None:
    classes = work / "classes"
    classes.mkdir()
    sources = [*sources, *(_parser(home, work, grammar) for source in sources for grammar in source.rglob("*.g4"))]
    files = work / "files"
    files.write_text("\n".join(str(path) for source in sources for path in sorted(source.glob("java/**/*.java"))))
    options = [
        "-nowarn",
        "-proc:none",
        "-parameters",
        "-d",
        str(classes),
        "-cp",
        f"{work}/seen/*:{work}/plugin/delta-lake/*",
    ]
    _run([str(home / "bin" / "javac"), "--add-modules", "jdk.incubator.vector", *options, f"@{files}"])
    for source in sources:
        if (source / "resources").exists():
            shutil.copytree(source / "resources", classes, dirs_exist_ok=True)
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True, exist_ok=True)
    (services / "io.trino.spi.Plugin").write_text("io.trino.plugin.deltalake.DeltaLakePlugin\n")
    _run([str(home / "bin" / "jar"), "--create", "--file", str(into), "-C", str(classes), "."])


def _parser(home: Path, work: Path, grammar: Path) -> Path:
    """A folder with the parser of a grammar, whose package is the folder that the grammar is in."""
    runtime = next((work / "plugin" / "delta-lake").glob("antlr4-runtime-*.jar"))
    tool = f"antlr4-{runtime.stem.rpartition('-')[2]}-complete.jar"
    try:
        urllib.request.urlretrieve(f"{_ANTLR}/{tool.split('-')[1]}/{tool}", work / tool)
    except OSError as error:
        raise NoEngineError(f"{tool} cannot be fetched: {error}") from error
    place = str(grammar.parent).rpartition("/antlr4/")[2]
    made = work / "source" / grammar.stem
    into = made / "java" / place
    options = ["-visitor", "-package", place.replace("/", "."), "-o", str(into)]
    _run([str(home / "bin" / "java"), "-jar", str(work / tool), *options, str(grammar)])
    return made


def _launcher(home: Path, work: Path) -> None:
    source = Path(__file__).with_name("TrinoLauncher.java")
    _run([str(home / "bin" / "javac"), "-cp", f"{work}/core/*", "-d", str(work / "core"), str(source)])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [each.strip() for each in (done.stdout + done.stderr).splitlines() if each.strip()]
        told = [each for each in lines if "error" in each.lower()] or lines[-1:] or ["it failed"]
        raise NoEngineError(f"{Path(command[0]).name}: {told[0][:300]}")
    return done.stdout
