"""Addresses as text."""

from __future__ import annotations

import socket

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_address, parse_addresses, resolve, unreachable


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:0", ("h", 0)),
        (" h:65535 ", ("h", 65535)),
        ("[::1]:80", ("::1", 80)),
        ("h:00080", ("h", 80)),
        ("broker_a.shop-1.example.:80", ("broker_a.shop-1.example.", 80)),
        ("fe80::1%eth0:80", ("fe80::1%eth0", 80)),
        ("b\u00fccher.example:80", ("b\u00fccher.example", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "", ":1", "h", "h:", "h:-1", "h:65536", "h:x", "h:" + "9" * 5000, "h:\uff11", "[h]x:1",
        "a:1:2", "a/b:1", "a..b:1", "u@h:1", "h\x00:1", "a b:1", "h" * 256 + ":1",
    ],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    "text", ["a:1;b:2", "a:1,b:2", " a:1 ; b:2 ", ";a:1,, b:2;", "a:1;b:2;a:1"]
)
def test_lists(text: str) -> None:
    assert parse_addresses(text) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("text", ["", " ", ";"])
def test_empty_lists(text: str) -> None:
    assert parse_addresses(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://a:9876", "leave out what stands before the host"),
        ("a:9876 b:9876", "`;` or `,` separates addresses"),
        ("a:9876\nb:9876", "`;` or `,` separates addresses"),
        ("a:9876\uff1bb:9876", "`;` or `,` separates addresses"),
        ("a:9876\uff0cb:9876", "`;` or `,` separates addresses"),
        ("a\uff1a9876", "full-width"),
        ("a:1;b:0", "port 0 cannot be connected to"),
        ("a:1|b:2", "is not HOST:PORT"),
    ],
)
def test_lists_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"server '.*{said}"):
        parse_addresses(text, "server")
    with pytest.raises(ConfigError, match=said):
        BrokerConfig(namesrv_addr=text)


def test_a_host_that_does_not_resolve() -> None:
    with pytest.raises(ConfigError, match="the host name 'nosuch-invalid' does not resolve: "):
        resolve("nosuch-invalid")
    error = socket.gaierror(-2, "Name or service not known")
    said = "the host name 'h' does not resolve: Name or service not known"
    assert unreachable("h", error) == said
    assert unreachable("h", ConnectionRefusedError(111, "x")) == "Connection refused"
    assert unreachable("h", UnicodeError("label too long")) == "label too long"
