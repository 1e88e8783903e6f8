"""An operator's client: the page's example, lost answers, expired tokens, and refusals as errors."""

import re
from pathlib import Path

import grpc
import pytest
from tests.support.fleets import running

from halocline.errors import ConflictError, InputError, UnavailableError
from halocline.fleet.answers import AuditQuery, CommandResult
from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.state import FleetTerms, LevelRange, Report, TableUse
from halocline.fleet.member.admin import operator_name
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.wire.status import FailedCall

PAGE = Path(__file__).parents[4] / "docs" / "fleet.md"


@pytest.fixture(scope="module")
def fleet():
    with running() as (hosting, admin):
        yield hosting, admin


def failing(monkeypatch, failure, times=1):
    """Lets so many calls fail before they are made; returns the calls that were tried."""
    tried, call = [], Link.call

    def broken(self, which, request, deadline=None):
        tried.append(which.name)
        if len(tried) <= times:
            raise LinkError(failure)
        return call(self, which, request, deadline)

    monkeypatch.setattr(Link, "call", broken)
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


def test_a_command_is_not_repeated_if_it_is_not_known_what_became_of_it(fleet, monkeypatch):
    _, admin = fleet
    tried = failing(monkeypatch, LOST)
    with pytest.raises(UnavailableError, match="no answer"):
        admin.hold("hudi", "year end")
    assert tried == ["PlaceHold"]
    assert admin.describe().ladder("hudi").holds == ()


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


def test_a_ladder_that_is_not_there_is_a_key_error(fleet):
    with pytest.raises(KeyError, match="nope"):
        fleet[1].describe().ladder("nope")


def test_an_operator_has_a_name_that_can_be_one():
    assert Report(operator_name(), 0, "").identity == operator_name()
