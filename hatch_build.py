"""Makes the page for a package index out of the README, and the links beside it.

The repository is the one that `HALOCLINE_REPOSITORY` names, or that a pipeline of GitHub builds; pages are linked
there. Where neither is known, no link is made up: paths of the README's pages are shown as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]+\)\n+", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?!https?://|#|mailto:)(?P<path>[^)]+)\)")


def repository(environment: Mapping[str, str]) -> str:
    """The address of the repository, if it is known.

    Example:
        >>> repository({"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "sea/halocline"})
        'https://github.com/sea/halocline'
        >>> repository({})
        ''
    """
    if named := environment.get("HALOCLINE_REPOSITORY"):
        return named.rstrip("/")
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else ""


def index_page(text: str, repository: str = "") -> str:
    """The page without pictures of the repository, and with its pages as links, or as text.

    Example:
        >>> index_page("see [Speed](docs/speed.md)")
        'see Speed (`docs/speed.md`)'
        >>> index_page("see [Speed](docs/speed.md)", "https://example.org/halocline")
        'see [Speed](https://example.org/halocline/blob/main/docs/speed.md)'
    """
    link = rf"[\g<text>]({repository}/blob/main/\g<path>)" if repository else r"\g<text> (`\g<path>`)"
    return _LINK.sub(link, _PICTURE.sub("", text))


def project_urls(repository: str) -> dict[str, str]:
    """The links that an index shows beside the page."""
    if not repository:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/tree/main/docs",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class CustomMetadataHook(MetadataHookInterface):
    """Sets both when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets them."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        known = repository(os.environ)
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(text, known)}
        metadata["urls"] = project_urls(known)
