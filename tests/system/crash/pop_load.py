"""Members of a group that pop, for the kill loop, and what must be true of their acknowledgements.

What a member does with a message follows from chance: it acknowledges it, alone or with others, or
changes its invisible time first, or forgets it, so that it comes again. Whether a message came too
often is judged by the broker's own clock, which is that of this machine: a pop that came after the
answer to an acknowledgement in time must not bring the message again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.support.client import Client, Closed, send_command
from tests.support.ledger import Ledger, parsed
from tests.support.pops import (
    POLLING_FULL,
    POLLING_TIMEOUT,
    Delivery,
    Handle,
    ack_command,
    batch_ack_command,
    change_command,
    changed,
    deliveries,
    pop_command,
)
from tests.support.wire import BINARY, JSON, Command

TOPIC = "Popped"
QUEUES = 3
GROUP = "GP"
BROKER = "broker-a"
INVISIBLE = 3000
"""ms; a kill and a start are shorter."""
MARGIN = 1000
"""ms before its deadline at which an acknowledgement is surely in time. A broker may let a message
come again from then on."""
NOTHING = (POLLING_TIMEOUT, POLLING_FULL, 19)


def body_of(key: str) -> bytes:
    text = key.encode() + b";"
    return text * (1 + sum(text) % 40)


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class Popped:
    key: str
    pop_time: int
    times: int
    """How often it came before, as the message says."""


@dataclass(slots=True)
class Outcome:
    """What one worker knows when it is cut off."""

    sent: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    popped: list[Popped] = field(default_factory=list)
    acked: dict[str, int] = field(default_factory=dict)
    """By key: when the answer to an acknowledgement in time came, ms."""
    late: set[str] = field(default_factory=set)
    """Acknowledged, maybe too late."""
    asked: set[str] = field(default_factory=set)
    """An acknowledgement was sent and not answered: it counts or not, nobody knows."""
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Sender(threading.Thread):
    """Sends, with `window` requests on their way, until the connection breaks."""

    def __init__(self, broker: tuple[str, int], name: str, seed: int, window: int) -> None:
        super().__init__(name=f"sender-{name}", daemon=True)
        self.outcome = Outcome()
        self._client = Client(broker, timeout=20)
        self._name = name
        self._random = random.Random(seed)
        self._window = window

    def run(self) -> None:
        waits: dict[int, str] = {}
        count = 0
        try:
            while True:
                while len(waits) < self._window:
                    count += 1
                    key = f"{self._name}-{count}"
                    self.outcome.sent.add(key)
                    command = send_command(
                        TOPIC,
                        body_of(key),
                        properties={"UNIQ_KEY": key, "TAGS": "a"},
                        queue_id=self._random.randrange(QUEUES),
                        queues=QUEUES,
                        serialize=self._random.choice((JSON, BINARY)),
                    )
                    waits[self._client.post(command)] = key
                    time.sleep(0.001)  # members have to keep up
                self._account(waits, self._client.receive())
        except Closed:
            self._drain(waits)
        except Exception as error:
            self.outcome.problems.append(f"{self.name}: {error!r}")
        finally:
            self._client.close()

    def _drain(self, waits: dict[int, str]) -> None:
        try:
            while waits:
                self._account(waits, self._client.receive(1))
        except (Closed, TimeoutError):
            pass

    def _account(self, waits: dict[int, str], answer: Command) -> None:
        key = waits.pop(answer.opaque)
        if answer.code == 0:
            self.outcome.stored.add(key)
        else:
            self.outcome.problems.append(f"{key}: {answer.code} {answer.remark}")


class Member(threading.Thread):
    """Pops and answers for what it got until the connection breaks, or `stop` is set. `forgets`:
    the part of messages that it does nothing about."""

    def __init__(
        self,
        broker: tuple[str, int],
        name: str,
        seed: int,
        first_ack: threading.Event,
        *,
        forgets: float = 0.15,
    ) -> None:
        super().__init__(name=f"member-{name}", daemon=True)
        self.outcome = Outcome()
        self.stop = threading.Event()
        self._client = Client(broker, timeout=20)
        self._random = random.Random(seed)
        self._first_ack = first_ack
        self._forgets = forgets

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._round()
        except Closed:
            pass
        except Exception as error:
            self.outcome.problems.append(f"{self.name}: {error!r}")
        finally:
            self._client.close()

    def _round(self) -> None:
        answer = self._client.request(
            pop_command(
                TOPIC,
                GROUP,
                maximum=self._random.choice((1, 8, 32)),
                invisible=INVISIBLE,
                poll=200,
            )
        )
        if answer.code in NOTHING:
            return
        if answer.code != 0:
            self.outcome.problems.append(f"{self.name}: pop: {answer.code} {answer.remark}")
            self.stop.set()
            return
        got = deliveries(answer, BROKER)
        for each in got:
            self._note(each)
        keep = [each for each in got if self._random.random() >= self._forgets]
        self._random.shuffle(keep)
        how = self._random.choice(("one by one", "at once", "batch", "renew"))
        self.outcome.done[how] += len(keep)
        self.outcome.done["forgotten"] += len(got) - len(keep)
        if how == "batch" and keep:
            self._acknowledge(batch_ack_command(TOPIC, GROUP, [e.handle for e in keep]), keep)
        elif how == "at once":
            self._ask(keep)
            posted = {self._client.post(self._ack(each.handle)): each for each in keep}
            while posted:
                answer = self._client.receive()
                self._account(answer, [posted.pop(answer.opaque)])
        else:
            for each in keep:
                if how == "renew" and (renewed := self._renew(each)) is None:
                    continue
                each = renewed if how == "renew" and renewed else each
                self._acknowledge(self._ack(each.handle), [each])

    def _note(self, delivery: Delivery) -> None:
        record, key = delivery.record, delivery.record.properties["UNIQ_KEY"]
        if record.body != body_of(key) or record.topic != TOPIC:
            self.outcome.problems.append(f"{key}: {record.topic}, {record.body[:40]!r}")
        handle = delivery.handle
        self.outcome.popped.append(Popped(key, handle.pop_time, record.reconsume_times))

    def _ack(self, handle: Handle) -> Command:
        return ack_command(TOPIC, GROUP, handle)

    def _renew(self, delivery: Delivery) -> Delivery | None:
        answer = self._client.request(change_command(TOPIC, GROUP, delivery.handle, INVISIBLE))
        if answer.code != 0:
            self.outcome.problems.append(f"change {delivery.handle}: {answer.code} {answer.remark}")
            return None
        return Delivery(delivery.record, changed(delivery.handle, answer))

    def _acknowledge(self, command: Command, which: list[Delivery]) -> None:
        self._ask(which)
        self._account(self._client.request(command), which)

    def _ask(self, which: list[Delivery]) -> None:
        self.outcome.asked |= {each.record.properties["UNIQ_KEY"] for each in which}

    def _account(self, answer: Command, which: list[Delivery]) -> None:
        now = now_ms()
        for each in which:
            key = each.record.properties["UNIQ_KEY"]
            self.outcome.asked.discard(key)
            if answer.code != 0:
                self.outcome.problems.append(f"ack {each.handle}: {answer.code} {answer.remark}")
            elif now < each.handle.deadline - MARGIN:
                self.outcome.acked.setdefault(key, now)
                self._first_ack.set()
            else:
                self.outcome.late.add(key)


class PopVerifier:
    """What all workers were told, and what came.

    Rules: what was stored comes until it is acknowledged; nothing comes in a pop that is younger
    than the answer to its acknowledgement.
    """

    def __init__(self) -> None:
        self.ledger = Ledger("popped", once=False)
        self.acked: dict[str, int] = {}
        self.late: set[str] = set()
        self.asked: set[str] = set()
        self.popped: list[Popped] = []
        self.stored: set[str] = set()
        self.done: Counter[str] = Counter()

    def note(self, where: str, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            assert not outcome.problems, f"{where}: {outcome.problems[:5]}"
            for key in outcome.sent:
                self.ledger.sent(*parsed(key))
            for key in outcome.stored:
                self.ledger.acknowledged(*parsed(key))
            self.stored |= outcome.stored
            for key, when in outcome.acked.items():
                self.acked[key] = min(when, self.acked.get(key, when))
            self.late |= outcome.late
            self.asked |= outcome.asked
            self.popped += outcome.popped
            self.done += outcome.done
            for popped in outcome.popped:
                self.ledger.received(*parsed(popped.key))
        self.check(where)

    def check(self, where: str) -> None:
        """Nothing came that had been acknowledged."""
        again = [
            (p.key, p.pop_time - self.acked[p.key])
            for p in self.popped
            if p.key in self.acked and p.pop_time > self.acked[p.key]
        ]
        assert not again, f"{where}: {len(again)} came after they were acknowledged: {again[:5]}"
        self.ledger.check(where, settled=False)

    def open(self) -> set[str]:
        """Stored messages that nobody can have acknowledged yet."""
        return self.stored - self.acked.keys() - self.late - self.asked

    def check_all(self) -> None:
        self.check("all is popped")
        open_ = self.open()
        assert not open_, f"{len(open_)} never came until they were acknowledged: {open_}"
        self.ledger.check("all is popped")

    def summary(self) -> str:
        row = self.ledger.row()
        ways = ", ".join(f"{count} {way}" for way, count in sorted(self.done.items()))
        return (
            f"{row.acknowledged} stored, {len(self.acked)} acknowledged in time, {len(self.late)} "
            f"late, {row.again} came again, none of them acknowledged before ({ways})"
        )
