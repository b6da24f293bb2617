"""Messages with a delay level, and when they may come."""

from __future__ import annotations

import threading

from tests.support.records import Record
from tests.support.wire import Command
from tests.system.crash import delay_load
from tests.system.soak.keyed import parsed
from tests.system.soak.settings import DELAYS
from tests.system.soak.world import Pace, Role, SenderRole, World

TOPIC, QUEUES = delay_load.TOPIC, delay_load.QUEUES
RATE = 60.0
WINDOW = 8


class DelaySender(delay_load.Sender):
    """The kill loop's sender, at a pace, which tells the book at once."""

    def __init__(self, world: World, *, nth: int) -> None:
        super().__init__(
            world.server.broker,
            name=f"delayed.{nth}",
            seed=world.chance(f"delayed {nth}").randrange(1 << 31),
            window=WINDOW,
            back=False,
            first_ack=threading.Event(),
        )
        self._world = world
        self._pace = Pace(world, RATE, WINDOW)

    def problems(self) -> list[str]:
        return self.outcome.problems

    def _send(self) -> None:
        self._pace.wait()
        self._world.ledger.delayed.sent(self._name, self._count + 1)
        self._world.count("sent")
        super()._send()

    def _account(self, answer: Command, *, more: bool) -> None:
        if self._world.refused(answer.code):
            del self._sends[answer.opaque]
            return
        super()._account(answer, more=more)
        for key, waits in self.outcome.places.items():
            self._world.ledger.delayed.acked(*parsed(key), waits)
        for table in (self.outcome.places, self.outcome.acked, self.outcome.sent):
            table.clear()


def is_early(record: Record) -> bool:
    """Whether it was stored in its topic before its time. It was born before it began to wait."""
    delay = DELAYS[int(record.properties["DELAY"])]
    return record.store_timestamp < record.born_timestamp + delay


def roles(world: World) -> list[Role]:
    return [SenderRole(world, "delayed sender", lambda n: DelaySender(world, nth=n))]
