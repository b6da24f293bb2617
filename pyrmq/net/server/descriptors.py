"""Descriptors: how many a server may have, and those that clients do not get.

A server without descriptors cannot roll its log, write its configuration or reach its name servers.
So clients' connections end below a reserve.
"""

from __future__ import annotations

import logging
import resource

import trio

from pyrmq.escape import escape

log = logging.getLogger(__name__)

MOST = 1 << 20
"""Descriptors that a server asks for at most, where the hard limit is higher."""
LOW = 16_384
"""A lower limit is worth a warning: RocketMQ's own scripts set 655,350."""
RESERVE = 512
"""Descriptors that clients do not get; a quarter of them where that is less."""
LOG_INTERVAL = 10.0
"""Seconds between two lines of the log about connections that are refused."""


def limit() -> int:
    """RLIMIT_NOFILE as it is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def for_clients() -> int:
    """Descriptors below which clients' connections are. The kernel gives the lowest free one, so
    one at or above it means that all below are in use."""
    most = limit()
    return most - min(RESERVE, most // 4)


def raise_limit() -> None:
    """Raises the soft limit to the hard one, at the start of a server's process, and warns of one
    that stays low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as e:
            log.warning("the limit of open files stays at %d: %s", soft, escape(e))
    if limit() < LOW:
        log.warning(
            "at most %d connections: the limit of open files is %d; raise it "
            "(LimitNOFILE=655350 of the systemd unit, or ulimit -n 655350)",
            for_clients(),
            limit(),
        )


class Refusals:
    """Says now and then how many connections of a server were refused, and why."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._next_log = -1.0

    def refused(self, why: str) -> None:
        """One more, and why."""
        self._count += 1
        now = trio.current_time()
        if now < self._next_log:
            return
        self._next_log = now + LOG_INTERVAL
        log.warning("%s: %d new connections refused: %s", self._name, self._count, escape(why))
        self._count = 0
