"""One resend at a time: a queue of dead letters is locked while its letters are resent.

The lock is one of RocketMQ's queue locks (LOCK_BATCH_MQ), of the group that reads the letters. A
broker forgets one that was not renewed for a minute, as that of a run that was killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import trio

from pyrmq.admin.link import AdminLink
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import MASTER_ID
from pyrmq.net import fastjson
from pyrmq.net.client.requests import TOOLS_GROUP

LIFETIME = 60.0
"""Seconds that a lock lives after it was taken or renewed. [REBALANCE_LOCK_MAX_LIVE_TIME]"""
RENEW = 15.0
"""Seconds after which it is renewed."""
MARGIN = 10.0
"""Seconds before its end from which on it does not count: what is sent now arrives later."""
UNLOCK = 3.0
"""Seconds that unlocking may take."""


class ResendLock:
    """The lock of one queue. `async with lock.held():` takes it; `keep` has to be awaited before
    each send. While a broker has no master nobody can lock there, and nothing is locked."""

    def __init__(self, link: AdminLink, queue: MessageQueue) -> None:
        self._link = link
        self._queue = queue
        self._client_id = f"resend@{uuid4().hex}"
        self._renewed = 0.0

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Raises ClientError if another run has the lock, and the error of a broker that cannot be
        asked."""
        try:
            await self._lock()
            yield
        finally:
            with trio.move_on_after(UNLOCK, shield=True), suppress(PyrmqError):
                await self._ask(RequestCode.UNLOCK_BATCH_MQ)

    async def keep(self) -> None:
        """Renews the lock now and then. Raises ClientError if it is lost: another run may have sent
        what this one has not seen."""
        age = trio.current_time() - self._renewed
        if age > LIFETIME - MARGIN:
            raise ClientError(
                f"this run was held up for {age:.0f} s and has lost its lock of "
                f"{self._queue.topic}: run the command again, it skips what was resent"
            )
        if age >= RENEW:
            await self._lock()

    async def _lock(self) -> None:
        before = trio.current_time()
        body = await self._ask(RequestCode.LOCK_BATCH_MQ)
        if body is not None and not fastjson.loads_object(body).get("lockOKMQSet"):
            raise ClientError(
                f"{self._queue.topic} on broker {self._queue.broker_name} is being resent by "
                "another run: wait until it ends; one that was killed holds its lock for a minute"
            )
        self._renewed = before

    async def _ask(self, code: RequestCode) -> bytes | None:
        """The answer of the master; None if there is none."""
        route = await self._link.route(self._queue.topic)
        found = (b.broker_addrs for b in route.brokers if b.broker_name == self._queue.broker_name)
        address = next(found, {}).get(MASTER_ID)
        if address is None:
            return None
        body = {
            "clientId": self._client_id,
            "consumerGroup": TOOLS_GROUP,
            "mqSet": [self._queue.to_json()],
            "onlyThisBroker": False,
        }
        answer = await self._link.ask(address, code, body=fastjson.dumps(body))
        return bytes(answer.body)
