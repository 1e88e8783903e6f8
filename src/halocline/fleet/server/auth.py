"""Who may do what: secrets, certificates, rights and tokens.

A caller shows a *credential*, a secret or a certificate, once, in the handshake, and gets a short-lived *token* for
everything after it. Every use of a token asks what its credential is good for now, so taking a credential away, or
rights from it, takes effect at once. The token says who it is, in which life, in which role, with which release and
under which epoch it was let in, and what it may do; it is signed with a key that lives in the store, so it outlives a
restart of the coordinator and is accepted by its successor.

*Rights* build on each other: `force` includes `raise`, that includes `plan`, and everything includes `observe`. Secrets
are kept as digests and compared in constant time. Without an access file every client that reaches the port may do
everything, which a server allows on the loopback address only.
"""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec

from halocline.errors import DeniedError, InputError

_ISSUER: Final = "halocline-fleet"
_ALGORITHM: Final = "HS256"
_LEEWAY_S: Final = 5


class Right(StrEnum):
    """What a caller may do; which calls need which is in `halocline.fleet.server.rights`."""

    OBSERVE = "observe"
    JOIN = "join"
    PLAN = "plan"
    RAISE = "raise"
    FORCE = "force"


_INCLUDES: Final[Mapping[Right, frozenset[Right]]] = {
    Right.OBSERVE: frozenset({Right.OBSERVE}),
    Right.JOIN: frozenset({Right.JOIN, Right.OBSERVE}),
    Right.PLAN: frozenset({Right.PLAN, Right.OBSERVE}),
    Right.RAISE: frozenset({Right.RAISE, Right.PLAN, Right.OBSERVE}),
    Right.FORCE: frozenset({Right.FORCE, Right.RAISE, Right.PLAN, Right.OBSERVE}),
}
EVERYTHING: Final = frozenset(Right)


def rights(names: Iterable[str]) -> frozenset[Right]:
    """Rights by name, with what they include."""
    found: set[Right] = set()
    for name in names:
        if name not in set(Right):
            raise InputError(f"there is no right {name!r}", sides={"rights": ", ".join(Right)})
        found |= _INCLUDES[Right(name)]
    return frozenset(found)


def digest(secret: str) -> str:
    """What an access file holds of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client was let in as; `members` are patterns of the identities that it may speak for."""

    name: str
    rights: frozenset[Right]
    members: tuple[str, ...] = ("*",)

    def speaks_for(self, identity: str) -> bool:
        """Whether it may be, or act as, that member or operator."""
        return any(fnmatchcase(identity, pattern) for pattern in self.members)


@dataclass(frozen=True, slots=True)
class Access:
    """Who is let in, and with which rights: by a secret's digest, a certificate's name, or showing nothing."""

    secrets: Mapping[str, Grant] = field(default_factory=dict)
    certificates: Mapping[str, Grant] = field(default_factory=dict)
    anonymous: frozenset[Right] = frozenset()

    @staticmethod
    def open() -> Access:
        """Every client may do everything."""
        return Access(anonymous=EVERYTHING)

    @staticmethod
    def load(path: Path) -> Access:
        """Access as a TOML file says.

        The file has a table per caller, `[secrets.NAME]` with `sha256` and `rights`, or `[certificates."NAME"]` with
        `rights`, where the name is one that the certificate bears. Both may have `members`: patterns of identities.
        """
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"the access file {path} cannot be read: {error}") from error
        if extra := found.keys() - {"secrets", "certificates", "anonymous"}:
            raise InputError(f"the access file {path} has an unknown part {sorted(extra)[0]!r}")
        try:
            secrets = {
                _checked_digest(each["sha256"]): _grant(name, each, "sha256")
                for name, each in found.get("secrets", {}).items()
            }
            certificates = {name: _grant(name, each) for name, each in found.get("certificates", {}).items()}
            anonymous = rights(found.get("anonymous", {}).get("rights", ()))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"the access file {path} lacks {error}",
                sides={"expected": "[secrets.NAME] with sha256 and rights, [certificates.NAME] with rights"},
            ) from error
        return Access(secrets, certificates, anonymous)

    def credential(self, secret: str = "", names: Iterable[str] = ()) -> str:
        """What a caller with this secret, or a certificate with these names, shows; nothing if it is not known.

        A secret that is wrong is never made up for by anything else.
        """
        if secret:
            shown = digest(secret)
            # Every digest is compared, so that the time taken says nothing.
            matching = [known for known in self.secrets if hmac.compare_digest(known, shown)]
            return f"secret:{_fingerprint(matching[0])}" if matching else ""
        known = next((name for name in names if name in self.certificates), None)
        return f"certificate:{known}" if known is not None else "anonymous"

    def granted(self, credential: str) -> Grant | None:
        """What a credential is good for; None if it is not, or no longer."""
        kind, _, which = credential.partition(":")
        if kind == "secret":
            return next((grant for known, grant in self.secrets.items() if _fingerprint(known) == which), None)
        if kind == "certificate":
            return self.certificates.get(which)
        return Grant("anonymous", self.anonymous) if kind == "anonymous" and self.anonymous else None

    def check_speaks_for(self, credential: str, identity: str, caller: str) -> None:
        """Raise a `DeniedError` unless a credential may say something about that member."""
        grant = self.granted(credential)
        if grant is None or not grant.speaks_for(identity):
            sides = {"members": ", ".join(grant.members) if grant else "none", "asked": identity}
            step = "Use a secret or certificate whose members include it."
            raise DeniedError(f"{caller} may not say what {identity} does", sides=sides, next_step=step)

    def authorised(self, claims: Claims) -> Claims:
        """What a token allows now: what it said, as far as its credential is still good for it.

        Raises:
            DeniedError: The secret or certificate was taken away, or may not speak for this one any more.
        """
        grant = self.granted(claims.credential)
        if grant is None or not grant.speaks_for(claims.identity):
            raise _invalid(f"{claims.identity} showed {claims.grant}, which is no longer good for it")
        return replace(claims, rights=claims.rights & grant.rights)


