"""A topic gets queues while a group is away, as clients of any language see it."""

from __future__ import annotations

from typing import Any

import pytest

import pyrmq.testing
from tests.support.client import Client
from tests.support.operators import create_topic

QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET = 14, 15


@pytest.mark.parametrize("first", [True, False])
def test_new_queues_start_at_their_first_message(first: bool) -> None:
    """With messages that count as in memory nothing would be seen of it."""
    keys: dict[str, Any] = {
        "access_message_in_memory_max_ratio": 0,
        "new_queues_from_first_message": first,
    }
    with pyrmq.testing.broker(**keys) as running, Client(running.broker_address) as client:
        create_topic(client, "Grows", 1)
        place: dict[str, Any] = {"consumerGroup": "g", "topic": "Grows"}
        client.send("Grows", queue_id=0)
        assert client.call(UPDATE_CONSUMER_OFFSET, **place, queueId=0, commitOffset=1).code == 0
        create_topic(client, "Grows", 2)
        client.send("Grows", queue_id=1)
        answer = client.call(QUERY_CONSUMER_OFFSET, **place, queueId=1)
        assert (answer.code, answer.ext.get("offset")) == ((0, "0") if first else (22, None))
        new = client.call(QUERY_CONSUMER_OFFSET, **place | {"consumerGroup": "other"}, queueId=1)
        assert new.code == 22, "a new group starts where it says"
        strict = client.call(QUERY_CONSUMER_OFFSET, **place, queueId=1, setZeroIfNotFound="false")
        assert strict.code == 22
