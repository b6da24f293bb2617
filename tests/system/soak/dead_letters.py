"""Reads the dead letters of the group that fails: what is there is not lost."""

from __future__ import annotations

import time

from pyrmq.model.names import DLQ_PREFIX
from tests.system.soak.groups import FAILING
from tests.system.soak.handling import dead_letter
from tests.system.soak.world import Role, World

TOPIC = DLQ_PREFIX + FAILING


class DeadLetters(Role):
    def __init__(self, world: World) -> None:
        super().__init__(world, "dead letters")
        self._read = 0

    def wanted(self) -> bool:
        return not self.world.over.is_set()

    def work(self) -> None:
        with self.world.connect() as client:
            while self.wanted():
                end = client.max_offset(TOPIC, 0)
                for record in client.pull_all(TOPIC, 0, self._read, end)[: end - self._read]:
                    dead_letter(self.world, self.world.ledger.failing, record)
                    self._read = record.queue_offset + 1
                time.sleep(0.5)
