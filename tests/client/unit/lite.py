"""A lite pull consumer as these tests begin it, and messages for it."""

from __future__ import annotations

from typing import Any

from pyrmq.client import ConsumeFrom, LitePullConsumer
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import StreamCluster

Q0, Q1 = (MessageQueue("T", "broker-a", n) for n in (0, 1))


def lite(subscribe: bool = True, **options: Any) -> LitePullConsumer:
    topics = {"T": "*"} if subscribe else None
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    return LitePullConsumer("g", topics, namesrv=StreamCluster.namesrv, **options)


def fill(broker: GroupBroker, count: int, queue: int = 0) -> None:
    for n in range(count):
        broker.put(b"%d" % n, queue=queue)


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return [int(m.body) for m in messages]
