"""What a broker holds of a topic, read by the tests' own client."""

from __future__ import annotations

from tests.support.client import Client
from tests.support.records import Record

FOUND = 0


def read_all(broker: tuple[str, int], topic: str, queues: int) -> list[Record]:
    """All messages of the topic's first queues, by queue and offset."""
    out: list[Record] = []
    with Client(broker) as client:
        for queue in range(queues):
            at = 0
            while True:
                pulled = client.pull(topic, queue, at, group="TOOLS_CONSUMER", maximum=256)
                if pulled.code != FOUND:
                    break
                out += pulled.records
                at = pulled.next_offset
    return out
