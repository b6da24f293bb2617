"""Whether another broker has the history of this one's log.

Whoever reaches a name server can register as a master of any name. A broker that was a slave of
this one has the beginning of its log, byte for byte: up to where it was promoted, and from where it
began to copy. The first record of a log file stands where the file does, so the records there are
compared, the newest file first.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from pyrmq.engine import Store
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.client.channel import Channel

ONE_BY_ONE = 8
"""Newest files that are all asked for; of older ones every second, fourth and so on."""


def places(first: int, end: int, file_size: int) -> Iterator[int]:
    """Physical offsets at which to compare a log from `first` to `end`."""
    newest, oldest = (end - 1) // file_size, first // file_size
    number, step, left = newest, 1, ONE_BY_ONE
    while end > 0 and number > oldest:
        yield number * file_size
        left -= 1
        if left <= 0:
            step *= 2
        number -= step
    if end > 0:
        yield oldest * file_size


async def has_history(channel: Channel, store: Store, file_size: int, timeout: float) -> bool:
    """Whether the broker at the other end has a record of this log in its place. `timeout`: seconds
    in all, then the answer is no. ConnectError, RequestTimeoutError."""
    stats = store.stats()
    with trio.move_on_after(timeout):
        for offset in places(stats["minPhyOffset"], stats["maxPhyOffset"], file_size):
            own = await trio.to_thread.run_sync(store.record_at, offset)
            if own is not None and own == await _at(channel, offset, timeout):
                return True
    return False


async def _at(channel: Channel, offset: int, timeout: float) -> bytes | None:
    """The record that the broker has there; None if it has none. [VIEW_MESSAGE_BY_ID]"""
    ext = {"offset": offset}
    answer = await channel.call(RequestCode.VIEW_MESSAGE_BY_ID, ext, timeout=timeout)
    return bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None
