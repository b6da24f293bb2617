"""Patterns of addresses, against examples and against a naive model."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.plain.addresses import MAX_FORMS, MAX_TEXT, parse_pattern

EXAMPLES = [
    ("*", "10.0.0.1 ::1", ""),
    ("*.*.*.*", "10.0.0.1 ::1", ""),
    ("*:*:*:*:*:*:*:*", "10.0.0.1 ::1", ""),
    ("10.0.0.1", "10.0.0.1", "10.0.0.11 10.0.0.2 ::a00:1"),
    ("10.10.103.*", "10.10.103.0 10.10.103.255", "10.10.104.1 10.10.10.3"),
    ("1.2.*.*", "1.2.0.0 1.2.255.9", "1.3.0.0 12.0.0.1"),
    ("1.2.3-5.*", "1.2.3.0 1.2.5.255", "1.2.2.0 1.2.6.1"),
    ("192.168.1-100.5", "192.168.1.5 192.168.100.5", "192.168.3.6 192.168.101.5"),
    ("10.0.0.0-0", "10.0.0.0", "10.0.0.1"),
    ("10.0.0.1,10.0.0.9", "10.0.0.1 10.0.0.9", "10.0.0.2"),
    (" 10.0.0.1 , 10.1.*.* ", "10.0.0.1 10.1.2.3", "10.2.0.0"),
    ("10.0.0.{1,2,200}", "10.0.0.1 10.0.0.200", "10.0.0.12 10.0.0.20"),
    ("10.0.0.{1, 2},::1", "10.0.0.2 ::1", "10.0.0.3"),
    ("2001:db8::1", "2001:0DB8:0::1", "2001:db8::2 2001:db8:1::1"),
    ("5::7:6:1-200:*", "5::7:6:1:0 5:0:0:0:7:6:200:ffff", "5::7:6:201:0 5::8:6:1:0"),
    ("2001:db8:*", "2001:db8:: 2001:db8:ffff::1", "2001:db9::"),
    ("1::{2,b}", "1::2 1::B", "1::3"),
    ("::", "::", "::1"),
    ("::ffff:*", "::ffff:1", "::fffe:1 10.0.0.1"),
]


@pytest.mark.parametrize(("text", "inside", "outside"), EXAMPLES)
def test_what_a_pattern_matches(text: str, inside: str, outside: str) -> None:
    pattern = parse_pattern(text)
    for host in inside.split():
        assert pattern.matches(ip_address(host)), host
    for host in outside.split():
        assert not pattern.matches(ip_address(host)), host


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_a_blank_pattern_matches_nothing(text: str) -> None:
    pattern = parse_pattern(text)
    assert not pattern.matches(ip_address("127.0.0.1"))
    assert not pattern.matches(None)


def test_a_peer_without_an_address_is_matched_by_every_only() -> None:
    assert parse_pattern("*").matches(None)
    assert not parse_pattern("0-255.*.*.*").matches(None)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0", "10.0.0.0.1", "10.0.0.256", "10.0.0.-1", "10.0.0.5-", "10.0.0.9-3", "10.0.*",
        "10.0.0.1x", "10.0.0.٣", "10.0.0.{1,2", "10.0.0.1}", "10.0.{1,2}.1", "{10.0.0.1}",
        "10.0.0.{}", "10.0.0.1,,10.0.0.2", ",", "host", "1:2:3", "1::2::3", "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::", "12345::", "g::", ":::", "10.0.0.1/8", "fe80::1%eth0", "10.0.0.+1",
        "1" * (MAX_TEXT + 1), "10.0.0.{" + "1," * MAX_FORMS + "1}",
    ],
)  # fmt: skip
def test_a_text_that_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_pattern(text)
    assert len(str(error.value)) < 200


PART = st.integers(0, 255)
WRITTEN = st.one_of(
    PART.map(str),
    st.just("*"),
    st.tuples(PART, PART).map(lambda p: f"{min(p)}-{max(p)}"),
)


def _part_matches(written: str, part: int) -> bool:
    """The model: every number that the part stands for."""
    if written == "*":
        return True
    if "-" in written:
        low, high = written.split("-")
        return part in range(int(low), int(high) + 1)
    return int(written) == part


@given(
    st.lists(st.tuples(WRITTEN, WRITTEN, WRITTEN, WRITTEN), min_size=1, max_size=4),
    st.tuples(PART, PART, PART, PART),
)
def test_ranges_of_ipv4_are_those_of_the_model(
    written: list[tuple[str, ...]], parts: tuple[int, ...]
) -> None:
    pattern = parse_pattern(",".join(".".join(one) for one in written))
    expected = any(all(map(_part_matches, one, parts)) for one in written)
    assert pattern.matches(IPv4Address(bytes(parts))) == expected


@given(st.ip_addresses(v=6), st.ip_addresses(v=6))
def test_an_ipv6_address_matches_itself_however_it_is_written(
    one: IPv6Address, other: IPv6Address
) -> None:
    for text in (one.compressed, one.exploded, one.exploded.upper()):
        if "." in text:
            continue  # with an IPv4 address at its end
        pattern = parse_pattern(text)
        assert pattern.matches(one)
        assert pattern.matches(other) == (one == other)


@given(st.text(alphabet="0123456789abf.:*-,{} ", max_size=40))
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    try:
        pattern = parse_pattern(text)
    except ValueError:
        return
    pattern.matches(ip_address("10.0.0.1"))
    pattern.matches(ip_address("::1"))
