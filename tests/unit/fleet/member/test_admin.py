"""An operator's client: the page's example, lost answers, expired tokens, and refusals as errors."""

import re
from pathlib import Path

import grpc
import pytest
from tests.support.certificates import certificate, write_files
from tests.support.fleets import declared, in_memory, running, until

import halocline as hc
from halocline.cli.main import run
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import ConflictError, DeniedError, InputError, NotFoundError, UnavailableError
from halocline.fleet.answers import AuditQuery, CommandResult
from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.state import FleetTerms, LevelRange, Report, TableUse
from halocline.fleet.member.admin import AdminClient, operator_name
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.auth import Access, Grant, digest, rights
from halocline.fleet.server.grpc_server import Tls
from halocline.fleet.server.hosting import embedded
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.status import FailedCall

PAGE = Path(__file__).parents[4] / "docs" / "fleet.md"


@pytest.fixture(scope="module")
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


def failing(monkeypatch, failure, times=1, *, done=False, method="call"):
    """Lets so many calls fail, before they are made or after they were `done`; returns the calls that were tried."""
    tried, call = [], getattr(Link, method)

    def broken(self, which, *request, **options):
        tried.append(which.name)
        fails = len(tried) <= times
        if done or not fails:
            answer = call(self, which, *request, **options)
        if fails:
            raise LinkError(failure)
        return answer

    monkeypatch.setattr(Link, method, broken)
    return tried


LOST = FailedCall(UnavailableError("no answer"), grpc.StatusCode.UNAVAILABLE)
EXPIRED = FailedCall.of(Refusal("TOKEN_INVALID", "the token has expired"))


