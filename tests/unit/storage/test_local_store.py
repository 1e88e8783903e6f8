"""What is particular to local files: exclusion between processes, crashes, hidden files, foreign files."""

import errno
import inspect
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from halocline.errors import (
    ConflictError,
    DeniedError,
    InputError,
    NotFoundError,
    StorageFullError,
    UnavailableError,
    UnsupportedError,
)
from halocline.storage import AlreadyExistsError, LocalStore, lock
from halocline.storage import local as local_module
from halocline.storage.base import HIDDEN_PREFIX

PROCESSES = 8


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "lake")


def python(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def race(code, store):
    """Starts the code in several processes, lets them go at once and gives what each printed."""
    processes = [python(code, store.folder, number) for number in range(PROCESSES)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return outputs


def hidden_files(folder):
    return [name for _, _, names in os.walk(folder) for name in names if name.startswith(HIDDEN_PREFIX)]


def test_processes_that_race_for_a_name_have_one_winner_each_round(store):
    rounds = 100
    wins = race(
        """
        import sys
        from halocline.storage import AlreadyExistsError, LocalStore
        store, me = LocalStore(sys.argv[1]), sys.argv[2]
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(100):
            try:
                store.put_if_absent(f"log/{number:03}", me.encode() * 1000)
                print(number)
            except AlreadyExistsError:
                pass
        """,
        store,
    )
    winner = {int(line): str(me).encode() for me, lines in enumerate(wins) for line in lines.split()}
    assert sorted(int(line) for lines in wins for line in lines.split()) == list(range(rounds))
    assert {number: store.get(f"log/{number:03}") for number in range(rounds)} == {
        number: me * 1000 for number, me in winner.items()
    }
    assert hidden_files(store.folder) == []


def test_processes_that_count_by_compare_and_swap_lose_no_increment(store):
    store.put("counter", b"0")
    race(
        """
        import sys
        from halocline.errors import ConflictError
        from halocline.storage import LocalStore
        store = LocalStore(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(25):
            while True:
                data, meta = store.fetch("counter")
                try:
                    store.put_if_match("counter", b"%d" % (int(data) + 1), meta.etag)
                    break
                except ConflictError:
                    pass
        """,
        store,
    )
    assert store.get("counter") == b"%d" % (25 * PROCESSES)
    assert hidden_files(store.folder) == []


def test_a_reader_never_sees_half_an_object(store):
    store.put("a", b"0" * 100_000)
    stop = threading.Event()

    def write():
        for digit in b"123456789" * 10:
            store.put("a", bytes([digit]) * 100_000)
        stop.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write)
        while not stop.is_set():
            data = store.get("a")
            assert (len(data), len(set(data))) == (100_000, 1)
        done.result()


def test_a_killed_holder_of_the_lock_blocks_nobody(store):
    etag = store.put("counter", b"0")
    holder = python(
        """
        import sys, time
        from halocline.storage import LocalStore
        store = LocalStore(sys.argv[1])
        with store._locked(store._target("counter")):
            print("held", flush=True)
            time.sleep(60)
        """,
        store.folder,
    )
    assert holder.stdout.readline() == "held\n"
    (name,) = hidden_files(store.folder)
    with (
        pytest.raises(UnavailableError, match="another process holds the lock"),
        lock.locked(os.path.join(store.folder, name), timeout_s=0.1),
    ):
        pytest.fail("two processes hold one lock")
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    store.put_if_match("counter", b"1", etag)
    assert store.get("counter") == b"1"
    assert hidden_files(store.folder) == []


def test_a_writer_killed_at_any_moment_leaves_a_whole_object(store):
    store.put("counter", b"0" * 50_000)
    for patience in (0.001, 0.004, 0.011, 0.025):
        writer = python(
            """
            import sys
            from halocline.storage import LocalStore
            store = LocalStore(sys.argv[1])
            print("ready", flush=True)
            while True:
                for digit in b"123":
                    data, meta = store.fetch("counter")
                    store.put_if_match("counter", bytes([digit]) * 50_000, meta.etag)
            """,
            store.folder,
        )
        assert writer.stdout.readline() == "ready\n"
        time.sleep(patience)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        data, meta = store.fetch("counter")
        assert (len(data), len(set(data))) == (50_000, 1)
        store.put_if_match("counter", b"0" * 50_000, meta.etag)
    assert [meta.path for meta in store.list()] == ["counter"]


def test_a_forked_child_does_not_keep_the_lock(store):
    """A child made while the lock is held shares it; what the parent lets go is free all the same."""
    etag = store.put("a", b"0")
    pair = python(
        """
        import os, sys, time
        from halocline.storage import LocalStore
        store = LocalStore(sys.argv[1])
        with store._locked(store._target("a")):
            child = os.fork()
            if not child:
                os.close(1)
                sys.stdin.readline()
                os._exit(0)
        print("let go", flush=True)
        os.waitpid(child, 0)
        """,
        store.folder,
    )
    assert pair.stdout.readline() == "let go\n"
    store.put_if_match("a", b"1", etag)
    pair.communicate("end\n")


def test_an_etag_never_comes_back_however_fast_the_writes(store):
    """File numbers are reused and the kernel's clock is coarse: neither may make two states look alike."""
    store = LocalStore(store.folder, sync=False)
    etags = [store.put("a", b"x") for _ in range(300)]
    for _ in range(300):
        etags.append(store.put_if_match("a", b"x", etags[-1]))
    assert len(set(etags)) == len(etags)


def test_an_etag_differs_even_if_the_clock_stands_still(store, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    etags = [store.put("a", b"x") for _ in range(20)]
    assert len(set(etags)) == len(etags)


def no_hard_links(*_, **__):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_without_hard_links_put_if_absent_still_has_one_winner(store, monkeypatch):
    monkeypatch.setattr(os, "link", no_hard_links)
    barrier = threading.Barrier(PROCESSES)

    def contend(me):
        won = []
        for number in range(20):
            barrier.wait()
            try:
                store.put_if_absent(f"log/{number}", b"%d" % me)
                won.append(number)
            except AlreadyExistsError:
                continue
        return won

    with ThreadPoolExecutor(PROCESSES) as pool:
        wins = list(pool.map(contend, range(PROCESSES)))
    assert sorted(number for won in wins for number in won) == list(range(20))
    assert all(store.get(f"log/{number}") == b"%d" % me for me, won in enumerate(wins) for number in won)
    assert hidden_files(store.folder) == []


def test_without_locks_there_is_no_compare_and_swap_but_everything_else(store, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_flock", no_locks)
    etag = store.put("a", b"1")
    with pytest.raises(UnsupportedError, match="no locks between processes") as raised:
        store.put_if_match("a", b"2", etag)
    assert raised.value.next_step
    assert store.get("a") == b"1"
    store.put_if_absent("b", b"1")
    store.delete("a")
    assert [meta.path for meta in store.list()] == ["b"]
    assert hidden_files(store.folder) == []


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_failed_write_leaves_nothing_behind(store, monkeypatch, step):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    store.put("other", b"")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(StorageFullError, match="No space left on device"):
        store.put_if_absent("a", b"data")
    monkeypatch.undo()
    assert not store.exists("a")
    assert hidden_files(store.folder) == []


def test_what_dead_writers_left_is_hidden(store):
    store.put("log/0", b"x")
    with open(os.path.join(store.folder, "log", f"{HIDDEN_PREFIX}0123.tmp"), "wb") as file:
        file.write(b"half")
    assert [meta.path for meta in store.list()] == ["log/0"]
    assert store.get("log/0") == b"x"


@pytest.mark.parametrize("write", ["put", "put_if_match", "delete", "put_if_absent"])
def test_a_write_forgets_the_checksum_that_hadoop_keeps_beside_the_file(store, write):
    etag = store.put("log/_last_checkpoint", b"{}")
    checksum = os.path.join(store.folder, "log", "._last_checkpoint.crc")
    if write == "put_if_absent":
        os.unlink(os.path.join(store.folder, "log", "_last_checkpoint"))
    with open(checksum, "wb") as file:
        file.write(b"crc")
    arguments = {"put": [b"new"], "put_if_match": [b"new", etag], "delete": [], "put_if_absent": [b"new"]}
    getattr(store, write)("log/_last_checkpoint", *arguments[write])
    assert not os.path.exists(checksum)


def test_the_file_on_disk_is_the_path(store):
    store.put("date=2024-01-01 10%3A00/part é.parquet", b"x")
    with open(os.path.join(store.folder, "date=2024-01-01 10%3A00", "part é.parquet"), "rb") as file:
        assert file.read() == b"x"
    assert store.address("a b%20") == os.path.join(store.folder, "a b%20")


def test_files_of_other_programs_are_objects(store):
    os.makedirs(os.path.join(store.folder, ".hoodie"))
    for name in (".hoodie/hoodie.properties", ".log.1_0-1-0", "tab\tname"):
        with open(os.path.join(store.folder, name), "w") as file:
            file.write("x")
    assert [meta.path for meta in store.list()] == [".hoodie/hoodie.properties", ".log.1_0-1-0", "tab\tname"]
    assert store.get("tab\tname") == b"x"
    meta = store.head(".hoodie/hoodie.properties")
    store.put_if_match(meta.path, b"y", meta.etag)


def test_a_change_by_another_program_is_a_conflict(store):
    etag = store.put("a", b"one")
    with open(os.path.join(store.folder, "a"), "ab") as file:
        file.write(b"!")
    with pytest.raises(ConflictError) as raised:
        store.put_if_match("a", b"two", etag)
    assert raised.value.sides["expected"] == etag
    assert raised.value.sides["found"] != etag
    assert store.get("a") == b"one!"


def test_symbolic_links_are_followed_once(store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part").write_bytes(b"x")
    store.put("a/own", b"y")
    os.symlink(tmp_path / "elsewhere", os.path.join(store.folder, "a", "linked"))
    os.symlink(store.folder, os.path.join(store.folder, "a", "up"))
    assert [meta.path for meta in store.list()] == ["a/linked/part", "a/own"]


def test_folders_deeper_than_the_stack_are_listed(store):
    path = "/".join(["d"] * 150 + ["file"])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        LocalStore(store.folder, sync=False).put(path, b"x")
        found = [meta.path for meta in store.list()]
    finally:
        sys.setrecursionlimit(limit)
    assert found == [path]


def test_a_name_cannot_be_both_a_file_and_a_folder(store):
    store.put("a/b", b"x")
    for path in ("a", "a/b/c"):
        with pytest.raises((InputError, AlreadyExistsError)):
            store.put_if_absent(path, b"y")
        with pytest.raises(InputError, match="clash") as raised:
            store.put(path, b"y")
        assert raised.value.next_step
    assert [meta.path for meta in store.list()] == ["a/b"]
    assert hidden_files(store.folder) == []


def test_a_name_longer_than_a_file_name_is_refused(store):
    store.put("a", b"")
    for operation in (lambda: store.put("x" * 300, b""), lambda: store.get("x" * 300), lambda: store.delete("x" * 300)):
        with pytest.raises(InputError, match="too long"):
            operation()


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.EIO, UnavailableError), (errno.EACCES, DeniedError), (errno.EROFS, DeniedError)],
)
@pytest.mark.parametrize("call", ["open", "stat", "scandir", "replace", "unlink"])
def test_an_error_of_the_system_is_typed(store, monkeypatch, call, number, expected):
    store.put("a", b"x")

    def broken(*_, **__):
        raise OSError(number, os.strerror(number))

    operation = {
        "open": lambda: store.get("a"),
        "stat": lambda: store.head("a"),
        "scandir": lambda: list(store.list()),
        "replace": lambda: store.put("a", b"y"),
        "unlink": lambda: store.delete("a"),
    }[call]
    monkeypatch.setattr(local_module if call == "open" else os, call, broken, raising=False)
    with pytest.raises(expected, match=os.strerror(number)) as raised:
        operation()
    assert raised.value.next_step


def test_a_root_that_does_not_exist_is_empty_and_made_by_the_first_write(tmp_path):
    store = LocalStore(tmp_path / "new" / "lake")
    assert list(store.list()) == []
    with pytest.raises(NotFoundError):
        store.get("a")
    store.delete("a")
    assert not (tmp_path / "new").exists()
    store.put_if_absent("a", b"x")
    assert (tmp_path / "new" / "lake" / "a").read_bytes() == b"x"


def test_a_store_can_be_sent_to_another_process(store):
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def test_listing_asks_the_system_once_for_a_folder_and_once_for_each_file_of_the_answer(tmp_path):
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for number in range(200):
        (folder / f"{number:020}.json").touch()
    store = LocalStore(tmp_path)

    def calls(**listed):
        counted = Counter()
        sys.setprofile(lambda frame, event, function: event == "c_call" and counted.update([function.__name__]))
        try:
            metas = list(store.list(**listed))
        finally:
            sys.setprofile(None)
        return len(metas), counted["scandir"], counted["stat"] + counted["lstat"]

    found, folders, files = calls(prefix="_delta_log")
    assert (found, folders) == (200, 1)
    assert 200 <= files <= 202, f"{files} files are asked for"
    found, folders, files = calls(start_after=f"_delta_log/{190:020}.json")
    assert (found, folders) == (9, 2)
    assert 9 <= files <= 13, f"{files} files are asked for to list the last 9"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("method", ["put", "put_if_absent"])
def test_full_disk_says_so_and_leaves_nothing(tmp_path, monkeypatch, number, method):
    store = LocalStore(tmp_path)

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="no room left"):
        getattr(store, method)("a", b"1")
    assert list(store.list()) == []
