"""Where one queue is pulled from: the broker id that its last answer suggested, and another replica
once a pull has failed. [PullAPIWrapper.recalculatePullFromWhichNode, pullFromWhichNodeTable]"""

from __future__ import annotations

import logging

from pyrmq.client.instance import ClientInstance
from pyrmq.client.replicas import Replica, Replicas
from pyrmq.errors import ClientError, ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import MASTER_ID
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.pull import PullAnswer, PullStatus

log = logging.getLogger(__name__)


class PullSource:
    """After `channel` comes `answered` or `failed`."""

    def __init__(self, client: ClientInstance, queue: MessageQueue) -> None:
        self._client = client
        self._queue = queue
        self._replicas = Replicas(client)
        self._suggested = MASTER_ID
        self._current: Replica | None = None
        self._others: list[Replica] = []
        self._failed: set[str] = set()
        """Addresses that a pull has failed at since one was answered."""
        self._reads_slave = False

    @property
    def is_slave(self) -> bool:
        """Whether the last pull went to one."""
        return self._current is not None and self._current.is_slave

    async def channel(self) -> Channel:
        """Where the next pull goes. PyrmqError."""
        self._current = None
        queue = self._queue
        found = await self._replicas.find(queue.topic, queue.broker_name, self._suggested)
        fresh = [replica for replica in found if replica.address not in self._failed]
        self._current = (fresh or found)[0]
        self._others = [replica for replica in found if replica is not self._current]
        return await self._client.known_channel(self._current.address)

    def answered(self, pulled: PullAnswer, offset: int) -> None:
        """Of a pull at an offset. ClientError for what a slave says of an offset that it has not:
        its log may end before its master's, or begin after it, so that is no place to go on at."""
        current = self._current
        assert current is not None
        if current.is_slave:
            self._check(pulled, offset, current.address)
        self._failed.clear()
        self._suggested = pulled.suggested_broker
        if current.is_slave:
            if self._suggested == MASTER_ID:
                self._client.look_again(self._queue.topic)  # the master may be back
            if not self._reads_slave:
                log.info("%s is read from slave %s", escape(self._queue), escape(current.address))
        elif self._reads_slave:
            log.info("%s is read from its master again", escape(self._queue))
        self._reads_slave = current.is_slave

    @staticmethod
    def _check(pulled: PullAnswer, offset: int, address: str) -> None:
        following = pulled.next_offset
        first, end = pulled.bounds
        status = pulled.status
        if status is PullStatus.OFFSET_ILLEGAL or following < offset or offset < first:
            raise ClientError(
                f"the slave at {address} has the offsets {first} to {end}, not {offset}: they are "
                "read once a master is there"
            )
        if status is PullStatus.NO_MATCHED_MESSAGE and following == offset:
            raise ClientError(f"the slave at {address} leaves its readers to the master")

    def failed(self, error: PyrmqError) -> bool:
        """Whether another replica can be tried at once. A master that answers has the last word."""
        current = self._current
        is_away = isinstance(error, ConnectError | RequestTimeoutError)
        if current is None or not (current.is_slave or is_away):
            return False
        if isinstance(error, RequestTimeoutError):
            self._client.away.add(current.address)  # until it answers to a heartbeat
        self._suggested = MASTER_ID
        self._client.look_again(self._queue.topic)
        self._failed.add(current.address)
        away = self._client.away | self._failed
        if any(replica.address not in away for replica in self._others):
            return True
        self._failed.clear()
        return False
