"""Compares this broker's log with that of another broker, record by record.

A slave asks whether its log is the beginning of its master's. The HA channel does not find out: a
slave says where its log ends, and gets what stands behind that at the master, whatever stands
before. So the slave compares its newest record with the master's record in that place. A record
states its place, its times and its queue offset, so logs that went apart before differ there.
Behind it neither may have more: the end of a file may be blank in one, and have a record in the
other.

A master asks whether another master of its name has the history of its log, as whoever reaches a
name server can register as a master of any name. A broker that was a slave of this one has the
beginning of its log, byte for byte: up to where it was promoted, and from where it began to copy.
The first record of a log file stands where the file does, so the records there are compared, the
newest file first.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from pyrmq.engine import Store, newest_record
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.client.channel import Channel
from pyrmq.net.command import check_success

TIMEOUT = 5.0
"""Seconds that the master may take to answer."""
ONE_BY_ONE = 8
"""Newest files that are all asked for; of older ones every second, fourth and so on."""


async def why_not_fitting(channel: Channel, store: Store) -> str | None:
    """Why the store's log is not the beginning of the log of the master at the other end of
    `channel`, and what to do; None if it is. ConnectError, RequestTimeoutError, ResponseError."""
    log_end = store.stats()["maxPhyOffset"]
    newest = await trio.to_thread.run_sync(newest_record, store.native)
    if newest is not None:
        offset = newest[0]
        own: bytes | None = newest[1]
        while own is not None:
            why = await _why_not_same(channel, offset, own)
            if why is not None:
                return why
            offset += len(own)
            own = await _own(store, offset) if offset < log_end else None
        if offset < log_end and await _at_master(channel, offset) is not None:
            return _text(f"behind {offset} this log has no record, and its master has")
    masters_end = await _log_end_of_master(channel)
    if masters_end is not None and masters_end < log_end:
        return _text(f"this log ends at {log_end}, its master's at {masters_end}")
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


async def _log_end_of_master(channel: Channel) -> int | None:
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


def places_to_compare(first: int, log_end: int, file_size: int) -> Iterator[int]:
    """Physical offsets at which to compare a log from `first` to `log_end`."""
    newest, oldest = (log_end - 1) // file_size, first // file_size
    number, step, left = newest, 1, ONE_BY_ONE
    while log_end > 0 and number > oldest:
        yield number * file_size
        left -= 1
        if left <= 0:
            step *= 2
        number -= step
    if log_end > 0:
        yield oldest * file_size


async def has_history(channel: Channel, store: Store, file_size: int, timeout: float) -> bool:
    """Whether the broker at the other end has a record of this log in its place. `timeout`: seconds
    in all, then the answer is no. ConnectError, RequestTimeoutError."""
    stats = store.stats()
    with trio.move_on_after(timeout):
        for offset in places_to_compare(stats["minPhyOffset"], stats["maxPhyOffset"], file_size):
            own = await trio.to_thread.run_sync(store.record_at, offset)
            if own is not None and own == await _at(channel, offset, timeout):
                return True
    return False


async def _at(channel: Channel, offset: int, timeout: float) -> bytes | None:
    """The record that the broker has there; None if it has none. [VIEW_MESSAGE_BY_ID]"""
    ext = {"offset": offset}
    answer = await channel.call(RequestCode.VIEW_MESSAGE_BY_ID, ext, timeout=timeout)
    return bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None
