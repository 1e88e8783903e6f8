"""Runs one release of Trino: takes jobs from standard input, one JSON object a line, and answers each.

Its arguments: the home of the Java to run it with, the folder of the server, its version, and a file with settings
of the catalog. Of its plugins only the Delta Lake connector is used. Tables are put on an S3 server on loopback,
because old releases write to object stores alone, and what the release leaves there is put back into the folder that
the job names. It imports nothing of the project.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

BUCKET = "lake"
START_S = 600


def main(home, folder, version, settings):
    import boto3
    from moto.server import ThreadedMotoServer

    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    endpoint = "http://{}:{}".format(*store.get_host_and_port())
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    s3 = boto3.client("s3", endpoint_url=endpoint, **keys)
    s3.create_bucket(Bucket=BUCKET)
    with tempfile.TemporaryDirectory(prefix="halocline-trino-") as place:
        text = Path(settings).read_text().replace("ENDPOINT", endpoint)
        server, port = start(home, Path(folder), version, Path(place), text)
        try:
            trino = Trino(server, port)
            for line in sys.stdin:
                answers.write(json.dumps(answered(trino, s3, json.loads(line))) + "\n")
                answers.flush()
        finally:
            server.kill()
            server.wait()


def start(home, folder, version, place, catalog):
    """The server's process and its port."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (place / "catalog").mkdir()
    (place / "plugin").mkdir()
    (place / "plugin" / "delta-lake").symlink_to((folder / "plugin" / "delta-lake").resolve())
    (place / "catalog" / "delta.properties").write_text(catalog)
    config = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "query.max-memory": "256MB",
        "query.max-memory-per-node": "256MB",
        "query.client.timeout": "2h",
        "plugin.dir": place / "plugin",
        "catalog.config-dir": place / "catalog",
        "node.environment": "test",
        "node.internal-address": "127.0.0.1",
        "node.bind-ip": "127.0.0.1",
    }
    (place / "config.properties").write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    (place / "log.properties").write_text("io.trino=WARN\nio.airlift=WARN\n")
    command = [
        str(Path(home, "bin", "java")),
        *("-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8"),
        *("-Djdk.attach.allowAttachSelf=true", "-Duser.timezone=UTC", "--add-modules=jdk.incubator.vector"),
        *(f"-Dconfig={place}/config.properties", f"-Dlog.levels-file={place}/log.properties"),
        *("-cp", f"{folder}/lib/*", str(Path(__file__).with_name("TrinoLauncher.java")), version),
    ]
    log = open(os.environ.get("HALOCLINE_TRINO_LOG", os.devnull), "w")  # noqa: SIM115
    return subprocess.Popen(command, cwd=place, stdin=subprocess.PIPE, stdout=log, stderr=log), port


class Trino:
    """A server, asked over HTTP."""

    def __init__(self, process, port):
        self._process, self._url, self._tables = process, f"http://127.0.0.1:{port}", 0
        self._wait()
        self.ask(f"CREATE SCHEMA delta.s WITH (location = 's3://{BUCKET}/s')")

    def ask(self, statement):
        """The names of the columns, and the rows."""
        answer = self._call("/v1/statement", statement)
        names, rows = [], []
        while True:
            if "error" in answer:
                raise RefusedError(answer["error"]["message"])
            names = [each["name"] for each in answer.get("columns") or ()] or names
            rows += answer.get("data") or ()
            if "nextUri" not in answer:
                return names, rows
            answer = self._call(answer["nextUri"])

    def registered(self, location):
        """A name for a table."""
        self._tables += 1
        name = f"t{self._tables}"
        self.ask(f"CALL delta.system.register_table('s', '{name}', '{location}')")
        return name

    def _wait(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise SystemExit("the server does not start")
            try:
                if self.ask("SELECT 1")[1]:
                    return
            except (OSError, RefusedError, json.JSONDecodeError):
                time.sleep(1)
        raise SystemExit("the server does not answer")

    def _call(self, place, body=None):
        url = place if place.startswith("http") else self._url + place
        headers = {"X-Trino-User": "test", "X-Trino-Time-Zone": "UTC"}
        request = urllib.request.Request(url, body.encode() if body else None, headers)
        with urllib.request.urlopen(request, timeout=600) as response:
            return json.loads(response.read())


class RefusedError(Exception):
    pass


def answered(trino, s3, job):
    folder = Path(job["path"])
    at = folder.parent.name
    for path in files(folder):
        s3.put_object(Bucket=BUCKET, Key=f"{at}/{path}", Body=(folder / path).read_bytes())
    try:
        name = trino.registered(f"s3://{BUCKET}/{at}")
        answer = OPERATIONS[job["operation"]](trino, name, job)
    except RefusedError as error:
        answer = {"outcome": "error", "note": " ".join(str(error).split())[:300]}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{at}/"):
        for each in page.get("Contents", ()):
            path = folder / each["Key"].partition("/")[2]
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())
    return answer


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read(trino, name, job):
    return rows_of(*trino.ask(f"SELECT * FROM delta.s.{name}"), job["columns"])


def some(trino, name, job):
    return rows_of(*trino.ask(f"SELECT * FROM delta.s.{name} WHERE id = 2"), job["columns"])


def changes(trino, name, job):
    table = f"TABLE(delta.system.table_changes(schema_name => 's', table_name => '{name}'))"
    return rows_of(*trino.ask(f"SELECT * FROM {table}"), [*job["columns"], "_change_type"])


def append(trino, name, job):
    values = ", ".join(literal(column, value) for column, value in job["row"].items())
    trino.ask(f"INSERT INTO delta.s.{name} ({', '.join(job['row'])}) VALUES ({values})")
    return {"outcome": "done"}


def delete(trino, name, job):
    trino.ask(f"DELETE FROM delta.s.{name} WHERE id = 1")
    return read(trino, name, job)


def delete_all(trino, name, job):
    trino.ask(f"DELETE FROM delta.s.{name}")
    return read(trino, name, job)


def merge(trino, name, job):
    on = f"MERGE INTO delta.s.{name} t USING (VALUES BIGINT '3') AS s(id) ON t.id = s.id"
    trino.ask(f"{on} WHEN MATCHED THEN UPDATE SET value = 'm'")
    return read(trino, name, job)


def optimize(trino, name, job):
    append(trino, name, job)
    trino.ask(f"ALTER TABLE delta.s.{name} EXECUTE optimize")
    return read(trino, name, job)


def literal(name, value):
    if name == "at":
        return f"TIMESTAMP '{value}'"
    if name == "v":
        return f"JSON '{value}'"
    return str(value) if isinstance(value, int) else f"'{value}'"


def rows_of(names, rows, columns):
    missing = [name for name in columns if name not in names]
    if missing:
        return {"outcome": "done", "rows": None, "note": "no column " + ", ".join(missing)}
    places = [names.index(name) for name in columns]
    return {"outcome": "done", "rows": sorted(([plain(row[at]) for at in places] for row in rows), key=repr)}


def plain(value):
    """Timestamps come with as many digits as their type has."""
    return re.sub(r"(?<=:\d\d)\.0+$", "", value) if isinstance(value, str) else value


OPERATIONS = {
    "read": read,
    "read.filter": some,
    "read.changes": changes,
    "write.append": append,
    "write.delete": delete,
    "write.delete.all": delete_all,
    "write.merge": merge,
    "write.optimize": optimize,
}

if __name__ == "__main__":
    # Libraries print to standard output as they please; the answers go where it once led.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(*sys.argv[1:])
