"""Reads the dead letters of the group that fails: what is there is not lost."""

from __future__ import annotations

import time

from pyrmq.model.names import DLQ_PREFIX
from tests.system.soak.groups import FAILING
from tests.system.soak.handling import dead_letter
from tests.system.soak.shared import Role, Shared

TOPIC = DLQ_PREFIX + FAILING


class DeadLetters(Role):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "dead letters")
        self._read = 0

    def wanted(self) -> bool:
        return not self.shared.over.is_set()

    def work(self) -> None:
        with self.shared.connect() as client:
            while self.wanted():
                end = client.max_offset(TOPIC, 0)
                for record in client.pull_all(TOPIC, 0, self._read, end)[: end - self._read]:
                    dead_letter(self.shared, self.shared.ledgers.failing, record)
                    self._read = record.queue_offset + 1
                time.sleep(0.5)
