"""Producers for commands that send messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyrmq.admin.link import AdminLink
from pyrmq.net.address import format_address

if TYPE_CHECKING:
    # Imported where they are used: most commands send nothing.
    from pyrmq.client.producer.producer import Producer


def producer_of(
    link: AdminLink, group: str = "", *, trace: bool = False, retry_times: int = 2
) -> Producer:
    """A producer that connects and signs as `link` does; `group`: by default a new one."""
    from pyrmq.client.producer.producer import Producer

    return Producer(
        group or f"mqadmin_{time.time_ns() // 1_000_000}",
        namesrv=";".join(format_address(a) for a in link.namesrv),
        credentials=link.credentials,
        tls=link.tls,
        trace=trace,
        retry_times=retry_times,
    )
