"""Whether a slave's log is the beginning of its master's.

The HA channel does not find out: a slave says where its log ends, and gets what stands behind that
at the master, whatever stands before. So the slave compares its newest record with what its master
has in that place. A record states its place, its times and its queue offset, so logs that went
apart before have not the same one there.
"""

from __future__ import annotations

import trio

from pyrmq.engine import Store, newest_record
from pyrmq.errors import ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.net.channel import Channel

TIMEOUT = 5.0
"""Seconds that the master may take to answer."""


async def why_not_fitting(channel: Channel, store: Store) -> str | None:
    """Why the store's log is not the beginning of the log of the master at the other end of
    `channel`, and what to do; None if it is. ConnectError, RequestTimeoutError."""
    newest = await trio.to_thread.run_sync(newest_record, store.native)
    if newest is None:
        return None
    offset, own = newest
    try:
        answer = await channel.request(
            RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset}, timeout=TIMEOUT
        )
    except ResponseError as e:
        return _text(offset, len(own), f"the master says: {e}")
    if bytes(answer.body) == own:
        return None
    return _text(offset, len(own), "the master has another one there")


def _text(offset: int, length: int, why: str) -> str:
    return (
        f"the newest record of this log, {length} bytes at {offset}, is not in its master's: "
        f"{why}. Nothing was changed. If the master is the right one, stop this broker and run "
        "`pyrmq store rejoin`: it puts aside what the master has not, and cuts the log there"
    )
