"""NOTIFY_CONSUMER_IDS_CHANGED: the members of a group hear that others have come or gone."""

from __future__ import annotations

import time
from collections.abc import Mapping

import trio

from pyrmq.broker.tables.clients import ConsumerGroup
from pyrmq.model.codes import RequestCode
from pyrmq.net.command import encode_request
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import TURN_SECONDS

MAX_KEPT = 1024
"""Notices that wait behind what a member has not taken; it is told no more of them."""


class Notices:
    """Tells in turns of a millisecond, each group once for all that has happened meanwhile: a
    heartbeat may change a thousand groups with hundreds of members each. `consumers`: the groups
    that have members."""

    def __init__(self) -> None:
        self.consumers: Mapping[str, ConsumerGroup] = {}
        self._changed: dict[str, None] = {}
        self._news = trio.Event()

    def changed(self, group: ConsumerGroup) -> None:
        """Its members are others now, or its topics."""
        self._changed[group.name] = None
        self._news.set()

    async def run(self) -> None:
        """Tells until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            end = time.monotonic() + TURN_SECONDS
            while self._changed:
                name = next(iter(self._changed))
                del self._changed[name]
                group = self.consumers.get(name)
                if group is None:
                    continue
                frame = encode_request(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 0, {"consumerGroup": name}, oneway=True
                )
                for connection in list(group.clients):
                    tell(connection, frame)
                    if time.monotonic() >= end:
                        await trio.lowlevel.checkpoint()
                        end = time.monotonic() + TURN_SECONDS


def tell(connection: Connection, frame: bytes) -> None:
    """A notice, one-way."""
    if len(connection.out) < MAX_KEPT:  # one that does not read is not piled up on
        connection.send(frame)
