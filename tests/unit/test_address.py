"""Addresses as text."""

from __future__ import annotations

import pytest

from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:0", ("h", 0)),
        (" h:65535 ", ("h", 65535)),
        ("[::1]:80", ("::1", 80)),
        ("h:00080", ("h", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":1", "h", "h:", "h:-1", "h:65536", "h:x", "h:" + "9" * 5000])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        parse_address(text)
