"""Real processes for the fleet: coordinators, members, and a private PostgreSQL."""

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.support.postgresql import NotHereError, private_server
from tests.support.processes import Process, until

HERE = Path(__file__).parent


@pytest.fixture
def wait():
    """Waits for a condition: `wait(condition, "what never happened")`."""
    return until


@pytest.fixture
def launch():
    """Starts programs of this folder; whatever still runs is stopped afterwards."""
    started = []

    def start(program, **arguments):
        started.append(Process(HERE / program, **arguments))
        return started[-1]

    yield start
    for each in reversed(started):
        each.stop()


@pytest.fixture
def memory_folder(tmp_path):
    """A folder that is quick to sync: what is tested is the death of a process, not of the machine."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        yield tmp_path
        return
    folder = shared / f"halocline-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_server():
    """The URL of the first database of a private server."""
    try:
        with private_server() as server:
            yield server.url
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture
def postgresql(postgresql_server):
    """The URL of an empty database."""
    import psycopg

    name = f"fleet_{time.time_ns()}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql_server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
