"""Clusters: their replicas, epochs, and round-trip times of sends."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import trio

from pyrmq.admin.cluster_files import ClusterFiles
from pyrmq.admin.health import Health, health
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.runtime_info import Epochs, Runtime
from pyrmq.admin.sending import producer_of
from pyrmq.admin.values import table
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult

EPOCH_TIMEOUT = 3.0
MAX_SIZE = 64 << 20
"""Most bytes of a body that is sent for measuring."""
PHRASE = b"pyrmq probe"
WARM_UP = 16


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica and its figures; `error` if it did not answer."""

    replica: Replica
    runtime: Runtime
    error: PyrmqError | None = None


@dataclass(frozen=True, slots=True)
class BrokerRoundTrips:
    """The sends to one broker in one pass."""

    cluster: str
    broker_name: str
    average_ms: float
    """Without the first send, which includes connecting; failures count."""
    successes: int
    failures: int
    error: PyrmqError | None
    """The error of the last failure."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One timed send."""

    ms: int
    result: SendResult


class Clusters(ClusterFiles):
    """`admin.clusters`."""

    async def list(self, cluster: str | None = None) -> builtins.list[ReplicaState]:
        """All replicas with their figures, by cluster, name and id. Raises ClientError if there is
        no such cluster."""
        replicas = await self._link.replicas(cluster=cluster, default_all=True)

        async def one(address: str) -> Runtime:
            answer = await self._link.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            return {str(k): str(v) for k, v in table(answer, "table").items()}

        outcomes = await self._link.on_each(replicas, one)
        return [
            ReplicaState(r, o.value or {}, o.error) for r, o in zip(replicas, outcomes, strict=True)
        ]

    async def health(self, cluster: str | None = None) -> Health:
        """The health of a cluster, or of all: name servers, masters and slaves (missing ones too),
        disks, refused messages. Raises ClientError if there is no such cluster."""
        return await health(self._link, cluster)

    async def epochs(
        self, *, broker_name: str | None = None, cluster: str | None = None
    ) -> Outcomes[Epochs]:
        """The epochs of every replica of a broker name, or of a cluster. Raises ClientError."""
        if broker_name is not None:
            found = await self._link.broker_named(broker_name)
            replicas = [
                Replica(found.cluster, broker_name, n, a)
                for n, a in sorted(found.broker_addrs.items())
            ]
        else:
            replicas = await self._link.replicas(cluster=cluster)

        async def one(address: str) -> Epochs:
            answer = await self._link.ask_json(
                address,
                RequestCode.GET_BROKER_EPOCH_CACHE,
                timeout=self._link.patience(EPOCH_TIMEOUT),
            )
            return Epochs.from_json(answer)

        return await self._link.on_each(replicas, one)

    async def round_trips(
        self,
        *,
        cluster: str | None = None,
        amount: int = 100,
        size: int = 128,
        interval: float = 10.0,
        rounds: int = 0,
    ) -> AsyncGenerator[BrokerRoundTrips, None]:
        """Sends `amount` messages to each broker, to the topic with its name, every `interval`
        seconds; `rounds` times, or without end. If you stop before the end, close it
        (`contextlib.aclosing`). Raises ClientError if there is no such cluster, or if none has a
        broker."""
        _check(amount, size)
        info = await self._link.cluster_info()
        brokers = info.brokers.values() if cluster is None else self._link.of_cluster(info, cluster)
        names = sorted((b.cluster, b.broker_name) for b in brokers)
        if not names:
            raise ClientError("the name server has no broker")
        body = b"a" * size
        done = 0
        async with producer_of(self._link) as producer:
            while True:
                for of, name in names:
                    yield await _round(producer.send, of, Message(name, body), amount)
                done += 1
                if done == rounds:
                    return
                await trio.sleep(interval)

    async def probe(
        self, topic: str, *, count: int = 50, size: int = 128
    ) -> AsyncGenerator[Probe, None]:
        """Sends messages to a topic, such as that with a broker's name, one after the other. The
        first error ends it."""
        _check(count, size)
        async with producer_of(self._link) as producer:
            await producer.send(Message(topic, _phrases(WARM_UP)))
            body = _phrases(size)
            for _ in range(count):
                begun = trio.current_time()
                result = await producer.send(Message(topic, body))
                yield Probe(round((trio.current_time() - begun) * 1000), result)


async def _round(
    send: Callable[[Message], Awaitable[SendResult]], cluster: str, message: Message, amount: int
) -> BrokerRoundTrips:
    times: builtins.list[float] = []
    failures = 0
    last: PyrmqError | None = None
    for _ in range(amount):
        begun = trio.current_time()
        try:
            await send(message)
        except PyrmqError as e:
            failures += 1
            last = e
        times.append((trio.current_time() - begun) * 1000)
    counted = times[1:] or times
    average = sum(counted) / len(counted)
    return BrokerRoundTrips(cluster, message.topic, average, amount - failures, failures, last)


def _check(amount: int, size: int) -> None:
    if amount < 1 or not 1 <= size <= MAX_SIZE:
        raise ClientError(f"at least one message is sent, of 1 to {MAX_SIZE} bytes")


def _phrases(size: int) -> bytes:
    """A body of at least `size` bytes: a phrase again and again."""
    return PHRASE * -(-size // len(PHRASE))
