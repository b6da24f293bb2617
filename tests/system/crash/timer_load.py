"""Senders of timer messages for the kill loop, and what must have come of them.

Every message has a unique key and says in its body when it is to come. Some are recalled.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.support.client import Client, Closed, send_command
from tests.support.ledger import Ledger, parsed
from tests.support.records import Record
from tests.support.wire import BINARY, JSON, Command

TOPIC = "Timed"
QUEUES = 3
PRECISION = 1000
"""ms; the broker's default timerPrecisionMs."""
LONGEST = 4000
RECALL_MESSAGE = 370
TIMERS = ("TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS")
CONF = "recallMessageEnable=true\n"
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
    due: dict[str, int] = field(default_factory=dict)
    """Of acknowledged messages: before when, ms, they must not come."""
    recalled: set[str] = field(default_factory=set)
    """A recall was acknowledged, more than two units of precision before the time."""
    asked_back: set[str] = field(default_factory=set)
    """A recall was sent."""
    problems: list[str] = field(default_factory=list)


class Sender(threading.Thread):
    """Sends with random delays until the connection breaks, `window` requests at a time; recalls
    the part `recalls` of them."""

    def __init__(
        self,
        broker: tuple[str, int],
        *,
        name: str,
        seed: int,
        window: int,
        recalls: float,
        first_ack: threading.Event,
    ) -> None:
        super().__init__(name=f"sender-{name}", daemon=True)
        self.outcome = Outcome()
        self._client = Client(broker, timeout=20)
        self._name = name
        self._random = random.Random(seed)
        self._window = window
        self._recalls = recalls
        self._first_ack = first_ack
        self._waits: dict[int, tuple[str, int]] = {}
        """By opaque: key and time."""
        self._recalling: dict[int, str] = {}
        self._count = 0

    def run(self) -> None:
        try:
            while True:
                while len(self._waits) + len(self._recalling) < self._window:
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
        kind = self._random.choice(TIMERS)
        delay = self._random.randrange(200, LONGEST)
        if kind == "TIMER_DELAY_SEC":
            delay = max(delay // 1000, 1) * 1000
        now = now_ms()
        value = {"TIMER_DELAY_SEC": delay // 1000, "TIMER_DELIVER_MS": now + delay}.get(kind, delay)
        command = send_command(
            TOPIC,
            body_of(key),
            properties={"UNIQ_KEY": key, "TAGS": "a", kind: str(value)},
            queue_id=self._random.randrange(QUEUES),
            queues=QUEUES,
            serialize=self._random.choice((JSON, BINARY)),
        )
        self.outcome.sent.add(key)
        self._waits[self._client.post(command)] = (key, now + delay)

    def _account(self, answer: Command, *, more: bool) -> None:
        now = now_ms()
        if (key := self._recalling.pop(answer.opaque, None)) is not None:
            # What was due meanwhile is refused, or comes all the same.
            if answer.code == 0 and now < self.outcome.due[key] - 2 * PRECISION:
                self.outcome.recalled.add(key)
            return
        key, due = self._waits.pop(answer.opaque)
        if answer.code != 0:
            self.outcome.problems.append(f"{key}: {answer.code} {answer.remark}")
            return
        self.outcome.due[key] = due
        handle = answer.ext.get("recallHandle")
        if more and handle and self._random.random() < self._recalls:
            recall = Command(RECALL_MESSAGE, {"topic": TOPIC, "recallHandle": handle})
            self.outcome.asked_back.add(key)
            self._recalling[self._client.post(recall)] = key
        self._first_ack.set()


def now_ms() -> int:
    return int(time.time() * 1000)


class TimerVerifier:
    """What was acknowledged in all rounds, and what the queues give back.

    Rules: what was acknowledged comes once, unless it was recalled; nothing comes twice, or before
    its time; what was recalled in time does not come.
    """

    def __init__(self) -> None:
        self.ledger = Ledger("timers", single=True)
        self.due: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.asked_back: set[str] = set()
        self.came: set[str] = set()
        self._read: Counter[int] = Counter()

    def note(self, number: int, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            assert not outcome.problems, f"round {number}: {outcome.problems[:5]}"
            for key in outcome.sent:
                self.ledger.sent(*parsed(key))
            for key in outcome.due:
                wanted = key not in outcome.asked_back
                self.ledger.acknowledged(*parsed(key), wanted=wanted)
            self.due |= outcome.due
            self.recalled |= outcome.recalled
            self.asked_back |= outcome.asked_back

    def verify(self, client: Client, number: int) -> None:
        """What has come since the last look."""
        for queue in range(QUEUES):
            start, end = self._read[queue], client.max_offset(TOPIC, queue)
            assert end >= start, f"round {number}: {TOPIC}-{queue} shrank from {start} to {end}"
            for record in client.pull_all(TOPIC, queue, start, end)[: end - start]:
                self._come(record, f"round {number}: {TOPIC}-{queue} at {record.queue_offset}")
            self._read[queue] = end
        self.ledger.check(f"round {number}", settled=False)

    def _come(self, record: Record, where: str) -> None:
        key = record.properties["UNIQ_KEY"]
        self.ledger.received(*parsed(key), record.physical_offset)
        self.came.add(key)
        if record.body != body_of(key):
            self.ledger.note("damaged", f"{key}, {where}")
        if key in self.recalled:
            self.ledger.note("recalled, and came", f"{key}, {where}")
        early = self.due.get(key, 0) - record.store_timestamp
        if early > 0:
            self.ledger.note("early", f"{key} by {early} ms, {where}")

    def left(self) -> int:
        """How many are still to come."""
        return len(self.due.keys() - self.asked_back - self.came)

    def verify_all(self, client: Client) -> None:
        self.verify(client, -1)
        self.ledger.check("all is due")

    def summary(self) -> str:
        row = self.ledger.row()
        back = len(self.recalled), len(self.asked_back), len(self.asked_back & self.came)
        return (
            f"{row.acknowledged} acknowledged, {row.received} came ({row.unanswered} without "
            f"an answer), recalls: {back[0]} of {back[1]} in time, {back[2]} came all the same; "
            "0 lost, 0 twice, 0 early"
        )
