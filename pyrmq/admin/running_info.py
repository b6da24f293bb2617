"""How a consumer runs, as it says itself: queues, rates, stacks. [ConsumerRunningInfo]"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.connections import PUSH, SubscribedTo
from pyrmq.admin.link import Part
from pyrmq.errors import ClientError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import retry_topic

TIMEOUT = 15.0
"""Seconds for a broker to answer: it asks the consumer, for up to 10 s."""
SETTLED_MS = 2 * 60_000
"""How long a consumer has to run until its subscription is compared with the others'."""
BLOCKED_MS = 60_000
"""For how long nothing is consumed of a queue that has messages, until it counts as blocked."""


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue that a consumer has, and what it has of it. [ProcessQueueInfo]"""

    queue: MessageQueue
    commit_offset: int
    cached_min: int
    cached_max: int
    cached: int
    cached_mib: int
    transaction_min: int
    transaction_max: int
    transaction: int
    locked: bool
    try_unlock_times: int
    last_lock: int
    dropped: bool
    last_pull: int
    last_consume: int

    @classmethod
    def from_json(cls, queue: MessageQueue, value: Mapping[Any, Any]) -> HeldQueue:
        def n(name: str) -> int:
            return values.number(value, name)

        return cls(
            queue, n("commitOffset"), n("cachedMsgMinOffset"), n("cachedMsgMaxOffset"),
            n("cachedMsgCount"), n("cachedMsgSizeInMiB"), n("transactionMsgMinOffset"),
            n("transactionMsgMaxOffset"), n("transactionMsgCount"), values.truth(value, "locked"),
            n("tryUnlockTimes"), n("lastLockTimestamp"), values.truth(value, "droped"),
            n("lastPullTimestamp"), n("lastConsumeTimestamp"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PopQueue:
    """A queue that a consumer pops from. [PopProcessQueueInfo]"""

    queue: MessageQueue
    waiting_ack: int
    dropped: bool
    last_pop: int


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a topic is consumed; times in ms, rates per second. [ConsumeStatus]"""

    topic: str
    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed: int
    """Messages that failed within the last hour."""


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """What one consumer says about itself."""

    client_id: str
    properties: dict[str, str]
    subscriptions: list[SubscribedTo]
    queues: list[HeldQueue]
    pop_queues: list[PopQueue]
    rates: list[Rates]
    user_info: dict[str, str]
    stacks: str | None
    """Of all its threads, if they were asked for."""

    @property
    def is_push(self) -> bool:
        return self.properties.get("PROP_CONSUME_TYPE") == PUSH

    @property
    def is_orderly(self) -> bool:
        return self.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"

    @property
    def started(self) -> int:
        """When, ms since 1970; 0 if it does not say."""
        return values.number(self.properties, "PROP_CONSUMER_START_TIMESTAMP")

    @classmethod
    def from_json(cls, client_id: str, value: Mapping[Any, Any]) -> RunningInfo:
        stacks = value.get("jstack")
        return cls(
            client_id,
            _texts(values.table(value, "properties")),
            sorted(
                (SubscribedTo.from_json(s) for s in values.objects(value, "subscriptionSet")),
                key=lambda s: (s.topic, s.expression),
            ),
            [
                HeldQueue.from_json(queue, row)
                for queue, row in _rows(values.table(value, "mqTable"))
            ],
            [
                PopQueue(
                    queue,
                    values.number(row, "waitAckCount"),
                    values.truth(row, "droped"),
                    values.number(row, "lastPopTimestamp"),
                )
                for queue, row in _rows(values.table(value, "mqPopTable"))
            ],
            [
                Rates(
                    str(topic), values.real(row, "pullRT"), values.real(row, "pullTPS"),
                    values.real(row, "consumeRT"), values.real(row, "consumeOKTPS"),
                    values.real(row, "consumeFailedTPS"), values.number(row, "consumeFailedMsgs"),
                )
                for topic, row in values.table(value, "statusTable").items()
                if isinstance(row, dict)
            ],
            _texts(values.table(value, "userConsumerInfo")),
            None if stacks is None else str(stacks),
        )  # fmt: skip


def _texts(found: Mapping[Any, Any]) -> dict[str, str]:
    def one(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {str(k): one(v) for k, v in sorted(found.items(), key=lambda item: str(item[0]))}


def _rows(found: Mapping[Any, Any]) -> Iterator[tuple[MessageQueue, dict[Any, Any]]]:
    for queue, row in sorted(values.by_queue(found), key=lambda item: item[0]):
        if isinstance(row, dict):
            yield queue, row


def subscriptions_agree(infos: Mapping[str, RunningInfo], now_ms: int) -> bool:
    """Whether all members of a group subscribe to the same; taken as given for pull consumers, and
    while the first one has run for less than two minutes. [analyzeSubscription]"""
    ordered = [infos[client_id] for client_id in sorted(infos)]
    if not ordered or not ordered[0].is_push or now_ms - ordered[0].started <= SETTLED_MS:
        return True
    wanted = [{(s.topic, s.expression) for s in info.subscriptions} for info in ordered]
    return all(one == wanted[0] for one in wanted)


@dataclass(frozen=True, slots=True)
class QueueProblem:
    """Why a queue is not consumed."""

    client_id: str
    queue: MessageQueue
    text: str


def queue_problems(info: RunningInfo, now_ms: int) -> list[QueueProblem]:
    """The queues that a push consumer cannot lock, or consumes nothing of.
    [analyzeProcessQueue]"""
    found = []
    for held in info.queues if info.is_push else ():
        said = _problem(held, now_ms, orderly=info.is_orderly)
        if said:
            found.append(QueueProblem(info.client_id, held.queue, said))
    return found


def _problem(held: HeldQueue, now_ms: int, *, orderly: bool) -> str:
    if not orderly:
        idle = now_ms - held.last_consume
        if idle > BLOCKED_MS and held.cached > 0:
            return f"can't consume for a while, maybe blocked, {idle}ms"
        return ""
    if not held.locked:
        return f"can't lock for a while, {now_ms - held.last_lock}ms"
    if held.dropped and held.try_unlock_times > 0:
        return f"unlock {held.try_unlock_times} times, still failed"
    return ""


class GroupRunning(Part):
    """The part of `admin.groups` that asks members through their broker."""

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False, broker: str | None = None
    ) -> RunningInfo:
        """How one member of a group runs; `stacks`: with those of its threads. ResponseError if the
        broker (`broker`, or one of the retry topic's) does not know it, or it does not answer.
        [GET_CONSUMER_RUNNING_INFO]"""
        if broker is None:
            brokers = await self._link.brokers_of(retry_topic(group))
            if not brokers:
                raise ClientError(f"no broker has the retry topic of group {group}")
            broker = brokers[0].address
        answer = await self._link.ask_json(
            broker,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            {"consumerGroup": group, "clientId": client_id, "jstackEnable": stacks},
            timeout=self._link.patience(TIMEOUT),
        )
        return RunningInfo.from_json(client_id, answer)
