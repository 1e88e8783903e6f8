"""Addresses of tables, stores and services, shown without the secrets that people put into them.

A URL can carry secrets in three places: before an `@` (`user:password@`, a token), in a query (`?sig=…`), and, when it
is mistyped, where the port should be. An *address* keeps the whole for whoever connects, and shows the rest: its text,
its repr and its comparisons know no secret. Two addresses of one place are equal, whatever they were signed with.

    Address.parse("s3://KEY:SECRET@lake/orders")      s3://lake/orders
    Address.parse("postgresql://fleet:pw@db/fleet")   postgresql://fleet@db/fleet

`without_secrets` does this for one address, `hide_secrets` for every URL within a text, such as an error or a line of a
log. What stands before an `@` is part of the place in Azure's schemes (the container) and of a database (the user), and
stays there without its password.

Limits: a text without `://` is no URL, so nothing in it is taken for a secret. A `?` begins a query only where `name=`
follows; otherwise it is a character of a name. Of the queries of databases only what cannot be a secret stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_DATABASES: Final = frozenset({"postgresql", "postgres"})
_NAMED_BEFORE_AT: Final = _DATABASES | {"abfs", "abfss", "wasb", "wasbs"}
_HARMLESS: Final = frozenset(
    {"application_name", "connect_timeout", "dbname", "host", "hostaddr", "port", "sslmode", "target_session_attrs"}
)
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.:-]{0,60}://"
_URL: Final = re.compile(rf"(?P<scheme>{_SCHEME})(?P<rest>.*)", re.DOTALL)
# A password may hold almost everything, so only what surely ends a URL in a text does.
_URL_IN_TEXT: Final = re.compile(rf"{_SCHEME}[^\s\"'`<>|{{}}]+")
_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?(?:,(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?)*")
_QUERY: Final = re.compile(r"\?(?=[\w.\-%\[\]]+=)|#(?=\w*(?:token|key|secret|sig)=)", re.IGNORECASE)
_SIGNED: Final = re.compile(
    r"%3F(?=.*?(?:sig|signature|credential|token|key|secret|password|passwd|pwd)=)", re.IGNORECASE | re.DOTALL
)
_CLOSING: Final = re.compile(r"[.,:;)\]]+$")


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
        return text if isinstance(text, Address) else Address(without_secrets(text), text)

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
    url = _URL.fullmatch(address) if _may_hold_secrets(address) else None
    if url is None:
        return address
    scheme, rest = url["scheme"], url["rest"]
    place, query = _split_query(rest)
    authority, slash, path = place.partition("/")
    if "@" in place and ("@" in authority or not _PORT.fullmatch(authority)):
        # The password may hold slashes and further signs: without them the host would not be one.
        before, _, after = authority.rpartition("@")
        if not before:
            before, _, place = place.rpartition("@")
            after, slash, path = place.partition("/")
        authority = f"{before.partition(':')[0]}@{after}" if _kind(scheme) in _NAMED_BEFORE_AT else after
    host = authority.rpartition("@")[2]
    if not _PORT.fullmatch(host):
        authority = authority.removesuffix(host) + host.partition(":")[0]
    if "://" in path:
        path = hide_secrets(path)
    parameters = query if _kind(scheme) in _DATABASES else ""
    return f"{scheme}{authority}{slash}{path}{_harmless(parameters)}"


def has_secrets(address: str) -> bool:
    """Return whether an address carries anything that is not shown."""
    return without_secrets(address) != address


def unsigned(address: str) -> str:
    """One address without its secrets, also where a signature was escaped into the name of the place.

    Example:
        >>> unsigned("s3://lake/orders%3Fsv=2024&sig=abc")
        's3://lake/orders'
    """
    shown = without_secrets(address)
    return _SIGNED.split(shown, maxsplit=1)[0] if "%3" in shown and "://" in shown else shown


def hide_secrets(text: str, mark: str = "?…") -> str:
    """A text in which no URL shows a secret, with a mark where a query was.

    Example:
        >>> hide_secrets("cannot open s3://KEY:pw@lake/t?sig=abc.")
        'cannot open s3://lake/t?….'
    """
    return _URL_IN_TEXT.sub(lambda url: _hidden(url, mark), text) if "://" in text else text


def hidden_in(values: Mapping[str, str]) -> dict[str, str]:
    """Texts by name, each as `hide_secrets` leaves it."""
    return {name: hide_secrets(text) if isinstance(text, str) else text for name, text in values.items()}


def _hidden(url: re.Match[str], mark: str) -> str:
    end = _CLOSING.search(url[0])
    closing = end[0] if end else ""
    address = url[0].removesuffix(closing)
    shown = unsigned(address)
    is_cut = bool(_QUERY.search(address) or _SIGNED.search(address)) and not _QUERY.search(shown)
    return f"{shown}{mark if is_cut else ''}{closing}"


def _may_hold_secrets(address: str) -> bool:
    """Return whether it is worth a look: a fleet may know a million addresses, and next to none has a secret."""
    return ("@" in address or "?" in address or "#" in address or address.count(":") > 1) and "://" in address


def _split_query(rest: str) -> tuple[str, str]:
    """What follows the scheme, before and behind the sign that begins a query."""
    found = _QUERY.search(rest)
    return (rest[: found.start()], rest[found.end() :]) if found else (rest, "")


def _harmless(query: str) -> str:
    kept = [each for each in query.split("&") if each.partition("=")[0].lower() in _HARMLESS]
    return f"?{'&'.join(kept)}" if kept else ""


def _kind(scheme: str) -> str:
    return scheme.removesuffix("://").partition("+")[0].lower()
