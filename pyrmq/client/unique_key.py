"""UNIQ_KEY, the id that a producer gives each message. [MessageClientIDSetter]"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

from pyrmq.net.address import ip_bytes, own_ip


def _month_start(now: float) -> float:
    t = time.localtime(now)
    return time.mktime((t.tm_year, t.tm_mon, 1, 0, 0, 0, 0, 0, -1))


def key_maker(clock: Callable[[], float] = time.time) -> Callable[[], str]:
    """Makes keys of 32 hex digits: IP, low half of the process id, a random constant, ms since
    the month began (local time), a counter."""
    ip = ip_bytes(own_ip())
    prefix = f"{ip.hex()}{os.getpid() & 0xFFFF:04x}{os.urandom(4).hex()}".upper()
    counter = itertools.count(int.from_bytes(os.urandom(2), "big"))
    start = _month_start(clock())

    def make() -> str:
        nonlocal start
        now = clock()
        if now - start > 28 * 86_400:
            start = _month_start(now)
        ms = max(int((now - start) * 1000), 0) & 0xFFFFFFFF
        return f"{prefix}{ms:08X}{next(counter) & 0xFFFF:04X}"

    return make
