"""Producers of transactions: they commit, roll back, say that they do not know, or say nothing."""

from __future__ import annotations

import time

from tests.support.client import Closed
from tests.support.delays import runtime_info
from tests.support.ledger import parsed
from tests.support.transactions import COMMIT
from tests.support.wire import Command
from tests.system.crash import transaction_load
from tests.system.crash.transaction_load import GROUPS, fate_of
from tests.system.soak.shared import Pace, Role, SenderRole, Shared

TOPIC, QUEUES = transaction_load.TOPIC, transaction_load.QUEUES
RATE = 20.0
"""Halves a second of each producer."""
WINDOWS = (8, 4, 1)


class Producer(transaction_load.Producer):
    """The kill loop's producer, at a pace, which tells the ledger at once."""

    def __init__(
        self, shared: Shared, told: set[str], *, number: int, nth: int, window: int
    ) -> None:
        try:
            super().__init__(
                shared.server.broker,
                number=number,
                round_number=nth,
                seed=shared.chance(f"halves {number} {nth}").randrange(1 << 31),
                window=window,
                told=frozenset(told),
            )
        except Closed:  # while it joined its group
            self._client.close()
            raise
        self._shared = shared
        self._all_told = told
        self._pace = Pace(shared, RATE, window or 1)

    def problems(self) -> list[str]:
        self._all_told |= self.outcome.told
        self._shared.count("check-backs", self.outcome.checks.total())
        return self.outcome.problems

    def _send_half(self) -> None:
        self._pace.wait()
        self._shared.ledgers.transactions.sent(self._name, self._count + 1)
        self._shared.count("sent")
        super()._send_half()

    def _account(self, answer: Command) -> None:
        known = self._halves.get(answer.opaque)
        if known is not None and self._shared.refused(answer.code):
            del self._halves[answer.opaque]
            return
        if known is None and self._shared.refused(answer.code):
            del self._words[answer.opaque]
            return
        super()._account(answer)
        if known is not None and (half := self.outcome.acked.pop(known[0], None)):
            committed = fate_of(half.unique_key) == COMMIT
            stream, number = parsed(half.unique_key)
            self._shared.ledgers.transactions.acknowledged(
                stream, number, half.phys, wanted=committed
            )


class Answering(Role):
    """Producers that send nothing more and answer for all groups, until no half waits."""

    def __init__(self, shared: Shared, told: set[str], number: int) -> None:
        super().__init__(shared, f"answering producer {number}")
        self._told = told
        self._number = number
        self._made = 0

    def wanted(self) -> bool:
        return not self.shared.over.is_set()

    def work(self) -> None:
        self._made += 1
        producer = Producer(
            self.shared, self._told, number=self._number, nth=100_000 + self._made, window=0
        )
        producer.start()
        while self.wanted() and producer.is_alive():
            time.sleep(0.05)
        producer.stop.set()
        producer.join(30)
        for problem in producer.problems():
            self.shared.fault(f"{self.name}: {problem}")


def pending(shared: Shared) -> int:
    """How many halves wait."""
    with shared.connect() as client:
        return int(runtime_info(client)["transactionPendingCount"])


def roles(shared: Shared, told: set[str]) -> list[Role]:
    def role(number: int, window: int) -> Role:
        return SenderRole(
            shared,
            f"transaction producer {number}",
            lambda n: Producer(shared, told, number=number, nth=n, window=window),
        )

    return [role(i, window) for i, window in enumerate(WINDOWS)]


def answering(shared: Shared, told: set[str]) -> list[Role]:
    return [Answering(shared, told, number) for number in range(len(GROUPS))]
