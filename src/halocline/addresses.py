"""Addresses of tables, stores and services, shown without the secrets that people put into them.

A URL can carry secrets in three places: before an `@` (`user:password@`, a token), in a query (`?sig=…`), and, when it
is mistyped, where the port should be. An *address* keeps the whole for whoever connects, and shows the rest: its text,
its repr and its comparisons know no secret. Two addresses of one place are equal, whatever they were signed with.

    Address.parse("s3://KEY:SECRET@lake/orders")      s3://lake/orders
    Address.parse("postgresql://fleet:pw@db/fleet")   postgresql://fleet@db/fleet

`without_secrets` does this for one address, `hide_secrets` for every URL within a text, such as an error or a line of a
log. What stands before an `@` is part of the place in Azure's schemes (the container) and of a database (the user), and
stays there without its password.

A secret may be percent-encoded, once or more, and so may the whole URL be. In a text a password that is called one is
hidden as well, as in `host=db password=…` or `AccountKey=…`.

Limits: in a text without `://`, encoded or not, only what is called a password or a key is taken for a secret. A `?`
begins a query only where `name=` follows; otherwise it is a character of a name, and so is what stands in a path, as
`password=1` does in the folder of a partition. Of the queries of databases only what cannot be a secret stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

_DATABASES: Final = frozenset({"postgresql", "postgres"})
_NAMED_BEFORE_AT: Final = _DATABASES | {"abfs", "abfss", "wasb", "wasbs"}
_HARMLESS: Final = frozenset(
    {"application_name", "connect_timeout", "dbname", "host", "hostaddr", "port", "sslmode", "target_session_attrs"}
)
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.:-]{0,60}://"
# A password may hold almost everything, so only what surely ends a URL in a text does, and less of that before an `@`.
_PASSWORD: Final = r"(?:[^\s/:@\"'`<>|{}]*:(?!\d+(?:[/,;|'`<>{}()\]]|$))[^\s/@\"]*@)?"
_URL_IN_TEXT: Final = re.compile(rf"{_SCHEME}{_PASSWORD}[^\s\"'`<>|{{}}]*")
_ESCAPED_URL: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,60}%(?:25)*3A(?:%(?:25)*2F){2}[^\s\"'`<>|{}]+", re.IGNORECASE
)
_NEXT_URL: Final = re.compile(rf"([,\s])(?={_SCHEME})")
_FIRST_URL: Final = re.compile(_SCHEME)
_ESCAPED_SIGN: Final = re.compile(r"%(?:25)*(?:40|3A)", re.IGNORECASE)
_CALLED_SECRET: Final = re.compile(
    r"(?<![\w/%.-])(?P<name>(?:ssl)?password|passwd|pwd|account_?key|shared_?access_?key|(?:client_|access_)?secret(?:_key)?"
    r"|(?:aws_)?secret_access_key)(?P<sign>\s*=\s*)(?:'(?:[^'\\\n\"]|\\.)*'|[^\s&;,'\"\\)\]}]+)",
    re.IGNORECASE,
)
_BEFORE_AT: Final = re.compile(r"(?<=:)[^\s@]*@")
_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?(?:,(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?)*")
_QUERY: Final = re.compile(
    r"\?(?=[\w.\-%\[\]]+=|\w+%(?:25)*3D)|#(?=\w*(?:token|key|secret|sig)=)|[;&](?=(?:sig|signature|password|passwd|pwd)=)",
    re.IGNORECASE,
)
_ESCAPED_MARK: Final = re.compile(r"%(?:25)*3F", re.IGNORECASE)
_SIGNATURE: Final = re.compile(
    r"(?:sig|signature|credential|token|key|secret|password|passwd|pwd)(?:=|%(?:25)*3D)", re.IGNORECASE
)
_CLOSING: Final = ".,:;)]"
_DEEPEST: Final = 8
_SIGNS_OF_SECRETS: Final = frozenset("@?#%;&")


@dataclass(frozen=True, slots=True)
class Address:
    """An address that shows no secret.

    Args:
        shown: The address without secrets; what is compared.

    Example:
        >>> Address.parse("s3://AKIA:hunter2@lake/orders")
        Address('s3://lake/orders')
        >>> Address.parse("s3://lake/orders") == Address.parse("s3://lake/orders?X-Amz-Signature=abc")
        True
    """

    shown: str
    _whole: str = field(default="", compare=False, repr=False)

    @staticmethod
    def parse(text: str | Address) -> Address:
        """The address that a text is."""
        if isinstance(text, Address):
            return text
        shown = without_secrets(text) if "://" in text else _BEFORE_AT.sub("…@", text)
        return Address(_without_called(shown), text)

    def with_secrets(self) -> str:
        """The address as it was given, for whoever connects; never to be shown, kept or sent on."""
        return self._whole

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def without_secrets(address: str) -> str:
    """One address without its secrets; the same text if it has none.

    Example:
        >>> without_secrets("abfss://lake:key@account.dfs.core.windows.net/orders?sv=2024&sig=abc")
        'abfss://lake@account.dfs.core.windows.net/orders'
    """
    if not _may_hold_secrets(address):
        return address
    return "".join(_shown(part) if "://" in part else part for part in _NEXT_URL.split(address))


def has_secrets(address: str) -> bool:
    """Return whether an address carries anything that is not shown."""
    return without_secrets(address) != address


def unsigned(address: str) -> str:
    """One address without its secrets, also where a signature was escaped into the name of the place.

    Example:
        >>> unsigned("s3://lake/orders%3Fsv=2024&sig=abc")
        's3://lake/orders'
    """
    if "://" not in address:
        plain = _unescaped(address) if _ESCAPED_URL.fullmatch(address) else address
        return address if plain == address or plain == unsigned(plain) else unsigned(plain)
    signed = _signed(address)
    # An `@` behind it would have it stand in a password.
    shown = without_secrets(address[: signed.start()] if signed and "@" not in address[signed.end() :] else address)
    return shown[: signed.start()] if (signed := _signed(shown)) else shown


def hide_secrets(text: str, mark: str = "?…") -> str:
    """A text in which no URL shows a secret, with a mark where a query was.

    Example:
        >>> hide_secrets("cannot open s3://KEY:pw@lake/t?sig=abc.")
        'cannot open s3://lake/t?….'
    """
    if "://" in text:
        text = _URL_IN_TEXT.sub(lambda url: _hidden(url, mark), text)
    if "%" in text:
        text = _ESCAPED_URL.sub(_hidden_escaped, text)
    return _without_called(text)


def hidden_in(values: Mapping[str, str]) -> dict[str, str]:
    """Texts by name, each as `hide_secrets` leaves it."""
    return {name: hide_secrets(text) if isinstance(text, str) else text for name, text in values.items()}


def _shown(address: str, depth: int = 0) -> str:
    """One URL without its secrets, and what stands before its scheme."""
    start = _FIRST_URL.search(address)
    if start is None:
        return address
    before, scheme, rest = address[: start.start()], start[0], address[start.end() :]
    place, query = _split_query(rest)
    authority, slash, path = place.partition("/")
    if "@" not in authority and _ESCAPED_SIGN.search(authority):
        place = f"{_ESCAPED_SIGN.sub(_sign, authority)}{slash}{path}"
        authority, slash, path = place.partition("/")
    if "@" in place and ("@" in authority or not _PORT.fullmatch(authority)):
        # The password may hold slashes and further signs: without them the host would not be one.
        user, _, after = authority.rpartition("@")
        if not user:
            user, _, place = place.rpartition("@")
            after, slash, path = place.partition("/")
        authority = f"{user.partition(':')[0]}@{after}" if _kind(scheme) in _NAMED_BEFORE_AT else after
    host = authority.rpartition("@")[2]
    if not _PORT.fullmatch(host):
        authority = authority.removesuffix(host) + host.partition(":")[0]
    if inner := _FIRST_URL.search(path):
        path = path[: inner.start()] + (_shown(path[inner.start() :], depth + 1) if depth < _DEEPEST else "…")
    parameters = query if _kind(scheme) in _DATABASES else ""
    return f"{before}{scheme}{authority}{slash}{path}{_harmless(parameters)}"


def _hidden(url: re.Match[str], mark: str) -> str:
    address = url[0].rstrip(_CLOSING)
    closing = url[0][len(address) :]
    shown = unsigned(address)
    is_cut = bool(_QUERY.search(address) or _signed(address)) and not _QUERY.search(shown)
    return f"{shown}{mark if is_cut else ''}{closing}"


def _signed(address: str) -> re.Match[str] | None:
    """Where a query begins that was escaped into the name of a place; None if none with a secret does."""
    begins = _ESCAPED_MARK.search(address)
    return begins if begins and _SIGNATURE.search(address, begins.end()) else None


def _without_called(text: str) -> str:
    return _CALLED_SECRET.sub(r"\g<name>\g<sign>…", text) if "=" in text else text


def _hidden_escaped(url: re.Match[str]) -> str:
    plain = _unescaped(url[0])
    # What was escaped must not be taken for the end of the text that it stands in.
    return url[0] if plain == unsigned(plain) else quote(unsigned(plain), safe=":/@?=&,;+~")


def _sign(escaped: re.Match[str]) -> str:
    return "@" if escaped[0].endswith("40") else ":"


def _unescaped(text: str) -> str:
    """A text without its percent-signs, however often it was escaped."""
    while (plain := unquote(text)) != text:
        text = plain
    return text


def _may_hold_secrets(address: str) -> bool:
    """Return whether it is worth a look: a fleet may know a million addresses, and next to none has a secret."""
    return "://" in address and (address.count(":") > 1 or not _SIGNS_OF_SECRETS.isdisjoint(address))


def _split_query(rest: str) -> tuple[str, str]:
    """What follows the scheme, before and behind the sign that begins a query."""
    found = _QUERY.search(rest)
    return (rest[: found.start()], rest[found.end() :]) if found else (rest, "")


def _harmless(query: str) -> str:
    kept = [each for each in query.split("&") if each.partition("=")[0].lower() in _HARMLESS]
    return f"?{'&'.join(kept)}" if kept else ""


def _kind(scheme: str) -> str:
    return scheme.removesuffix("://").partition("+")[0].lower()
