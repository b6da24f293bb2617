"""Messages with a delay level, and when they may come."""

from __future__ import annotations

import threading

from tests.support.ledger import parsed
from tests.support.records import Record
from tests.support.wire import Command
from tests.system.crash import delay_load
from tests.system.soak.settings import DELAYS
from tests.system.soak.shared import Pace, Role, SenderRole, Shared

TOPIC, QUEUES = delay_load.TOPIC, delay_load.QUEUES
RATE = 60.0
WINDOW = 8


class DelaySender(delay_load.Sender):
    """The kill loop's sender, at a pace, which tells the ledger at once."""

    def __init__(self, shared: Shared, *, nth: int) -> None:
        super().__init__(
            shared.server.broker,
            name=f"delayed.{nth}",
            seed=shared.chance(f"delayed {nth}").randrange(1 << 31),
            window=WINDOW,
            back=False,
            first_ack=threading.Event(),
        )
        self._shared = shared
        self._pace = Pace(shared, RATE, WINDOW)

    def problems(self) -> list[str]:
        return self.outcome.problems

    def _send(self) -> None:
        self._pace.wait()
        self._shared.ledgers.delayed.sent(self._name, self._count + 1)
        self._shared.count("sent")
        super()._send()

    def _account(self, answer: Command, *, more: bool) -> None:
        if self._shared.refused(answer.code):
            del self._sends[answer.opaque]
            return
        super()._account(answer, more=more)
        for key, waits in self.outcome.places.items():
            self._shared.ledgers.delayed.acknowledged(*parsed(key), waits)
        for table in (self.outcome.places, self.outcome.acked, self.outcome.sent):
            table.clear()


def is_early(record: Record) -> bool:
    """Whether it was stored in its topic before its time. It was born before it began to wait."""
    delay = DELAYS[int(record.properties["DELAY"])]
    return record.store_timestamp < record.born_timestamp + delay


def roles(shared: Shared) -> list[Role]:
    return [SenderRole(shared, "delayed sender", lambda n: DelaySender(shared, nth=n))]
