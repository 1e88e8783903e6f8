"""What is particular to buckets: names on the wire, options, environment, and how failures come out."""

import json
import pickle
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import boto3
import pytest

from halocline.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    InputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from halocline.storage import open_store
from halocline.storage.object_store import ObjectStore


@pytest.fixture
def client(s3_endpoint):
    return boto3.client(
        "s3",
        endpoint_url=s3_endpoint,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )


@pytest.fixture
def folder():
    return uuid.uuid4().hex


def test_the_key_in_the_bucket_is_the_path_itself(client, folder, s3_options):
    store = open_store(f"s3://lake/{folder}/my%20lake%25", s3_options)
    names = ["a b%20c", "date=2024-01-01 10%3A00/x:y", "ü雪", "q?#~+&'"]
    for name in names:
        store.put(name, b"x")
    found = client.list_objects_v2(Bucket="lake", Prefix=folder)["Contents"]
    assert sorted(each["Key"] for each in found) == sorted(f"{folder}/my lake%/{name}" for name in names)
    assert store.address("a b%20c") == f"s3://lake/{folder}/my lake%/a b%20c"


def test_a_listing_of_several_pages_is_whole_and_streamed(folder, s3_options):
    store = open_store(f"s3://lake/{folder}", s3_options)
    names = [f"log/{number:05}" for number in range(23)]
    for name in names:
        store.put(name, b"")
    listing = store.list("log")
    assert next(listing).path == names[0]
    assert [meta.path for meta in listing] == names[1:]
    assert [meta.path for meta in store.list("log", start_after=names[7])] == names[8:]
    store.delete_many(names[1:])
    assert [meta.path for meta in store.list()] == names[:1]


def test_the_marker_of_a_folder_is_not_an_object_in_it(client, folder, s3_options):
    client.put_object(Bucket="lake", Key=f"{folder}/log/", Body=b"")
    store = open_store(f"s3://lake/{folder}", s3_options)
    store.put("log/0.json", b"{}")
    assert [meta.path for meta in store.list("log")] == ["log/0.json"]


@pytest.mark.parametrize("key", ["a//b", "tab\there", "up/../x"])
def test_an_object_with_an_unusable_name_is_reported(client, folder, s3_options, key):
    client.put_object(Bucket="lake", Key=f"{folder}/{key}", Body=b"")
    with pytest.raises(UnsupportedError, match="whose name cannot be used") as raised:
        list(open_store(f"s3://lake/{folder}", s3_options).list())
    assert raised.value.next_step


def test_two_writes_of_a_large_object_leave_the_last(folder, s3_options):
    store = open_store(f"s3://lake/{folder}", s3_options)
    store.put("big", b"a" * (12 << 20))  # in parts
    store.put_if_match("big", b"b" * (6 << 20), store.head("big").etag)
    assert store.head("big").size == 6 << 20
    assert store.get_range("big", (6 << 20) - 2, 10) == b"bb"


def test_everything_may_come_from_the_environment(monkeypatch, client, folder, s3_endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    open_store(f"s3a://lake/{folder}").put("x", b"1")
    assert client.get_object(Bucket="lake", Key=f"{folder}/x")["Body"].read() == b"1"


def test_a_store_can_be_sent_to_another_process(folder, s3_options):
    store = open_store(f"s3://lake/{folder}", s3_options)
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def test_a_missing_bucket_is_named(s3_options):
    store = open_store("s3://no-such-bucket/x", s3_options)
    for operation in (lambda: store.get("a"), lambda: list(store.list()), lambda: store.put("a", b"")):
        with pytest.raises(NotFoundError, match="no bucket s3://no-such-bucket"):
            operation()


@pytest.mark.timeout(60)
def test_an_unreachable_endpoint_is_unavailable_in_bounded_time(s3_options, free_port):
    options = {**s3_options, "endpoint": f"http://127.0.0.1:{free_port}"}
    store = open_store("s3://lake/x", options)
    for operation in (lambda: store.get("a"), lambda: list(store.list()), lambda: store.put_if_absent("a", b"")):
        with pytest.raises(UnavailableError, match="s3://lake/x cannot be reached") as raised:
            operation()
        assert "Check the network" in str(raised.value)


def test_missing_credentials_say_what_to_set(monkeypatch, s3_endpoint, free_port):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    # The place where a machine in the cloud would learn its identity: nobody is there.
    identity = f"http://127.0.0.1:{free_port}"
    store = open_store("s3://lake/x", {"endpoint": s3_endpoint, "metadata_endpoint": identity, "max_retries": "0"})
    with pytest.raises(DeniedError, match="no credentials for s3://lake/x") as raised:
        store.get("a")
    assert raised.value.condition == "CREDENTIALS_MISSING"
    assert "AWS_ACCESS_KEY_ID" in raised.value.next_step


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://lake", {"bogus": "1"}, "no option bogus"),
        ("s3://lake", {"timeout": "soon"}, "soon"),
        ("s3://lake", {"max_retries": "many"}, "many"),
        ("s3://no bucket name/x", {}, "cannot be opened"),
        ("az://container/x", {}, "Account must be specified"),
        ("s3://lake/../up", {}, "leaves the store's root"),
    ],
)
def test_a_url_or_option_that_cannot_be_used_is_refused_at_once(url, options, message):
    with pytest.raises(InputError, match=message) as raised:
        open_store(url, options)
    assert raised.value.next_step


def test_a_name_that_no_bucket_takes_is_refused(s3_options):
    store = open_store("s3://lake/x", s3_options)
    for name in ("tab\there", "broken \ud800"):
        with pytest.raises(InputError, match="cannot name an object"):
            store.put(name, b"")


