"""UNIQ_KEY, the id that a producer gives each message. [MessageClientIDSetter]"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyrmq.engine import unique_key
from pyrmq.net.address import own_ip


def key_address() -> str:
    """The address at the beginning of this machine's keys."""
    return own_ip().partition("%")[0]


def key_maker() -> Callable[[], str]:
    """Makes keys of 32 hex digits, of 56 with an IPv6 address: IP, low half of the process id, a
    random constant of the process, ms since the month began (local time), a counter."""
    return partial(unique_key, key_address())
