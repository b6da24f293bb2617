"""Registers a client with brokers on every connection, also after reconnecting.

A broker lists the clients whose heartbeat came on a live connection. After a restart it lists
nobody, and the first member that asks for its group would take all queues. So a lost connection is
opened again at once, also by a member without queues there. Each broker has its own task, so an
unreachable one delays no other. [MQClientInstance, enableHeartbeatChannelEventListener]
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pyrmq.client.instance import ROUTE_INTERVAL, ClientInstance
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

RETRY = (0.05, 1.0)
"""Seconds until an unreachable broker is tried again: the first pause, doubled up to the last."""
FIND_RETRY = (0.5, ROUTE_INTERVAL)
"""The same for finding the brokers again after a failure."""


class Registration:
    """Sends heartbeats to new and returned brokers at once, before the next regular one. `find`
    finds brokers and returns whether it could. `tried` is set when all brokers found at first have
    answered or failed."""

    def __init__(
        self,
        client: ClientInstance,
        *,
        retry: tuple[float, float] = RETRY,
        find: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.tried = trio.Event()
        self._client = client
        self._retry = retry
        self._find = find
        self._lost = trio.Event()
        self._reaching: set[str] = set()
        self._untried: set[str] = set()
        client.on_closed.append(self.look)

    def look(self) -> None:
        """There may be brokers that are not known yet."""
        self._lost.set()

    async def run(self) -> None:
        retry = FIND_RETRY[0]
        async with trio.open_nursery() as nursery:
            while True:
                self._lost = trio.Event()
                complete = self._find is None or await self._find()
                for address in self._client.brokers() - self._reaching:
                    if not self._client.is_greeted(address):
                        self._reaching.add(address)
                        self._untried.add(address)
                        nursery.start_soon(self._reach, address)
                self._ended()
                if complete:
                    retry = FIND_RETRY[0]
                    with trio.move_on_after(ROUTE_INTERVAL):
                        await self._lost.wait()
                else:
                    await trio.sleep(retry)
                    retry = min(2 * retry, FIND_RETRY[1])

    async def _reach(self, address: str) -> None:
        """Returns when a broker knows this client, or is in no route any more."""
        retry = self._retry[0]
        while address in self._client.brokers():
            try:
                await self._client.known_channel(address)
                break
            except PyrmqError as e:
                log.info("not registered with broker %s: %s", escape(address), escape(e))
            self._ended(address)
            await trio.sleep(retry)
            retry = min(2 * retry, self._retry[1])
        self._reaching.discard(address)
        self._ended(address)

    def _ended(self, address: str = "") -> None:
        """An attempt or a search has ended."""
        self._untried.discard(address)
        if not self._untried:
            self.tried.set()
