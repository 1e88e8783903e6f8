"""Secrets, certificates, rights and tokens."""

import base64
import json

import jwt
import pytest

from halocline.errors import DeniedError, InputError
from halocline.fleet.server.auth import EVERYTHING, Access, Claims, Grant, Right, Tokens, digest, rights

KEYS = {"k2": b"2" * 32, "k1": b"1" * 32}
CLAIMS = Claims("etl", 7, "writer", "deltalake@1.6.6", 3, "drivers", rights(["join"]), 1_000_000)


def grant(access, secret="", names=()):
    """What is granted to whom who shows this."""
    return access.granted(access.credential(secret, names))


def test_rights_include_what_they_build_on():
    included = {name: {str(each) for each in rights([name])} for name in Right}
    assert included == {
        "observe": {"observe"},
        "join": {"join", "observe"},
        "plan": {"plan", "observe"},
        "raise": {"raise", "plan", "observe"},
        "force": {"force", "raise", "plan", "observe"},
    }
    with pytest.raises(InputError, match="no right 'root'"):
        rights(["root"])


def test_a_secret_gives_its_grant_and_a_wrong_one_nothing():
    access = Access({digest("a"): Grant("a", rights(["join"]))}, anonymous=rights(["observe"]))
    assert grant(access, "a").name == "a"
    assert grant(access, "b") is None, "who shows a wrong secret is not let in as anonymous"
    assert grant(access, "").rights == {Right.OBSERVE}


def test_a_certificate_gives_its_grant_by_any_of_its_names():
    access = Access(certificates={"spark.example": Grant("spark.example", rights(["join"]))})
    assert grant(access, names=("other", "spark.example")).name == "spark.example"
    assert grant(access, names=("other",)) is None
    assert grant(access, "guess", names=("spark.example",)) is None


def test_an_open_access_lets_everybody_do_everything():
    assert grant(Access.open()).rights == EVERYTHING


def test_an_access_file_is_read(tmp_path):
    path = tmp_path / "access.toml"
    path.write_text(
        f'[secrets.ops]\nsha256 = "{digest("s")}"\nrights = ["force"]\n'
        '[certificates."spark.example"]\nrights = ["join"]\n[anonymous]\nrights = ["observe"]\n'
    )
    access = Access.load(path)
    assert grant(access, "s") == Grant("ops", rights(["force"]))
    assert grant(access, names=["spark.example"]).rights == rights(["join"])
    assert grant(access).rights == {Right.OBSERVE}


@pytest.mark.parametrize(
    "content",
    [
        "not toml [",
        "[nonsense]\nx = 1",
        '[secrets.ops]\nrights = ["join"]',
        '[secrets.ops]\nsha256 = "abc"\nrights = ["join"]',
        f'[secrets.ops]\nsha256 = "{"0" * 64}"\nrights = ["root"]',
        f'[secrets.ops]\nsha256 = "{"0" * 64}"',
        "secrets = 3",
    ],
)
def test_an_access_file_that_says_something_else_is_refused(tmp_path, content):
    path = tmp_path / "access.toml"
    path.write_text(content)
    with pytest.raises(InputError):
        Access.load(path)


def test_a_missing_access_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Access.load(tmp_path / "none.toml")


def test_a_credential_names_whom_it_speaks_for(tmp_path):
    path = tmp_path / "access.toml"
    path.write_text(f'[secrets.etl]\nsha256 = "{digest("s")}"\nrights = ["join"]\nmembers = ["etl-*", "load"]')
    found = grant(Access.load(path), "s")
    assert [found.speaks_for(each) for each in ("etl-nightly", "load", "loader", "bi")] == [True, True, False, False]
    for wrong in ('members = "etl-*"', "members = [1]", 'membrs = ["etl-*"]'):
        path.write_text(f'[secrets.etl]\nsha256 = "{digest("s")}"\nrights = ["join"]\n{wrong}')
        with pytest.raises(InputError):
            Access.load(path)


def test_another_secret_under_the_same_name_is_another_credential():
    before, after = (Access({digest(each): Grant("ops", rights(["raise"]))}) for each in ("old", "new"))
    assert before.granted(before.credential("old")).name == "ops"
    assert after.granted(before.credential("old")) is None


def test_a_token_says_what_it_was_made_of():
    tokens = Tokens(KEYS)
    assert tokens.check(tokens.issue(CLAIMS), 999_000) == CLAIMS


def test_a_token_of_an_older_key_is_still_good():
    token = Tokens({"k1": KEYS["k1"]}).issue(CLAIMS)
    assert Tokens(KEYS).check(token, 0).identity == "etl"


def test_a_token_expires():
    tokens = Tokens(KEYS)
    with pytest.raises(DeniedError, match="expired") as caught:
        tokens.check(tokens.issue(CLAIMS), CLAIMS.expires_ms + 6_000)
    assert caught.value.condition == "TOKEN_INVALID"


def unsigned(payload, header):
    parts = (header, payload)
    encoded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts]
    return ".".join([*encoded, ""])


def payload(**changes):
    said = {"iss": "halocline-fleet", "identity": "etl", "incarnation": 1, "role": "r", "release": "x@1", "epoch": 1}
    return {**said, "grant": "g", "rights": ["force"], "expires_ms": 10**12, **changes}


def test_what_the_forgeries_below_say_would_pass_if_it_were_signed_here():
    token = jwt.encode(payload(), KEYS["k1"], algorithm="HS256", headers={"kid": "k1"})
    assert Tokens(KEYS).check(token, 0).identity == "etl"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "\0" * 50,
        "a" * 100_000,
        unsigned(payload(), {"alg": "none", "kid": "k1"}),
        jwt.encode(payload(), b"9" * 32, algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(payload(), KEYS["k1"], algorithm="HS256", headers={"kid": "unknown"}),
        jwt.encode(payload(), KEYS["k1"], algorithm="HS256"),
        jwt.encode(payload(), KEYS["k1"] * 2, algorithm="HS512", headers={"kid": "k1"}),
        jwt.encode(payload(iss="someone else"), KEYS["k1"], algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(payload(rights=["root"]), KEYS["k1"], algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(payload(incarnation="many"), KEYS["k1"], algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode({"identity": "etl"}, KEYS["k1"], algorithm="HS256", headers={"kid": "k1"}),
    ],
)
def test_a_forged_or_damaged_token_is_refused(token):
    with pytest.raises(DeniedError) as caught:
        Tokens(KEYS).check(token, 0)
    assert caught.value.condition == "TOKEN_INVALID"
    assert len(str(caught.value)) < 200


def test_a_changed_claim_breaks_the_signature():
    head, body, signature = Tokens(KEYS).issue(CLAIMS).split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    said["rights"] = ["force"]
    forged = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()
    with pytest.raises(DeniedError):
        Tokens(KEYS).check(f"{head}.{forged}.{signature}", 0)


def test_a_right_that_is_missing_is_named_with_those_that_are_there():
    with pytest.raises(DeniedError) as caught:
        CLAIMS.require(Right.RAISE, "change the fleet")
    assert caught.value.sides == {"needed": "raise", "has": "join, observe"}
    CLAIMS.require(Right.OBSERVE, "look")


def test_the_audit_log_says_by_which_grant_somebody_acted():
    assert CLAIMS.actor == "etl (drivers)"