def _grant(name: str, told: Mapping[str, Any], *more: str) -> Grant:
    if extra := told.keys() - {"rights", "members", *more}:
        raise InputError(f"{name} has {sorted(extra)[0]!r} in the access file, which is not known")
    members = told.get("members", ["*"])
    if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
        raise InputError(f"the members of {name} in the access file must be a list of patterns")
    return Grant(name, rights(told["rights"]), tuple(members))


def _fingerprint(digest: str) -> str:
    return hashlib.sha256(digest.encode()).hexdigest()[:16]


def _checked_digest(text: str) -> str:
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise InputError("sha256 must be 64 lower-case hexadecimal digits", next_step="printf %s SECRET | sha256sum")
    return text


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says: to whom it was given, with what, and what it allows.

    Args:
        incarnation: In which life; 0 for callers that are no members.
        release: The release it was admitted with.
        epoch: The coordinator's at that time.
        grant: What the secret or certificate is called that it was let in by.
        credential: Which one that was; another secret under the same name is another credential.
    """

    identity: str
    incarnation: int
    role: str
    release: str
    epoch: int
    grant: str
    rights: frozenset[Right]
    expires_ms: int
    credential: str = "anonymous"

    @property
    def actor(self) -> str:
        """Who did it, for the audit log."""
        return self.identity if self.grant == "anonymous" else f"{self.identity} ({self.grant})"

    def require(self, right: Right, deed: str) -> None:
        """Raises a `DeniedError` unless the right is there."""
        if right not in self.rights:
            raise denied(self.identity, deed, right, self.rights)


def denied(who: str, deed: str, needed: Right, has: Iterable[Right]) -> DeniedError:
    """What a caller is told that lacks a right."""
    sides = {"needed": needed, "has": ", ".join(sorted(has)) or "nothing"}
    return DeniedError(f"{who} may not {deed}", sides=sides, next_step="Use a secret or certificate with that right.")


class Tokens:
    """Makes and checks tokens. Of the keys by id the first, which is the newest, signs; all are accepted."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)
        self._newest = next(iter(self._keys))

    def issue(self, claims: Claims) -> str:
        """A signed token."""
        payload = {"iss": _ISSUER, **msgspec.to_builtins(claims)}
        return jwt.encode(payload, self._keys[self._newest], algorithm=_ALGORITHM, headers={"kid": self._newest})

    def check(self, token: str, now_ms: int) -> Claims:
        """What a token says, if it was issued here and is still good by the clock of `expires_ms`."""
        if not token:
            raise _invalid("no token was given")
        try:
            key = self._keys[jwt.get_unverified_header(token).get("kid", "")]
            said = jwt.decode(token, key, algorithms=[_ALGORITHM], issuer=_ISSUER, options={"require": ["iss"]})
            claims = msgspec.convert(said, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, KeyError, TypeError, ValueError):
            raise _invalid("the token was not issued by this fleet") from None
        if claims.expires_ms + 1000 * _LEEWAY_S < now_ms:
            raise _invalid("the token has expired")
        return claims


def _invalid(problem: str) -> DeniedError:
    return DeniedError(problem, condition="TOKEN_INVALID", next_step="Make a new handshake.")
