"""Whether a slave's log is the beginning of its master's.

The HA channel does not find out: a slave says where its log ends, and gets what stands behind that
at the master, whatever stands before. So the slave compares its newest record with what its master
has in that place. A record states its place, its times and its queue offset, so logs that went
apart before have not the same one there. Behind it neither may have more: the end of a file may be
blank in one, and have a record in the other.
"""

from __future__ import annotations

import trio

from pyrmq.engine import Store, newest_record
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.client.channel import Channel
from pyrmq.net.command import check_success

TIMEOUT = 5.0
"""Seconds that the master may take to answer."""


async def why_not_fitting(channel: Channel, store: Store) -> str | None:
    """Why the store's log is not the beginning of the log of the master at the other end of
    `channel`, and what to do; None if it is. ConnectError, RequestTimeoutError, ResponseError."""
    end = store.stats()["maxPhyOffset"]
    newest = await trio.to_thread.run_sync(newest_record, store.native)
    if newest is not None:
        offset = newest[0]
        own: bytes | None = newest[1]
        while own is not None:
            why = await _why_not_same(channel, offset, own)
            if why is not None:
                return why
            offset += len(own)
            own = await _own(store, offset) if offset < end else None
        if offset < end and await _at_master(channel, offset) is not None:
            return _text(f"behind {offset} this log has no record, and its master has")
    masters_end = await _end_of_master(channel)
    if masters_end is not None and masters_end < end:
        return _text(f"this log ends at {end}, its master's at {masters_end}")
    return None


async def _own(store: Store, offset: int) -> bytes | None:
    def read() -> bytes | None:
        return store.record_at(offset)

    return await trio.to_thread.run_sync(read)


async def _why_not_same(channel: Channel, offset: int, own: bytes) -> str | None:
    theirs = await _at_master(channel, offset)
    if theirs == own:
        return None
    why = "has another one there" if theirs is not None else "has none there"
    return _text(f"of the record at {offset} of this log, {len(own)} bytes, its master {why}")


async def _at_master(channel: Channel, offset: int) -> bytes | None:
    """The record that the master has there; None if it has none."""
    ext = {"offset": offset}
    answer = await channel.call(RequestCode.VIEW_MESSAGE_BY_ID, ext, timeout=TIMEOUT)
    if answer.code == ResponseCode.SYSTEM_ERROR:  # what both makes say of no record
        return None
    return bytes(check_success(answer).body)


async def _end_of_master(channel: Channel) -> int | None:
    """Where the master's log ends; None if it does not say. [GET_BROKER_RUNTIME_INFO]"""
    answer = await channel.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=TIMEOUT)
    table = fastjson.loads_object(answer.body).get("table")
    text = str(table.get("commitLogMaxOffset", "")) if isinstance(table, dict) else ""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _text(why: str) -> str:
    return (
        f"{why}: the logs went apart. Nothing was changed. If the master is the right one, stop "
        "this broker and run `pyrmq store rejoin`: it puts aside what the master has not, and cuts "
        "the log there"
    )
