"""Senders of messages that a key names: with tags and properties, in order, to everybody.

The key is the message's UNIQ_KEY, `stream-number`; the body follows from it.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.client import send_command
from tests.support.delays import place
from tests.support.ledger import Ledger
from tests.support.wire import BINARY, JSON, Command
from tests.system.crash import delay_load
from tests.system.crash.delay_load import body_of
from tests.system.soak.settings import BROADCAST, ORDERED, QUEUES, TAGGED
from tests.system.soak.shared import Pace, Role, SenderRole, Shared

TAGS = ("red", "green", "blue")
TAG_EXPRESSION = "red || blue"
SQL_EXPRESSION = "n > 4 AND tint IN ('red', 'green')"
ORDERING_KEYS = 16


@dataclass(frozen=True, slots=True)
class Chosen:
    """The next message: its name, where it goes, what it carries, and who is to get it."""

    stream: str
    number: int
    queue: int
    properties: dict[str, str] = field(default_factory=dict)
    ledgers: tuple[tuple[Ledger, bool], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.stream}-{self.number}"


Choose = Callable[[int, random.Random], Chosen]
"""The next message of the n-th connection."""


class KeyedSender(delay_load.Sender):
    """Sends what `choose` says until its connection breaks."""

    def __init__(
        self, shared: Shared, topic: str, choose: Choose, *, nth: int, rate: float, window: int
    ) -> None:
        super().__init__(
            shared.server.broker,
            name=topic,
            seed=shared.chance(f"{topic} {nth}").randrange(1 << 31),
            window=window,
            back=False,
            first_ack=threading.Event(),
        )
        self._shared = shared
        self._topic = topic
        self._choose = choose
        self._nth = nth
        self._pace = Pace(shared, rate, window)
        self._chosen: dict[int, Chosen] = {}

    def problems(self) -> list[str]:
        return self.outcome.problems

    def _send(self) -> None:
        self._pace.wait()
        chosen = self._choose(self._nth, self._random)
        for ledger, _ in chosen.ledgers:
            ledger.sent(chosen.stream, chosen.number)
        self._shared.count("sent")
        command = send_command(
            self._topic,
            body_of(chosen.key),
            properties={"UNIQ_KEY": chosen.key, **chosen.properties},
            queue_id=chosen.queue,
            queues=QUEUES[self._topic],
            serialize=self._random.choice((JSON, BINARY)),
        )
        opaque = self._client.post(command)
        self._chosen[opaque] = chosen
        self._sends[opaque] = chosen.key

    def _account(self, answer: Command, *, more: bool) -> None:
        del self._sends[answer.opaque]
        chosen = self._chosen.pop(answer.opaque)
        if self._shared.refused(answer.code):
            return
        if answer.code != 0:
            self.outcome.problems.append(f"{chosen.key}: {answer.code} {answer.remark}")
            return
        for ledger, wanted in chosen.ledgers:
            ledger.acknowledged(chosen.stream, chosen.number, place(answer), wanted=wanted)


def wants_tags(number: int) -> bool:
    """What TAG_EXPRESSION says of the message with this number."""
    return TAGS[number % 3] != "green"


def wants_sql(number: int) -> bool:
    """What SQL_EXPRESSION says of it."""
    return number % 10 > 4 and TAGS[number % 3] != "blue"


def tagged(shared: Shared) -> Choose:
    numbers: Counter[str] = Counter()

    def choose(nth: int, chance: random.Random) -> Chosen:
        stream = f"tagged.{nth}"
        number = numbers[stream]
        numbers[stream] += 1
        tag = TAGS[number % 3]
        return Chosen(
            stream,
            number,
            chance.randrange(QUEUES[TAGGED]),
            {"TAGS": tag, "tint": tag, "n": str(number % 10)},
            (
                (shared.ledgers.tags, wants_tags(number)),
                (shared.ledgers.sql, wants_sql(number)),
            ),
        )

    return choose


def ordered(shared: Shared) -> Choose:
    """A stream for each ordering key, over all connections: what was not answered is not sent
    again, so that numbers only grow."""
    numbers: Counter[int] = Counter()

    def choose(nth: int, chance: random.Random) -> Chosen:
        key = chance.randrange(ORDERING_KEYS)
        number = numbers[key]
        numbers[key] += 1
        queue = key % QUEUES[ORDERED]
        return Chosen(f"ordered.{key}", number, queue, {}, ((shared.ledgers.ordered, True),))

    return choose


def broadcast(shared: Shared) -> Choose:
    numbers: Counter[str] = Counter()

    def choose(nth: int, chance: random.Random) -> Chosen:
        stream = f"broadcast.{nth}"
        number = numbers[stream]
        numbers[stream] += 1
        ledgers = tuple((ledger, True) for ledger in shared.ledgers.broadcast)
        return Chosen(stream, number, chance.randrange(QUEUES[BROADCAST]), {}, ledgers)

    return choose


def roles(shared: Shared) -> list[Role]:
    def role(topic: str, choose: Choose, rate: float, window: int) -> Role:
        return SenderRole(
            shared,
            f"sender to {topic}",
            lambda n: KeyedSender(shared, topic, choose, nth=n, rate=rate, window=window),
        )

    return [
        role(TAGGED, tagged(shared), 100, 8),
        role(ORDERED, ordered(shared), 100, 8),
        role(BROADCAST, broadcast(shared), 40, 4),
    ]
