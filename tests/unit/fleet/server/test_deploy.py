"""What runs and watches a coordinator elsewhere: the unit, the container file, the alerts and the dashboard."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
from tests.support.certificates import certificate, write_files
from tests.support.fleets import declared, in_memory, until

from halocline.errors import CONDITIONS, HaloclineError
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.hosting import embedded

DEPLOY = Path(__file__).parents[4] / "deploy"
ALERTS = re.findall(r"^ +expr: (.+)$", (DEPLOY / "prometheus-alerts.yml").read_text(), re.MULTILINE)
PANELS = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
SHOWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
_FUNCTIONS = {"sum", "max", "min", "count", "rate", "changes", "delta", "histogram_quantile", "by", "and", "le"}


@pytest.fixture(scope="module")
def told():
    """The metrics of a coordinator to which everything has happened that is counted, with their labels."""
    with embedded(in_memory(http="127.0.0.1:0")) as hosting, AdminClient(hosting.address) as admin:
        report = Report("etl", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
        with MemberLoop(hosting.address, report):
            admin.observe(declared("bi", "trino@426", "lake/orders"))
            with pytest.raises(HaloclineError):
                admin.raise_level("hudi", 9)
            with pytest.raises(HaloclineError):
                MemberLoop(hosting.address, Report("old", 0, "hudi@0.9", supported={"hudi": LevelRange(1, 5)})).start()
            until(lambda: "halocline_heartbeats_total 0.0" not in _metrics(hosting), "a heartbeat is answered")
            text = _metrics(hosting)
    found = {}
    for name, labels in re.findall(r"^(halocline_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    return found


def _metrics(hosting):
    with urllib.request.urlopen(f"http://127.0.0.1:{hosting.http_port}/metrics", timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("expression", [*ALERTS, *SHOWN])
def test_what_is_watched_is_what_a_coordinator_tells(told, expression):
    names = re.findall(r"halocline_\w+", expression)
    assert names
    assert set(names) <= told.keys(), f"no such metric: {set(names) - told.keys()}"
    labels = {label for name in names for label in told[name]}
    used = {each.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for each in group.split(",")}
    used |= set(re.findall(r"[{,] *(\w+)(?:=|!=)", expression))
    assert used <= labels, f"no such label: {used - labels}"
    for condition in re.findall(r'(?:outcome|condition)="(\w+)"', expression):
        assert condition in CONDITIONS
    rest = re.sub(r'halocline_\w+|"[^"]*"|\[\w+\]', "", expression)
    assert set(re.findall(r"[a-z_]+", rest)) <= _FUNCTIONS | used, "nothing that Prometheus does not know"


def test_everything_that_a_coordinator_tells_is_watched(told):
    watched = {name for expression in (*ALERTS, *SHOWN) for name in re.findall(r"halocline_\w+", expression)}
    counted = {name for name in told if not name.endswith(("_created", "_bucket", "_sum", "_count"))}
    assert counted <= watched, f"neither an alert nor a panel: {counted - watched}"


def test_legends_name_labels_that_are_there(told):
    targets = [target for panel in PANELS for target in panel["targets"]]
    named = 0
    for target in targets:
        labels = {label for name in re.findall(r"halocline_\w+", target["expr"]) for label in told[name]}
        legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert legend <= labels, target
        named += len(legend)
    assert named > 0


def unit_command():
    (line,) = re.findall(r"^ExecStart=(.+)$", (DEPLOY / "halocline-fleet.service").read_text(), re.MULTILINE)
    return shlex.split(line)[1:]


def container_command():
    text = (DEPLOY / "Containerfile").read_text()
    parts = [json.loads(re.search(rf"^{word} (\[.*\])$", text, re.MULTILINE)[1]) for word in ("ENTRYPOINT", "CMD")]
    return [*parts[0], *parts[1]][1:]


@pytest.mark.parametrize("command", [unit_command(), container_command()], ids=["systemd", "container"])
def test_the_command_starts_a_coordinator_with_the_files_that_it_names(command, tmp_path, certificate_files):
    places = {
        "${HALOCLINE_STORE}": str(tmp_path / "fleet.db"),
        "/data/fleet.db": str(tmp_path / "fleet.db"),
        "/etc/halocline/server.pem": str(certificate_files[0]),
        "/etc/halocline/server.key": str(certificate_files[1]),
        "/etc/halocline/access.toml": str(tmp_path / "access.toml"),
        "0.0.0.0:7470": "127.0.0.1:0",
        "0.0.0.0:7471": "127.0.0.1:0",
        "%H:7470": "fleet.example:7470",
    }
    (tmp_path / "access.toml").write_text('[secrets.ops]\nsha256 = "' + "0" * 64 + '"\nrights = ["raise"]\n')
    arguments = [places.get(each, each) for each in command]
    assert not [each for each in arguments if each.startswith(("/etc", "/data", "$", "%"))]
    code = "from halocline.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    greeting = process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=240)
    assert "active, epoch 1" in greeting, complaints
    assert process.returncode == 0, complaints


def test_systemd_takes_the_unit_as_it_is_where_the_program_is_installed(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not installed")
    unit, text = tmp_path / "halocline-fleet.service", (DEPLOY / "halocline-fleet.service").read_text()
    unit.write_text(text.replace("/opt/halocline/bin/halocline", sys.executable))
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_file_copies_what_the_build_needs_and_nothing_else():
    root, text = DEPLOY.parent, (DEPLOY / "Containerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()}
    assert all((root / name).exists() for name in copied)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    # The build makes the page for a package index out of the README, by a hook of its own.
    assert copied == {"pyproject.toml", "src", "hatch_build.py", "README.md", *project["license-files"]}


@pytest.fixture(scope="module")
def certificate_files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("pki"), *certificate("fleet.example"))
