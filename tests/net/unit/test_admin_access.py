"""adminAddressAllowList: which addresses, and which requests."""

from __future__ import annotations

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.model.codes import RequestCode
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import format_address
from pyrmq.net.server.admin_access import MAX_NETWORKS, AdminAccess, parse_networks

OF_CLIENTS_AND_BROKERS = {
    10, 11, 12, 14, 15, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 46, 103, 104, 105,
    106, 217, 220, 221, 307, 310, 320, 322, 324, 325, 326, 361, 370, 400, 901, 904, 905,
    200050, 200051, 200052, 200053, 200054, 200055, 200151,
}  # fmt: skip
"""Requests that do the work of producers, consumers and brokers."""
LOOKS = {
    21, 26, 28, 43, 45, 54, 60, 61, 101, 201, 202, 203, 204, 206, 208, 219, 223, 224, 300, 303, 304,
    305, 308, 311, 312, 313, 315, 317, 319, 321, 328, 343, 345, 351, 352, 354, 402, 907, 1005, 1006,
    1007, 1010, 2003, 3004, 3005, 3009, 3010,
}  # fmt: skip
"""Requests that show something and change nothing."""


def test_every_request_is_of_one_kind() -> None:
    """A new code has to be said to administrate, or not to."""
    kinds = [set(ADMIN_REQUESTS), OF_CLIENTS_AND_BROKERS, LOOKS]
    for code in RequestCode:
        assert sum(code in kind for kind in kinds) == 1, code.name
        assert ADMIN_REQUESTS.get(code, code.name) == code.name


def test_the_codes_that_were_asked_for_are_there() -> None:
    for name in (
        "UPDATE_AND_CREATE_TOPIC", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "CLONE_GROUP_OFFSET",
        "INVOKE_BROKER_TO_RESET_OFFSET", "UPDATE_BROKER_CONFIG", "RESUME_CHECK_HALF_MESSAGE",
        "DELETE_EXPIRED_COMMITLOG", "CLEAN_EXPIRED_CONSUMEQUEUE",
    ):  # fmt: skip
        assert ADMIN_REQUESTS[RequestCode[name]] == name


@pytest.mark.parametrize(
    ("allowed", "host", "taken"),
    [
        ("", "203.0.113.9", True),
        ("  ", "203.0.113.9", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.6", False),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("192.168.0.1, 10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:11.1.2.3", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.5", "10.0.0.6", False),
        ("0.0.0.0/0", "203.0.113.9", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "2001:db8::1", True),
        ("::/0", "203.0.113.9", False),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "2001:db8::1", False),
        ("2001:DB8:0::1", "2001:db8::1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("::1", "127.0.0.1", False),
        ("127.0.0.1", "::1", False),
    ],
)
def test_addresses(allowed: str, host: str, taken: bool) -> None:
    assert AdminAccess(allowed).allows(format_address((host, 4711))) is taken


def test_a_peer_without_an_address_is_nobody() -> None:
    assert not AdminAccess("0.0.0.0/0,::/0").allows("peer")
    assert not AdminAccess("0.0.0.0/0,::/0").allows("")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("localhost", "'localhost' is no address or network"),
        ("10.0.0.5/8", "write 10.0.0.0/8"),
        ("10.0.0.0/33", "is no address"),
        ("10.0.0.0/255.0.0.0", "is no address"),
        ("10.0.0.0/", "is no address"),
        ("10.0.0", "is no address"),
        ("010.0.0.1", "is no address"),
        ("167772160", "is no address"),
        ("10.0.0.1:80", "is no address"),
        ("[::1]", "is no address"),
        ("fe80::1%eth0", "is no address"),
        ("10.0.0.1,", "'' is no address"),
        (",", "'' is no address"),
        ("10.0.0.1;10.0.0.2", "is no address"),
        (",".join(["::1"] * (MAX_NETWORKS + 1)), "at most 1024"),
    ],
)
def test_what_is_no_list(text: str, word: str) -> None:
    """None of them may come to mean everybody."""
    for config in (BrokerConfig, NamesrvConfig):
        with pytest.raises(ConfigError, match="adminAddressAllowList") as caught:
            config.from_properties({"adminAddressAllowList": text})
        assert word in str(caught.value)


def test_networks_may_have_blanks_around_them() -> None:
    assert len(parse_networks(" 10.0.0.1 ,\tfd00::/8 ")) == 2
