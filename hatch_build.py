"""Makes the page for a package index out of the README: links into the repository lead nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]+\)\n+", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?!https?://|#|mailto:)(?P<path>[^)]+)\)")


def index_page(text: str) -> str:
    """The page without pictures of the repository, and with the paths of its pages as text.

    Example:
        >>> index_page("see [Speed](docs/speed.md)")
        'see Speed (`docs/speed.md`)'
    """
    return _LINK.sub(r"\g<text> (`\g<path>`)", _PICTURE.sub("", text))


class CustomMetadataHook(MetadataHookInterface):
    """Sets the page when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets it."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(text)}
