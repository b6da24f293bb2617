"""Consumers of scripted brokers, and waiting for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trio
import trio.testing

from pyrmq.client import ConsumeFrom, PushConsumer
from tests.support.scripted.streams import StreamCluster


def consumer(**options: Any) -> PushConsumer:
    """A member of group `g`; of topic `T` unless `topics` says otherwise."""
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    topics = options.pop("topics", {"T": "*"})
    group = options.pop("group", "g")
    return PushConsumer(group, topics, namesrv=StreamCluster.namesrv, **options)


def client_id(member: PushConsumer) -> str:
    return member._client.client_id


async def after(seconds: float) -> None:
    """Returns when nothing is left to be done at that time."""
    await trio.sleep(seconds)
    await trio.testing.wait_all_tasks_blocked()


async def collect(member: PushConsumer, seen: Counter[bytes]) -> None:
    async for message in member:
        seen[message.body] += 1
