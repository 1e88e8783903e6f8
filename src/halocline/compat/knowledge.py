"""Knowledge: what each known product and release provides, per operation, with the source of every fact.

A product (`halocline.compat.product`) has one file, `data/knowledge/<product>.toml`, which is read by
`halocline.compat.product_file`.

What is promised: nothing is guessed. A release outside a product's known range is `unknown` altogether, and so is a
pre-release of a release in which the answer changes. Within the range a token without a fact gets the product's
`unlisted` answer: `refused` where the whole gate was read or measured, `unknown` where only parts are known.

What is not: a fact says what a release accepts and, where somebody looked, that the rows come out right. Bugs that
nobody has described are not in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from halocline.compat.product import Product
from halocline.compat.product_file import malformed, parse_product
from halocline.errors import NotFoundError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """All products. Get it with `Knowledge.load`; a product's file is read when it is first asked for."""

    files: Mapping[str, Traversable]
    _read: dict[str, Product] = field(default_factory=dict, repr=False)
    _names: dict[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def load(*folders: str | Path) -> Knowledge:
        """What ships with Halocline, with the files of these folders added; a file of the same name replaces ours.

        Example:
            >>> Knowledge.load().product("deltalake").title
            'deltalake (delta-rs for Python)'
        """
        return _with_folders(map(Path, folders)) if folders else _shipped()

    @property
    def products(self) -> Mapping[str, Product]:
        """All products by name."""
        return {name: self._product(name) for name in self.files}

    def product(self, name: str) -> Product:
        """The product of that name or alias.

        Raises:
            NotFoundError: Nothing is known about a product of that name.
        """
        found = self.find(name)
        if found is None:
            step = "Add a knowledge file for it: docs/knowledge.md"
            raise NotFoundError.unknown(
                f"nothing is known about a product {name!r}", name, sorted(self.files), next_step=step
            )
        return found

    def find(self, name: str) -> Product | None:
        """The product of that name or alias, or None."""
        folded = name.casefold()
        if folded in self.files:
            return self._product(folded)
        known = self._by_name().get(folded)
        return self._product(known) if known else None

    def reporting_as(self, name: str) -> Product | None:
        """The product that writes this name into commits, or None."""
        known = self._by_name().get("/" + name.casefold())
        return self._product(known) if known else None

    def _by_name(self) -> Mapping[str, str]:
        """Aliases, and after a slash the names in commits, to the product's own name."""
        if not self._names:
            for product in self.products.values():
                self._names.update(dict.fromkeys((each.casefold() for each in product.aliases), product.name))
                self._names.update(dict.fromkeys(("/" + each.casefold() for each in product.reports), product.name))
        return self._names

    def _product(self, name: str) -> Product:
        found = self._read.get(name)
        if found is None:
            # Imported here: importing the package should not pay for a parser it may not need.
            import tomllib

            try:
                data = tomllib.loads(self.files[name].read_text(encoding="utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise malformed(name, f"is not TOML: {error}") from error
            found = self._read[name] = parse_product(name, data)
        return found


@lru_cache(maxsize=1)
def _shipped() -> Knowledge:
    # Imported here, as the parser is. The package may lie in an archive that was shipped to a worker.
    from importlib.resources import files

    return Knowledge(_files(files("halocline.compat").joinpath("data", "knowledge")))


def _with_folders(folders: Iterable[Path]) -> Knowledge:
    files = dict(_shipped().files)
    for folder in folders:
        if not folder.is_dir():
            raise NotFoundError(f"no folder of knowledge files at {folder}", next_step="See: docs/knowledge.md")
        files |= _files(folder)
    return Knowledge(files)


def _files(folder: Traversable) -> dict[str, Traversable]:
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=lambda each: each.name)
    return {each.name.removesuffix(".toml"): each for each in found}
