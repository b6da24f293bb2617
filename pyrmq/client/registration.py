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
from pyrmq.net.backoff import Backoff

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds until the next try to reach a broker that is away."""
FIND_PAUSE = 0.5
"""Seconds until brokers are looked for again that could not be found; up to ROUTE_INTERVAL."""


class Registration:
    """Sends heartbeats to brokers that are new or came back, at once. `find` looks for brokers and
    returns whether it could. `first_pause` and `longest_pause` are seconds between tries to reach
    a broker. `tried` is set when all that were found at first have answered or failed."""

    def __init__(
        self,
        client: ClientInstance,
        *,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
        find: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.tried = trio.Event()
        self._client = client
        self._pauses = first_pause, longest_pause
        self._find = find
        self._lost = trio.Event()
        self._reaching: set[str] = set()
        self._untried: set[str] = set()
        client.on_closed.append(self.look)

    def look(self) -> None:
        """There may be brokers that are not known yet."""
        self._lost.set()

    async def run(self) -> None:
        backoff = Backoff(FIND_PAUSE, ROUTE_INTERVAL)
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
                    backoff.reset()
                    with trio.move_on_after(ROUTE_INTERVAL):
                        await self._lost.wait()
                else:
                    await trio.sleep(backoff.next())

    async def _reach(self, address: str) -> None:
        """Returns when a broker knows this client, or is in no route any more."""
        backoff = Backoff(*self._pauses)
        while address in self._client.brokers():
            try:
                await self._client.known_channel(address)
                break
            except PyrmqError as e:
                log.info("not registered with broker %s: %s", escape(address), escape(e))
            self._ended(address)
            await trio.sleep(backoff.next())
        self._reaching.discard(address)
        self._ended(address)

    def _ended(self, address: str = "") -> None:
        """An attempt or a search has ended."""
        self._untried.discard(address)
        if not self._untried:
            self.tried.set()
