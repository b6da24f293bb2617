"""Plain sends: single ones, old ones, batches, many in flight; and some without an answer."""

from __future__ import annotations

import threading

from tests.support.client import send_command
from tests.support.wire import Command
from tests.system.crash import load
from tests.system.crash.load import Key, body_of
from tests.system.soak.settings import PLAIN, QUEUES
from tests.system.soak.shared import Pace, Role, SenderRole, Shared

WINDOWS = (64, 16, 1)
"""Unanswered requests of each sender."""
RATE = 60.0
"""Requests a second of each; every fourth is a batch, so that it is twice as many messages."""
ONEWAY = 99
"""The sender whose messages promise nothing."""
ONEWAY_RATE = 10.0


class PlainSender(load.Sender):
    """The kill loop's sender, at a pace, which tells the ledgers at once."""

    def __init__(self, shared: Shared, *, number: int, round_number: int, window: int) -> None:
        super().__init__(
            shared.server.broker,
            seed=shared.chance(f"plain {number} {round_number}").randrange(1 << 31),
            round_number=round_number,
            sender=number,
            topic=PLAIN,
            queues=QUEUES[PLAIN],
            window=window,
            fresh_topic=None,
            first_ack=threading.Event(),
        )
        self._shared = shared
        self._ledgers = (shared.ledgers.plain, shared.ledgers.failing)
        self._pace = Pace(shared, RATE, window)

    def problems(self) -> list[str]:
        return self.outcome.problems

    def _post(self, topic: str, queue_id: int, kind: str, serialize: int) -> None:
        self._pace.wait()
        before = self._number
        super()._post(topic, queue_id, kind, serialize)
        self._shared.count("sent", self._number - before)
        for ledger in self._ledgers:
            for number in range(before, self._number):
                ledger.sent(stream_of(self._round, self._sender), number)

    def _account(self, answer: Command) -> None:
        if self._shared.refused(answer.code):
            self._find(answer.opaque)
            return
        super()._account(answer)
        outcome = self.outcome
        for key, place in outcome.acked.items():
            for ledger in self._ledgers:
                ledger.acknowledged(stream_of(key.round, key.sender), key.number, place.physical)
        # Long runs: what the ledgers know is not kept twice.
        for table in (outcome.acked, outcome.sent, outcome.unique):
            table.clear()


def stream_of(round_number: int, sender: int) -> str:
    return f"plain.{sender}.{round_number}"


class OnewaySender(Role):
    """Messages that nobody answers for: they come or they do not."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "one-way sender")
        self._number = 0

    def work(self) -> None:
        pace = Pace(self.shared, ONEWAY_RATE)
        with self.shared.connect() as client:
            while True:
                pace.wait()
                key = Key(0, ONEWAY, self._number)
                self._number += 1
                queue = self.chance.randrange(QUEUES[PLAIN])
                client.oneway(send_command(PLAIN, body_of(key), queue_id=queue))
                self.shared.count("one-way sent")


def roles(shared: Shared) -> list[Role]:
    def sender(number: int, window: int) -> SenderRole:
        return SenderRole(
            shared,
            f"plain sender {number}",
            lambda n: PlainSender(shared, number=number, round_number=n, window=window),
        )

    return [*(sender(i, w) for i, w in enumerate(WINDOWS)), OnewaySender(shared)]
