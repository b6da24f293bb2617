"""Senders for the kill loop of delayed messages, and what the store must have made of it all.

Every message has a level and a unique key. Some are sent with a delay, others are sent plainly and
then sent back by a consumer, which stores them with a delay too.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

from tests.support.client import Client, Closed, send_command
from tests.support.delays import back_command, levels, parked, place
from tests.support.ledger import NOWHERE, Ledger, parsed
from tests.support.records import Record
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command

DELAYS = {1: 1000, 2: 2000, 3: 3000}
"""ms by level."""
CONF = "messageDelayLevel=1s 2s 3s\n"
TOPIC = "Due"
PLAIN = "Plain"
GROUP = "G"
RETRY = f"%RETRY%{GROUP}"
QUEUES = 3
PLACES = [*((TOPIC, n) for n in range(QUEUES)), (RETRY, 0)]
"""Where messages are delivered."""
SIZES = (10, 100, 100, 1000, 4000, 20_000)


def body_of(key: str) -> bytes:
    """The one body that a message may have."""
    text = key.encode() + b";"
    size = SIZES[sum(text) % len(SIZES)]
    return (text * (size // len(text) + 1))[: max(size, len(text))]


@dataclass(slots=True)
class Outcome:
    """What one sender knows when it is cut off."""

    sent: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)
    """Keys of messages that are to be delivered."""
    places: dict[str, int] = field(default_factory=dict)
    """Where such a message waits, as the answer says; that of a send-back does not."""
    problems: list[str] = field(default_factory=list)


class Sender(threading.Thread):
    """Sends to random levels and queues until the connection breaks; `back`: what it sends is a
    plain message, which it then sends back."""

    def __init__(
        self,
        broker: tuple[str, int],
        *,
        name: str,
        seed: int,
        window: int,
        back: bool,
        first_ack: threading.Event,
    ) -> None:
        super().__init__(name=f"sender-{name}", daemon=True)
        self.outcome = Outcome()
        self._client = Client(broker, timeout=20)
        self._name = name
        self._random = random.Random(seed)
        self._window = window
        self._back = back
        self._first_ack = first_ack
        self._sends: dict[int, str] = {}
        self._backs: dict[int, str] = {}
        self._count = 0

    def run(self) -> None:
        try:
            while True:
                while len(self._sends) + len(self._backs) < self._window:
                    self._send()
                self._account(self._client.receive(), more=True)
        except Closed:
            self._drain()
        except Exception as error:
            self.outcome.problems.append(f"{self.name}: {error!r}")
        finally:
            self._client.close()

    def _drain(self) -> None:
        """Answers that had left the broker before it died count."""
        try:
            while True:
                self._account(self._client.receive(1), more=False)
        except (Closed, TimeoutError):
            pass

    def _send(self) -> None:
        self._count += 1
        key = f"{self._name}-{self._count}"
        properties = {"UNIQ_KEY": key, "TAGS": "a"}
        if not self._back:
            properties["DELAY"] = str(self._random.choice(list(DELAYS)))
        command = send_command(
            PLAIN if self._back else TOPIC,
            body_of(key),
            properties=properties,
            queue_id=self._random.randrange(QUEUES),
            queues=QUEUES,
            serialize=self._random.choice((JSON, BINARY)),
        )
        self.outcome.sent.add(key)
        self._sends[self._client.post(command)] = key

    def _account(self, answer: Command, *, more: bool) -> None:
        sent = self._sends.pop(answer.opaque, None)
        key = sent or self._backs.pop(answer.opaque)
        if answer.code != 0:
            self.outcome.problems.append(f"{key}: {answer.code} {answer.remark}")
        elif sent and self._back:
            if more:
                level = self._random.choice((0, *DELAYS))
                self._backs[self._client.post(back_command(place(answer), GROUP, level))] = key
        else:
            self.outcome.acked.add(key)
            if sent:
                self.outcome.places[key] = place(answer)
            self._first_ack.set()


class DelayVerifier:
    """What was acknowledged in all rounds, and what the store gives back.

    Rules: what was acknowledged waits where the answer said, or has waited; nothing is delivered
    twice; each level is delivered in the order of its queue, nothing is left out, nothing comes
    before its time.
    """

    def __init__(self) -> None:
        self.waiting = Ledger("waiting", in_place=True)
        self.ledger = Ledger("delivered", single=True)
        self.delivered: list[Record] = []
        self._read: Counter[tuple[str, int]] = Counter()

    def note(self, number: int, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            assert not outcome.problems, f"round {number}: {outcome.problems[:5]}"
            for ledger in (self.waiting, self.ledger):
                for key in outcome.sent:
                    ledger.sent(*parsed(key))
            for key in outcome.acked:
                self.waiting.acknowledged(*parsed(key), outcome.places.get(key, NOWHERE))
                self.ledger.acknowledged(*parsed(key))

    def verify(self, client: Client, number: int) -> None:
        """What has been delivered since the last look."""
        for topic, queue in PLACES:
            start, end = self._read[topic, queue], client.max_offset(topic, queue)
            assert end >= start, f"round {number}: {topic}-{queue} shrank from {start} to {end}"
            # Deliveries go on: a pull may give more than there was a moment ago.
            for record in client.pull_all(topic, queue, start, end)[: end - start]:
                self._deliver(record, f"round {number}: {topic}-{queue} at {record.queue_offset}")
            self._read[topic, queue] = end
        self.ledger.check(f"round {number}", settled=False)

    def _deliver(self, record: Record, where: str) -> None:
        key = record.properties["UNIQ_KEY"]
        self.ledger.received(*parsed(key), record.physical_offset)
        self.delivered.append(record)
        if record.body != body_of(key):
            self.ledger.note("damaged", f"{key}, {where}")
        meant = (record.properties["REAL_TOPIC"], record.properties["REAL_QID"])
        if meant != (record.topic, str(record.queue_id)):
            self.ledger.note("meant for another queue", f"{key} for {meant}, {where}")

    def verify_all(self, client: Client) -> None:
        """Nothing waits any more."""
        # What was delivered last is seen once it is on disk (SYNC_FLUSH).
        eventually(
            lambda: sum(client.max_offset(topic, queue) for topic, queue in PLACES),
            "all that was delivered is seen",
            until=lambda seen: seen == sum(end for _, end in levels(client)),
        )
        self.verify(client, -1)
        assert all(given == end for given, end in levels(client)), levels(client)
        in_order = sorted(self.delivered, key=lambda record: record.physical_offset)
        for level, delay in DELAYS.items():
            before = parked(client, level)
            for record in before:
                self.waiting.received(
                    *parsed(record.properties["UNIQ_KEY"]), record.physical_offset
                )
            after = [r for r in in_order if r.properties["DELAY"] == str(level)]
            came_from = [(r.prepared_offset, r.properties["UNIQ_KEY"]) for r in after]
            expected = [(r.physical_offset, r.properties["UNIQ_KEY"]) for r in before]
            assert came_from == expected, f"level {level}: {_difference(came_from, expected)}"
            early = [
                old.properties["UNIQ_KEY"]
                for old, new in zip(before, after, strict=True)
                if new.store_timestamp < old.store_timestamp + delay
            ]
            assert not early, f"level {level}: {len(early)} came before their time: {early[:5]}"
        self.ledger.check("nothing waits")
        self.waiting.check("all levels are read")

    def summary(self) -> str:
        row = self.ledger.row()
        backs = sum(record.topic == RETRY for record in self.delivered)
        return (
            f"{row.acknowledged} acknowledged, {row.received} delivered "
            f"({row.unanswered} of them without an answer, {backs} sent back), 0 lost, 0 twice"
        )


def _difference(found: list[tuple[int, str]], expected: list[tuple[int, str]]) -> str:
    pairs = enumerate(zip(found, expected, strict=False))
    first = next((f"at {n} {a} instead of {b}" for n, (a, b) in pairs if a != b), "none differs")
    return f"{len(found)} delivered, {len(expected)} waited; {first}"