def test_the_example_of_the_page_runs_as_it_is_pasted(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    with running() as (hosting, admin):
        uses = frozenset({TableUse("lake/orders", "hudi")})
        report = Report("etl", 0, "hudi@1.1.0", supported={"hudi": LevelRange(6, 9)}, tables=uses)
        with MemberLoop(hosting.address, report):
            exec(compile(example.replace("grpc://127.0.0.1:7470", hosting.address), str(PAGE), "exec"), {})
            assert admin.describe().ladder("hudi").level == 8
            assert [each.actor for each in admin.audit(AuditQuery(action="raise"))] == ["release-bot"]
    assert capsys.readouterr().out == "etl hudi@1.1.0 ['lake/orders']\n"


def test_a_question_is_asked_once_more_if_its_answer_got_lost(fleet, monkeypatch):
    _, admin = fleet
    tried = failing(monkeypatch, LOST)
    assert admin.describe().epoch == 1
    assert tried == ["Describe", "Describe"]


@pytest.mark.parametrize("done", [False, True], ids=["lost on the way", "done, and the answer lost"])
def test_a_command_is_done_once_however_often_it_is_sent(fleet, monkeypatch, done):
    _, admin = fleet
    tried = failing(monkeypatch, LOST, done=done)
    result = admin.hold("hudi", "year end", name="lost")
    assert tried == ["PlaceHold", "PlaceHold"]
    assert [each.partition(" until")[0] for each in result.decisions] == ["hold hudi=6 lost"]
    assert [each.name for each in admin.describe().ladder("hudi").holds] == ["lost"]
    admin.release("hudi", "lost")


def test_a_command_whose_answer_stays_away_names_the_key_to_give_it_again_with(fleet, monkeypatch):
    hosting, admin = fleet
    with monkeypatch.context() as patched:
        failing(patched, LOST, times=2, done=True)
        with pytest.raises(UnavailableError, match="no answer") as caught:
            admin.hold("hudi", "year end", name="again")
    key = re.search(r"--key (\w+)", caught.value.next_step)[1]
    with AdminClient(hosting.address, "operator", key=key) as later:
        assert later.hold("hudi", "year end", name="again").decisions == ("hold hudi=6 again until released: year end",)
        with pytest.raises(ConflictError, match="already"):
            later.hold("hudi", "year end", name="again")
    with AdminClient(hosting.address, "operator", key=key) as other, pytest.raises(InputError, match="another command"):
        other.hold("hudi", "year end", name="different")
    admin.release("hudi", "again")


def test_a_key_is_dropped_once_although_the_answer_got_lost(fleet, monkeypatch):
    _, admin = fleet
    key = admin.signing_keys()[0].id
    failing(monkeypatch, LOST, done=True)
    assert admin.drop_key(key, "it was in a mail").decisions == (f"key {key} dropped",)
    assert len(admin.audit(AuditQuery(action="drop-key", subject=key))) == 1


def test_an_import_whose_answer_got_lost_does_not_undo_what_was_decided_since(monkeypatch):
    with running() as (hosting, admin):
        document = admin.export()
        with monkeypatch.context() as patched:
            failing(patched, LOST, times=2, done=True, method="upload")
            with pytest.raises(UnavailableError) as caught:
                admin.restore(document, "the store was lost")
        key = re.search(r"--key (\w+)", caught.value.next_step)[1]
        epoch = admin.describe().epoch
        admin.raise_level("hudi", 8)
        with AdminClient(hosting.address, "operator", key=key) as later:
            told = later.restore(document, "the store was lost")
        assert (told.epoch, told.decisions) == (epoch, ("import everything the store was lost",))
        assert admin.describe().ladder("hudi").level == 8
        assert len(admin.audit(AuditQuery(action="import"))) == 1


def test_a_command_that_was_never_sent_needs_no_key():
    with AdminClient("grpc://127.0.0.1:1", deadline=0.5) as admin, pytest.raises(UnavailableError) as caught:
        admin.raise_level("hudi", 8)
    assert "halocline serve" in caught.value.next_step


def test_a_command_is_given_again_with_a_fresh_token_if_the_old_one_has_expired(fleet, monkeypatch):
    _, admin = fleet
    tried = failing(monkeypatch, EXPIRED)
    assert isinstance(admin.set_policy("index", "auto"), CommandResult)
    assert tried == ["SetPolicy", "SetPolicy"]


def test_a_refusal_is_the_error_that_the_core_gives_it(fleet):
    _, admin = fleet
    admin.hold("hudi", "year end", name="close", level=6, until_ms=4_000_000_000_000)
    with pytest.raises(ConflictError) as caught:
        admin.raise_level("hudi", 8)
    assert caught.value.condition == "HELD"
    (hold,) = admin.describe().ladder("hudi").holds
    assert (hold.name, hold.level, hold.until_ms, hold.actor) == ("close", 6, 4_000_000_000_000, "operator")
    admin.release("hudi", "close")


@pytest.mark.parametrize("policy", ["", "sometimes", "hold"])
def test_a_policy_that_is_none_is_refused(fleet, policy):
    _, admin = fleet
    with pytest.raises(InputError):
        admin.declare_ladder(Ladder("app", (Rung(1),)), policy=policy)
    with pytest.raises(InputError):
        admin.set_policy("hudi", policy)


def test_terms_are_changed_and_the_services_keep_what_they_provide(fleet):
    hosting, admin = fleet
    provides = hosting.service.state().fleet.terms.provides
    admin.set_terms(FleetTerms(lease=20_000, margin=4_000, window=5, development=True), reason="slow network")
    terms = admin.describe().terms
    assert (terms.lease_ms, terms.margin_ms, terms.window_ms, terms.development) == (20_000, 4_000, 5, True)
    assert hosting.service.state().fleet.terms.provides == provides
    assert provides


@pytest.mark.parametrize(
    "changed", [{"lease": 2**33}, {"lease": 0}, {"margin": 2**33}, {"margin": -1}, {"window": 2**60}]
)
def test_terms_that_could_not_be_told_to_members_are_refused(fleet, changed):
    _, admin = fleet
    before = admin.describe().terms
    with pytest.raises(InputError, match=f"a {next(iter(changed))} of"):
        admin.set_terms(FleetTerms(**changed))
    # A client of another release may not know the bounds.
    terms = FleetTerms()
    for name, value in changed.items():
        object.__setattr__(terms, name, value)
    with pytest.raises(InputError):
        admin.set_terms(terms)
    assert admin.describe().terms == before


def test_a_ladder_that_is_not_there_is_a_key_error(fleet):
    with pytest.raises(KeyError, match="nope"):
        fleet[1].describe().ladder("nope")


def test_an_operator_has_a_name_that_can_be_one():
    assert Report(operator_name(), 0, "").identity == operator_name()


def test_a_key_that_was_dropped_is_good_for_nothing_and_members_come_back(fleet):
    hosting, admin = fleet
    (key,) = admin.signing_keys()
    report = Report("etl", 0, "hudi@1.1.0", supported={"hudi": LevelRange(6, 9)})
    with MemberLoop(hosting.address, report) as member, AdminClient(hosting.address, "thief") as thief:
        thief.describe()
        stolen, life = thief._link._token, member.incarnation
        admin.drop_key(key.id, "it was in a log")
        assert [each.id for each in admin.signing_keys()] != [key.id], "another one was made"
        with pytest.raises(DeniedError):
            hosting.service.tokens().check(stolen, 0)
        until(lambda: member.contact.status == "joined" and member.contact.error is None, "the member is back")
        member.use("lake/orders", "hudi")
        until(lambda: any(each.tables for each in admin.members().members), "and is heard")
        assert member.incarnation == life, "in the same life"
    (entry,) = admin.audit(AuditQuery(action="drop-key", subject=key.id))
    assert entry.detail == "it was in a log"
    with pytest.raises(NotFoundError, match="no key"):
        admin.drop_key(key.id, "again")


def test_dropping_a_key_needs_the_right_to_force():
    granted = {digest("s"): Grant("operators", rights(["raise"]))}
    with running(access=Access(granted)) as (hosting, _):
        endpoint = Endpoint.parse(hosting.address, secret="s")
        with AdminClient(endpoint) as admin:
            (key,) = admin.signing_keys()
            with pytest.raises(DeniedError):
                admin.drop_key(key.id, "why not")


def test_long_answers_come_in_pages_that_miss_and_repeat_nothing(monkeypatch):
    monkeypatch.setattr("halocline.fleet.answers.LARGEST_PAGE", 3)
    names = [f"job-{number}" for number in range(10)]
    with running() as (_, admin):
        for name in names:
            admin.observe(declared(name, "trino@396", "lake/orders"))
        asked = []
        monkeypatch.setattr(Link, "call", _counting(asked))
        assert [each.identity for each in admin.members().members] == names
        assert asked == ["Members"] * 4
        assert [each.identity for each in admin.members(limit=4).members] == names[:4]
        assert admin.members(limit=4).next == "job-3"
        for answer in (
            admin.who_breaks(ladder="delta", level=4),
            admin.who_blocks("deletionVectors"),
            admin.who_breaks(change=ProtocolChange("lake/orders", None, Terms.using("delta", ["deletionVectors"]))),
        ):
            assert [each.who for each in answer.affected] == names
            assert (answer.checked, answer.next) == (10, "")
        seen = admin.members(also_past=True)
        assert len(seen.members) == 10
        assert len(seen.sightings) == 1


def _counting(asked):
    call = Link.call

    def counted(self, which, *rest, **options):
        asked.append(which.name)
        return call(self, which, *rest, **options)

    return counted


# What the environment says, for members, operators' programs and commands alike.


def through_admin(address):
    with AdminClient(address, "ann") as admin:
        assert admin.describe().epoch == 1


def through_a_member(address):
    with MemberLoop(address, Report("etl", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, 3)})) as member:
        assert member.contact.status == "joined"