@pytest.mark.parametrize(
    "url", ["gs://bucket/lake", "gcs://bucket/lake", "abfss://c@account.dfs.core.windows.net/lake", "s3n://bucket/lake"]
)
def test_a_store_opens_without_asking_the_service(url):
    store = open_store(url)
    assert isinstance(store, ObjectStore)
    assert store.root == store.address() == url


class Service(BaseHTTPRequestHandler):
    """Keeps objects as the services do, as far as conditions and metadata go; each write is a new generation.

    `server.plan` says what happens to each write in turn: `lose` the answer, `refuse` it, or nothing.
    """

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        what = self.server.plan.pop(0) if self.server.plan else ""
        if what == "refuse":
            return self.answer(503)
        status, generation = self.write(data)
        if what == "lose":
            self.close_connection = True
            return None
        return self.answer(status, generation)

    def write(self, data):
        objects, now = self.server.objects, self.server.objects.get(self.path, (0,))[0]
        wanted = self.headers.get("x-goog-if-generation-match")
        match, none_match = self.headers.get("if-match"), self.headers.get("if-none-match")
        if none_match == "*" and now:
            return (409 if self.headers.get("x-ms-version") else 412), 0
        if (wanted is not None and int(wanted) != now) or (match is not None and match != f'"{now}"'):
            return 412, 0
        kept = {name: value for name, value in self.headers.items() if "-meta-" in name.lower()}
        objects[self.path] = (now + 1, data, kept)
        return 200, now + 1

    def do_GET(self):
        generation, data, kept = self.server.objects.get(self.path, (0, b"", {}))
        return self.answer(200, generation, data, kept) if generation else self.answer(404)

    def do_HEAD(self):
        self.do_GET()

    def answer(self, status, generation=0, data=b"", headers=None):
        self.send_response(status)
        modified = {"last-modified": "Sun, 15 Nov 2026 04:37:13 GMT", "content-length": str(len(data))}
        state = {"etag": f'"{generation}"', "x-goog-generation": str(generation)} if generation else {}
        for name, value in (modified | state | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.objects, server.plan = {}, []
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def opened(kind, service, retries=4):
    endpoint = f"http://127.0.0.1:{service.server_port}"
    google = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    azure = {"azure_storage_endpoint": endpoint, "azure_skip_signature": "true", "account_name": "account"}
    amazon = {"endpoint": endpoint, "aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    url, options = {
        "s3": ("s3://bucket/my%20lake", amazon),
        "gs": (
            "gs://bucket/my%20lake",
            {"google_service_account_key": json.dumps(google | {"private_key_id": ""}), "allow_http": "true"},
        ),
        "az": ("az://container/my%20lake", azure),
        "abfss": ("abfss://container@account.dfs.core.windows.net/my%20lake", azure),
    }[kind]
    return open_store(url, options | {"max_retries": str(retries)})


KINDS = pytest.mark.parametrize("kind", ["s3", "gs", "az", "abfss"])


@KINDS
def test_conditional_writes_are_the_services_own(kind, service):
    store = opened(kind, service)
    first = store.put_if_absent("a b", b"one")
    assert [unquote(path).rpartition("/my lake/")[2] for path in service.objects] == ["a b"]
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a b", b"two")
    assert store.fetch("a b")[1].etag == store.head("a b").etag == first
    second = store.put_if_match("a b", b"three", first)
    with pytest.raises(ConflictError):
        store.put_if_match("a b", b"four", first)
    assert store.get("a b") == b"three"
    assert second != first
    service.objects.clear()
    with pytest.raises(ConflictError):
        store.put_if_match("a b", b"five", second)
    assert not store.exists("a b")


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        *((kind, ["lose"]) for kind in ("s3", "gs", "az", "abfss")),
        *(("s3", plan) for plan in (["refuse"], ["refuse", "lose"], ["lose", "lose"], ["refuse", "refuse"])),
    ],
)
def test_a_conditional_write_is_not_refused_because_of_itself(kind, plan, service):
    store = opened(kind, service)
    service.plan = [*plan]
    first = store.put_if_absent("a", b"mine")
    assert store.head("a").etag == first
    service.plan = [*plan]
    second = store.put_if_match("a", b"mine again", first)
    assert store.head("a").etag == second != first
    assert store.get("a") == b"mine again"
    assert {value[0] for value in service.objects.values()} == {2}, "written more than once"


@KINDS
def test_a_name_that_somebody_else_took_while_the_answer_was_lost_is_taken(kind, service):
    store = opened(kind, service)
    store.put_if_absent("a", b"theirs")
    service.plan = ["refuse"]
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a", b"theirs")  # the same bytes are not the same write


@KINDS
def test_a_swap_that_cannot_be_told_from_somebody_elses_is_in_doubt(kind, service):
    store = opened(kind, service)
    first = store.put("a", b"one")
    store.put("a", b"theirs")
    service.plan = ["refuse"]
    with pytest.raises(UnavailableError):
        store.put_if_match("a", b"mine", first)
    assert store.get("a") == b"theirs"


def test_a_service_that_never_answers_ends_the_tries(service):
    store = opened("s3", service, retries=2)
    service.plan = ["refuse"] * 9
    with pytest.raises(UnavailableError, match="cannot be reached"):
        store.put_if_absent("a", b"mine")
    assert len(service.plan) == 6
    assert not store.exists("a")


def test_the_last_try_counts_even_if_its_answer_is_lost(service):
    store = opened("s3", service, retries=0)
    service.plan = ["lose"]
    assert store.put_if_absent("a", b"mine") == store.head("a").etag
