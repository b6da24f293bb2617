"""POP_MESSAGE of a topic with message.type=PRIORITY, by the group's attribute priority.factor."""

from __future__ import annotations

import json
from itertools import count

import pytest

from tests.support.client import Client
from tests.support.popping import pop

UPDATE_TOPIC, UPDATE_GROUP = 17, 200
QUEUES, ROUNDS = 8, 6


_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"ByPriority{next(_numbers)}"
    answer = client.call(
        UPDATE_TOPIC, topic=name, defaultTopic="TBW102", perm=6, topicFilterType="SINGLE_TAG",
        topicSysFlag=0, order=False, readQueueNums=QUEUES, writeQueueNums=QUEUES,
        attributes="+message.type=PRIORITY",
    )  # fmt: skip
    assert answer.code == 0, answer.remark
    for _ in range(ROUNDS):
        for queue in range(QUEUES):
            client.send(name, b"%d" % queue, queue_id=queue)
    return name


def _orders(client: Client, topic: str, group: str, attributes: dict[str, str]) -> list[list[int]]:
    """The queues of messages in the order in which pops of one message each get them."""
    body = json.dumps({"groupName": group, "attributes": attributes}).encode()
    answer = client.call(UPDATE_GROUP, body)
    assert answer.code == 0, answer.remark
    found = [pop(client, topic, group, maxMsgNums=1) for _ in range(QUEUES * ROUNDS)]
    assert all(len(messages) == 1 for messages in found)
    return [[m.handle.queue_id for m in messages] for messages in found]


@pytest.mark.parametrize("attributes", [{}, {"+priority.factor": "100"}])
def test_higher_priorities_come_first(
    client: Client, topic: str, attributes: dict[str, str]
) -> None:
    got = _orders(client, topic, f"CG_first{len(attributes)}", attributes)
    assert got == [[q] for q in range(QUEUES - 1, -1, -1) for _ in range(ROUNDS)]


def test_priorities_mix_with_factor_0(client: Client, topic: str) -> None:
    """48 pops each begin at a queue that is drawn: all of the first 7 from the highest one has a
    chance of 1 in 8^7, and then the rest would have to be in order too."""
    got = _orders(client, topic, "CG_mixed", {"+priority.factor": "0"})
    assert sorted(got) == [[q] for q in range(QUEUES) for _ in range(ROUNDS)]
    assert got != sorted(got, reverse=True)
