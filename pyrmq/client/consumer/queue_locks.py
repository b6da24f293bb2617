"""Locks of queues that are consumed in order: LOCK_BATCH_MQ, UNLOCK_BATCH_MQ. [RebalanceImpl]

A broker gives a queue's lock to one client at a time and keeps it for a minute; it is renewed every
20 seconds here, and what was not renewed for 30 is not consumed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import trio

from pyrmq.client.consumer.process_queue import NEVER, ProcessQueue, State
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ProtocolError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.net import fastjson
from pyrmq.net.address import Address

log = logging.getLogger(__name__)

RENEW = 20.0
VALID = 30.0
"""Seconds after which a lock that was not renewed is not relied on."""
LIFETIME = 60.0
"""Seconds that a broker keeps a lock: after that another member may have had it."""
TIMEOUT = 1.0


class QueueLocks:
    """The locks of one member."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self._client = client
        self._group = group
        self._renew_now = trio.Event()
        self._asking: dict[str, trio.Lock] = defaultdict(trio.Lock)
        """By broker: what is given up must not be locked again by a renewal that is overtaken."""
        client.on_greeted.append(self._greeted)

    def _greeted(self, address: Address) -> None:
        self._renew_now.set()  # a broker that was restarted has forgotten them

    @staticmethod
    def valid(process: ProcessQueue) -> bool:
        """Whether a queue may be consumed now."""
        return trio.current_time() - process.locked_at <= VALID

    async def lock(self, process: ProcessQueue) -> bool:
        """Whether this member has the lock now. PyrmqError."""
        asked = trio.current_time()
        if process.queue not in await self._lock([process.queue]):
            return False
        process.locked(asked)
        return True

    async def run(self, processes: Callable[[], Iterable[ProcessQueue]]) -> None:
        """Renews the locks of `processes` until it is cancelled. A queue whose lock is not granted
        any more is lost: another member may have had it."""
        while True:
            self._renew_now = trio.Event()
            with trio.move_on_after(RENEW):
                await self._renew_now.wait()
            async with trio.open_nursery() as nursery:
                for some in self._by_broker(processes()):
                    nursery.start_soon(self._renew, some)

    async def _renew(self, processes: list[ProcessQueue]) -> None:
        """Those of one broker, also those that still run to their end. What fails is tried again at
        the next renewal; until then the locks count as long as they are valid."""
        async with self._asking[processes[0].queue.broker_name]:
            await self._renew_those([p for p in processes if p.locked_at > NEVER])

    async def _renew_those(self, processes: list[ProcessQueue]) -> None:
        asked = trio.current_time()
        try:
            granted = await self._lock([p.queue for p in processes]) if processes else set()
        except PyrmqError as e:
            log.warning(
                "locks of broker %s not renewed: %s",
                escape(processes[0].queue.broker_name),
                escape(e),
                extra=about(broker=processes[0].queue.broker_name),
            )
            return
        for process in processes:
            if process.queue in granted and asked - process.locked_at < LIFETIME:
                process.locked(asked)
            elif process.state is State.HELD:
                log.warning(
                    "%s was locked by another member",
                    escape(process.queue),
                    extra=about(queue=process.queue),
                )
                process.unlocked()
                process.lost()

    async def unlock(self, processes: Collection[ProcessQueue]) -> None:
        """Gives locks up; failures are logged, the broker's own time ends them then."""

        async def unlock(some: list[ProcessQueue]) -> None:
            try:
                async with self._asking[some[0].queue.broker_name]:
                    for process in some:
                        process.unlocked()
                    await self._ask(RequestCode.UNLOCK_BATCH_MQ, [p.queue for p in some])
            except PyrmqError as e:
                log.info(
                    "%d queues of broker %s not unlocked: %s",
                    len(some),
                    escape(some[0].queue.broker_name),
                    escape(e),
                    extra=about(broker=some[0].queue.broker_name),
                )

        async with trio.open_nursery() as nursery:
            for some in self._by_broker(processes):
                nursery.start_soon(unlock, some)

    @staticmethod
    def _by_broker(processes: Iterable[ProcessQueue]) -> list[list[ProcessQueue]]:
        found: dict[str, list[ProcessQueue]] = defaultdict(list)
        for process in processes:
            found[process.queue.broker_name].append(process)
        return list(found.values())

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        body = await self._ask(RequestCode.LOCK_BATCH_MQ, queues)
        granted = fastjson.loads_object(body).get("lockOKMQSet")
        if not isinstance(granted, list) or not all(isinstance(q, dict) for q in granted):
            raise ProtocolError("the answer to a lock request has no lockOKMQSet")
        return {MessageQueue.from_json(q) for q in granted}

    async def _ask(self, code: RequestCode, queues: list[MessageQueue]) -> bytes:
        """`queues` are of one broker."""
        channel = await self._client.known_master(queues[0].topic, queues[0].broker_name)
        body = {
            "clientId": self._client.client_id,
            "consumerGroup": self._group,
            "mqSet": [queue.to_json() for queue in queues],
            "onlyThisBroker": False,
        }
        answer = await channel.request(code, {}, fastjson.dumps(body), timeout=TIMEOUT)
        return answer.body
