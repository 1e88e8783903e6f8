"""Where a fleet is reached, and how to open a channel to it.

An *endpoint* is one or more addresses with what is needed to be let in: `grpc://host:port` in the clear, which is meant
for the machine itself, `grpcs://host:port` with TLS. Several coordinators are separated by commas; one of them is
active and the others say which.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from halocline.addresses import without_secrets
from halocline.errors import InputError

DEFAULT_PORT: Final = 7470
DEFAULT_ADDRESS: Final = f"grpc://127.0.0.1:{DEFAULT_PORT}"
LARGEST_REQUEST: Final = 1 << 20
"""Bytes. No caller has more to say at once; an import comes in pieces."""
LARGEST_ANSWER: Final = 64 << 20
"""Bytes. A list of many thousand members is long."""

_OPTIONS: Final = (
    ("grpc.max_send_message_length", LARGEST_REQUEST),
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Channels of one process would otherwise share a connection, and with it its fate.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A fleet's addresses and credentials.

    Args:
        secret: Exchanged for a token in the handshake; empty where a certificate or the machine itself is enough.
        authority: File with the certificates that sign the coordinator's; those of the system if not given.

    Example:
        >>> Endpoint.parse("grpc://127.0.0.1:7470").targets
        ('127.0.0.1:7470',)
        >>> Endpoint.parse("grpcs://a.example:7470,b.example:7470").tls
        True
    """

    targets: tuple[str, ...]
    tls: bool = False
    secret: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @staticmethod
    def parse(
        address: str,
        *,
        secret: str = "",
        authority: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> Endpoint:
        """An endpoint from its address."""
        if not isinstance(address, str):
            raise _unusable(str(address))
        scheme, found, rest = address.partition("://")
        targets = tuple(_target(each.strip(), address) for each in rest.rstrip("/").split(","))
        if not found or scheme not in ("grpc", "grpcs"):
            raise _unusable(address)
        if (certificate is None) != (key is None):
            raise InputError("a client certificate and its key go together; only one was given")
        return Endpoint(targets, scheme == "grpcs", secret, authority, certificate, key)

    @staticmethod
    def of(where: Endpoint | str | None) -> Endpoint:
        """Return the endpoint that a client is given: as it is, or an address with what the environment adds to it."""
        if isinstance(where, Endpoint):
            return where
        return Endpoint.parse(where) if where == "" else Endpoint.from_environment(where)

    @staticmethod
    def from_environment(address: str | None = None, environment: Mapping[str, str] = os.environ) -> Endpoint:
        """An endpoint as the environment says, with the address overridden if one is given.

        `HALOCLINE_FLEET` is the address, `HALOCLINE_FLEET_SECRET` the secret; `_CA`, `_CERT` and `_KEY` name files.
        """
        named = {name: environment.get(f"HALOCLINE_FLEET_{name}") for name in ("CA", "CERT", "KEY")}
        files = {name: Path(value) if value else None for name, value in named.items()}
        return Endpoint.parse(
            address or environment.get("HALOCLINE_FLEET") or DEFAULT_ADDRESS,
            secret=environment.get("HALOCLINE_FLEET_SECRET", ""),
            authority=files["CA"],
            certificate=files["CERT"],
            key=files["KEY"],
        )

    def __str__(self) -> str:
        return f"{'grpcs' if self.tls else 'grpc'}://{','.join(self.targets)}"

    def channel(self, target: str) -> grpc.Channel:
        """A channel to one of the coordinators."""
        if not self.tls:
            return grpc.insecure_channel(target, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(_read(self.authority), _read(self.key), _read(self.certificate))
        return grpc.secure_channel(target, credentials, options=_OPTIONS)


def _target(text: str, address: str) -> str:
    host, _, port = text.rpartition(":") if text.rpartition(":")[2].isdigit() else (text, "", str(DEFAULT_PORT))
    if not host or any(sign in host for sign in "/@?#") or int(port) > 65_535:
        raise _unusable(address)
    return f"{host}:{port}"


def _unusable(address: str) -> InputError:
    return InputError(
        f"{without_secrets(address)[:200]!r} is no address of a fleet",
        sides={"expected": "grpc://host:port, or grpcs:// for TLS; several separated by commas"},
    )


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