def through_connect(address):
    with hc.connect(address, name="driver", install=False) as handle:
        assert handle.contact.status == "joined"


def through_a_command(address):
    assert run(["fleet", "--at", address, "describe"]) == 0


CLIENTS = pytest.mark.parametrize("ask", [through_admin, through_a_member, through_connect, through_a_command])


@CLIENTS
def test_the_secret_of_the_environment_is_shown(monkeypatch, ask):
    access = Access({digest("let me in"): Grant("all", rights(["join"]))})
    with running(access=access) as (hosting, _):
        monkeypatch.setenv("HALOCLINE_FLEET_SECRET", "let me in")
        ask(hosting.address)


@CLIENTS
def test_the_authority_and_the_certificate_of_the_environment_are_used(monkeypatch, tmp_path, ask):
    authority = certificate("authority", authority=True)
    files = {}
    for name, issuer in (("authority", None), ("grpc.example", authority), ("spark.example", authority)):
        (tmp_path / name).mkdir()
        made = authority if name == "authority" else certificate(name, issuer)
        files[name] = write_files(tmp_path / name, *made)
    access = Access(certificates={"spark.example": Grant("spark", rights(["join"]))})
    trusted = files["authority"][0]
    with embedded(in_memory(access=access, tls=Tls(*files["grpc.example"], trusted))) as hosting:
        for name, file in zip(("CA", "CERT", "KEY"), (trusted, *files["spark.example"]), strict=True):
            monkeypatch.setenv(f"HALOCLINE_FLEET_{name}", str(file))
        ask(hosting.address)


def test_without_an_address_the_one_of_the_environment_is_asked(monkeypatch, fleet):
    hosting, _ = fleet
    monkeypatch.setenv("HALOCLINE_FLEET", hosting.address)
    with AdminClient(identity="ann") as admin:
        assert admin.describe().coordinator in hosting.address


def test_an_endpoint_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("HALOCLINE_FLEET_SECRET", "of somebody else")
    given = Endpoint.parse("grpc://127.0.0.1:7470", secret="mine")
    assert Endpoint.of(given) is given
    assert Endpoint.of("grpc://127.0.0.1:7470").secret == "of somebody else"
    with pytest.raises(InputError):
        Endpoint.of("")
