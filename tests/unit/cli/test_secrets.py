"""Commands about tables and lakes neither print nor write the secrets of the URLs that they are given."""

import pytest

from halocline.cli.main import run

PLACE = "s3://AKIA:HUNTER2@lake/orders"
SIGNED = "abfss://c@a.dfs.core.windows.net/orders?sv=1&sig=HUNTER2"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "command",
    [
        ["inspect", PLACE],
        ["lint", SIGNED],
        ["check", PLACE],
        ["who", SIGNED],
        ["survey", PLACE],
        ["survey", "lake.toml", "--journal", "survey.journal"],
        ["plan", "lake.toml", "--enable", "deletionVectors", "--out", "r.plan"],
        ["fleet", "--at", PLACE, "describe"],
        ["serve", "--store", "postgresql://fleet:HUNTER2@127.0.0.1:1/fleet?password=HUNTER2"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_command_shows_and_writes_no_secret_of_a_url(command, form, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake.toml").write_text(f'[tables]\norders = "{PLACE}"\nitems = "{SIGNED}"\n')
    code = run(command if command[0] == "serve" else [*command, "--output", form])
    shown = "".join(capfd.readouterr())
    written = [file.name for file in tmp_path.iterdir() if file.name != "lake.toml" and b"HUNTER2" in file.read_bytes()]
    assert code == 1
    assert "://" in shown
    assert "HUNTER2" not in shown
    assert written == []
