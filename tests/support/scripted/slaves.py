"""A broker with a slave, on streams in memory: `pair` has both; what a slave answers is RocketMQ's.

async with pair() as running:
    running.master.put(b"body")
    running.copy()
    await running.kill()
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from unittest.mock import patch

from tests.support.records import Record
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import StreamBroker, StreamCluster
from tests.support.wire import Command

MASTER, SLAVE, OTHER = "broker-a", "slave-a", "broker-b"
BUSY, RETRY_AT_ONCE, MOVED = 2, 20, 21


class SlaveBroker(GroupBroker):
    """Its log and its offsets come from `follow`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.reads = True
        """slaveReadEnable."""
        self.sees_master = True
        """Whether its master is in its group: it sends all readers there."""
        self.suggests = "0"
        self.checks_offsets = False
        """offsetCheckInSlave."""

    def follow(self, master: GroupBroker) -> None:
        """From now on it has what its master has now."""
        before = {place: len(records) for place, records in self.queues.items()}
        self.queues.clear()
        self.queues.update({place: list(records) for place, records in master.queues.items()})
        self.first.update(master.first)
        self.offsets.update(master.offsets)
        for place, records in self.queues.items():
            if len(records) > before.get(place, 0):
                self.wake(place)

    def _pull(self, c: Command) -> Command | None:
        if not self.reads:
            return c.reply(BUSY)
        answer = super()._pull(c)
        if answer is None:
            if not self.sees_master:
                return None
            at = c.ext["queueOffset"]
            answer = c.reply(RETRY_AT_ONCE, {"nextBeginOffset": at, **self.bounds(c)})
        elif answer.code == MOVED and not self.checks_offsets:
            answer.code = RETRY_AT_ONCE
        answer.ext["suggestWhichBrokerId"] = "0" if self.sees_master else self.suggests
        return answer


@dataclass(slots=True)
class Pair:
    """`cluster.replicas` is what the name server says of them."""

    cluster: StreamCluster
    master: GroupBroker
    slave: SlaveBroker

    def put(self, body: bytes, queue: int = 0, *, copied: bool = True) -> Record:
        """A message that the slave has at once, unless it is not `copied`."""
        record = self.master.put(body, queue=queue)
        if copied:
            self.copy()
        return record

    def copy(self) -> None:
        """The slave gets all that it has not got, offsets too."""
        self.slave.follow(self.master)

    async def kill(self, *, noticed: bool = True, silent: bool = False) -> None:
        """The master's process is gone; `noticed`: by the name server; `silent`: its machine too,
        so that connects to it are neither taken nor refused."""
        (self.cluster.away if silent else self.cluster.down).add(MASTER)
        if noticed:
            self.tell(slave_only=True)
        self.slave.sees_master = False
        await self.master.restart()

    def come_back(self, *, noticed: bool = True) -> None:
        """With the log and the offsets that it had."""
        self.cluster.away.discard(MASTER)
        self.cluster.down.discard(MASTER)
        self.slave.sees_master = True
        for place in list(self.slave.queues):
            self.slave.wake(place)
        if noticed:
            self.tell()

    def tell(self, *, slave_only: bool = False) -> None:
        """What the name server says of the two."""
        assert self.cluster.replicas is not None
        hosts = {1: SLAVE} if slave_only else {0: MASTER, 1: SLAVE}
        self.cluster.replicas[MASTER] = hosts


def _kind(name: str) -> StreamBroker:
    return SlaveBroker(name) if name == SLAVE else GroupBroker(name)


@asynccontextmanager
async def pair(*, other: bool = False) -> AsyncIterator[Pair]:
    """`other`: there is a second master, without slaves."""
    names = [MASTER, SLAVE, *([OTHER] if other else [])]
    async with StreamCluster(*names, kind=_kind) as cluster:
        cluster.replicas = {OTHER: {0: OTHER}} if other else {}
        running = Pair(
            cluster, cast(GroupBroker, cluster[MASTER]), cast(SlaveBroker, cluster[SLAVE])
        )
        running.tell()
        with patch("trio.open_tcp_stream", cluster.connect):
            yield running
