"""Brokers know a client on every connection, also on one that was opened again.

A broker lists those whose heartbeat came on a connection that lives. After it was restarted it
lists nobody, and whoever asks it first for the members of its group takes all queues; so a lost
connection is opened again at once, also by a member that has no queues there. Each broker has a
task of its own: one whose machine is away holds up no other.
[MQClientInstance, enableHeartbeatChannelEventListener]
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
"""Seconds until the next try to reach a broker that is away: the first, doubled up to the last."""
FIND_RETRY = (0.5, ROUTE_INTERVAL)
"""The same until brokers are looked for again that could not be found."""


class Registration:
    """Heartbeats to brokers that are new or came back, at once and not at the next turn. `find`
    looks for brokers; whether it could. `tried` is set when all that were found at first have
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
        """An attempt, or the search."""
        self._untried.discard(address)
        if not self._untried:
            self.tried.set()
