"""Releases: which program, in which version, and how to tell from what it wrote.

A `Release` is `product@version`, e.g. `deltalake@1.6.6`. Any text can be one: a product nobody has heard of and a
version that is no number are values that are kept and reported, and get the answer `unknown`.

Programs name themselves in what they commit, each in its own way: `Apache-Spark/3.5.0 Delta-Lake/3.1.0`,
`delta-rs:py-1.6.6`, `Kernel-3.4.0/engine`, `Databricks-Runtime/13.3.x-scala2.12`, or a node name such as
`trino-455-coordinator`. `releases_in` finds the products we know in such a string. It says who wrote, not who reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from halocline.compat.knowledge import Knowledge
from halocline.errors import InputError
from halocline.versions import Version, find_versions

LATEST: Final = "latest"
"""Stands for the newest release of a product that is known."""

_TEXT = re.compile(r"\s*(?P<product>[^@\s]+)@\s*(?P<version>[^@\s][^@]*)")
_WITHOUT_NUMBER = re.compile(r"(?<![A-Za-z0-9_.:-])(?P<product>[A-Za-z][A-Za-z0-9_.:-]*)/(?P<version>[^\s\d][^\s]*)")


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A version of a product.

    Example:
        >>> release = Release.parse("deltalake@1.6.6")
        >>> release.product, str(release.version), str(release)
        ('deltalake', '1.6.6', 'deltalake@1.6.6')
    """

    product: str
    version: Version
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Asked for in every verdict, and a version's hash is not free.
        object.__setattr__(self, "_hash", hash((self.product, self.version)))

    @staticmethod
    def parse(text: str | Release) -> Release:
        """Reads `product@version`; `product@latest` is the newest release that is known.

        Raises:
            InputError: The text has no such form. A version that is no number is fine: it is an unknown one.
        """
        release = text if isinstance(text, Release) else _parse(text)
        if str(release.version).casefold() == LATEST and (known := Knowledge.load().find(release.product)):
            return Release(known.name, known.newest)
        return release

    @staticmethod
    def exact(text: str) -> Release:
        """Reads `product@version` as it stands, from a program that says what it is: `latest` is an unknown version.

        Raises:
            InputError: The text has no such form.
        """
        return _parse(text)

    @staticmethod
    def reported(text: str) -> Release:
        """The release that somebody reports; text that names none becomes an unknown version of what it says.

        Example:
            >>> [str(Release.reported(text)) for text in ("trino@426", "trino@", "nightly")]
            ['trino@426', 'trino@unknown', 'nightly@unknown']
        """
        try:
            return _parse(text)
        except InputError:
            return Release(" ".join(text.strip("@ ").split()) or "unnamed", Version.parse("unknown"))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.product}@{self.version}"


@lru_cache(maxsize=65536)
def _parse(text: str) -> Release:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InputError(
            f"{text!r} does not name a release",
            sides={"given": text, "expected": "product@version, e.g. deltalake@1.6.6"},
            next_step="See which products are known: halocline matrix",
        )
    return Release(found["product"].casefold(), Version.parse(found["version"].strip()))


def releases_in(engine_info: str) -> tuple[Release, ...]:
    """The releases that a commit names as its writer.

    Known products are named as in knowledge, and others beside them are left out: Spark is how Delta Spark ran, not
    what it can read. Where no product is known, all that is named is returned.
    """
    known: list[Release] = []
    others: list[Release] = []
    for name, version in _named(engine_info):
        product = Knowledge.load().reporting_as(name)
        if product is None:
            others.append(Release(name.casefold(), version))
        else:
            known.append(Release(product.name, version.release if product.numbers_only else version))
    return tuple(dict.fromkeys(known or others))


def releases_in_commit(commit_info: Mapping[str, object]) -> tuple[Release, ...]:
    """The releases that a Delta commit's `commitInfo` names, wherever it does so.

    Most write `engineInfo`; older deltalake `clientVersion`, the Rust kernel `kernelVersion`, Trino a `clusterId`.
    """
    texts = {key: value for key, value in commit_info.items() if isinstance(value, str)}
    found = releases_in(texts.get("engineInfo", "")) or releases_in(texts.get("clientVersion", ""))
    if not found and texts.get("clusterId", "").startswith("trino-"):
        found = releases_in(texts["clusterId"])
    kernel = Version.parse(texts.get("kernelVersion", ""))
    if kernel.known and not any(Knowledge.load().find(each.product) for each in found):
        found = (Release("delta-kernel-rs", Version.parse(kernel.text.removeprefix("v"))),)
    return found


def _named(text: str) -> Iterator[tuple[str, Version]]:
    yield from find_versions(text)
    for found in _WITHOUT_NUMBER.finditer(text[:10_000]):
        version = Version.parse(found["version"])
        if not version.known and not find_versions(found[0]):
            yield found["product"], version
