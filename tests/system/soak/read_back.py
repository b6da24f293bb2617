"""All that is in the log is read once more at the end, also what was consumed long ago."""

from __future__ import annotations

from tests.support.delays import runtime_info
from tests.system.soak import delayed, halves
from tests.system.soak.settings import QUEUES
from tests.system.soak.shared import Shared

TOPICS = {**QUEUES, delayed.TOPIC: delayed.QUEUES, halves.TOPIC: halves.QUEUES}


def read_back(shared: Shared) -> None:
    """Nothing is sent meanwhile, and no file deleted."""
    stored: set[int] = set()
    with shared.connect() as client:
        low = int(runtime_info(client)["commitLogMinOffset"])
        for topic, queues in TOPICS.items():
            for queue in range(queues):
                start, end = client.min_offset(topic, queue), client.max_offset(topic, queue)
                found = client.pull_all(topic, queue, start, end)
                stored.update(record.physical_offset for record in found)
    shared.count("read back at the end", len(stored))
    for ledger in shared.ledgers:
        if ledger is not shared.ledgers.replies:
            ledger.miss(stored, low)
