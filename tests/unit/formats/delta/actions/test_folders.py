"""Names of folders stand for values, whatever these hold."""

from __future__ import annotations

import pytest

from halocline.formats.delta.actions.folders import folder_name, parse_folder


@pytest.mark.parametrize("text", ["a b", "10:00", "é", "%", "a=b", "[x]^{", "\x01\x7f", "'\"#*?\\"])
def test_folder_names_are_read_back(text):
    name = folder_name("co=l", text)

    assert parse_folder(name) == ("co=l", text)
    assert "/" not in name
    assert name.count("=") == 1
