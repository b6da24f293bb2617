"""Probes unreachable brokers until they are back. [LatencyFaultToleranceImpl]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.client.producer.faults import FaultTable
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

INTERVAL = 3.0
TIMEOUT = 0.2
"""Seconds for connecting and an answer."""


class Detector:
    """An async context manager. `topics` are the topics in use: the probe asks a broker of their
    routes for the end of a queue of one of them. A broker that is in no route any more is
    forgotten."""

    def __init__(
        self, client: ClientInstance, faults: FaultTable, topics: Callable[[], Iterable[str]]
    ) -> None:
        self._client = client
        self._faults = faults
        self._topics = topics
        self._tasks = Tasks()

    async def __aenter__(self) -> Detector:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._tasks.__aexit__(*error)

    async def _run(self) -> None:
        while True:
            await trio.sleep(INTERVAL)
            async with trio.open_nursery() as nursery:
                for broker in self._faults.unreachable():
                    nursery.start_soon(self._ask, broker)

    async def _ask(self, broker: str) -> None:
        found = self._topic_of(broker)
        if found is None:
            self._faults.forget(broker)
            return
        topic, address = found
        try:
            with trio.move_on_after(TIMEOUT):
                channel = await self._client.channel(address)
                fields: dict[str, str | int | bool] = {"topic": topic, "queueId": 0}
                await channel.request(RequestCode.GET_MAX_OFFSET, fields, timeout=TIMEOUT)
                log.info("broker %s is back", escape(broker))
                self._faults.reached(broker)
        except PyrmqError as e:
            log.info("broker %s is still away: %s", escape(broker), escape(e))

    def _topic_of(self, broker: str) -> tuple[str, str] | None:
        """A topic of a broker, and the address of its master."""
        for topic in self._topics():
            route = self._client.known_route(topic)
            address = None if route is None else route.master_of(broker)
            if address is not None:
                return topic, address
        return None
