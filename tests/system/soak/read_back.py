"""All that is in the log is read once more at the end, also what was consumed long ago."""

from __future__ import annotations

from tests.support.delays import runtime_info
from tests.system.soak import delayed, halves
from tests.system.soak.settings import QUEUES
from tests.system.soak.world import World

TOPICS = {**QUEUES, delayed.TOPIC: delayed.QUEUES, halves.TOPIC: halves.QUEUES}


def read_back(world: World) -> None:
    """Nothing is sent meanwhile, and no file deleted."""
    stored: set[int] = set()
    with world.connect() as client:
        low = int(runtime_info(client)["commitLogMinOffset"])
        for topic, queues in TOPICS.items():
            for queue in range(queues):
                start, end = client.min_offset(topic, queue), client.max_offset(topic, queue)
                found = client.pull_all(topic, queue, start, end)
                stored.update(record.physical_offset for record in found)
    world.count("read back at the end", len(stored))
    for book in world.ledger.books:
        if book is not world.ledger.replies:
            book.miss(stored, low)
