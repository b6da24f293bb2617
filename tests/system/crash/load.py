"""Senders for the kill loop: numbered messages, a window of unacknowledged ones, until cut off.

A message is named by its ``Key`` (round, sender, number); its body starts with that name and goes
on with bytes that follow from it, so that a body can be checked without being remembered.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.client import SEND_MESSAGE, Client, Closed, batch_command, send_command
from tests.support.records import parse_message_id
from tests.support.wire import BINARY, JSON, Command

_BLOCK = random.Random(20_240_229).randbytes(1 << 17)

#: Body sizes in bytes: mostly small, some of several pages, few that fill much of a small file.
_SIZES = (20, 100, 100, 300, 1024, 1024, 4000, 4096, 20_000)
_RARE_SIZE = 60_000


class Key(NamedTuple):
    """The name of one message."""

    round: int
    sender: int
    number: int


class Place(NamedTuple):
    """Where an acknowledgement says a message is. physical is its commit-log offset."""

    topic: str
    queue_id: int
    queue_offset: int
    physical: int


def body_of(key: Key) -> bytes:
    """The one body that message ``key`` may have."""
    mix = (key.round * 7919 + key.sender * 104_729 + key.number * 31) & 0x7FFFFFFF
    size = _RARE_SIZE if mix % 251 == 0 else _SIZES[mix % len(_SIZES)]
    name = f"{key.round}:{key.sender}:{key.number};".encode()
    start = mix % (len(_BLOCK) - _RARE_SIZE)
    return name + _BLOCK[start : start + max(size - len(name), 0)]


def key_of(body: bytes) -> Key:
    """The name in a body's head; ValueError when there is none."""
    numbers = body[:40].partition(b";")[0].split(b":")
    return Key(*map(int, numbers)) if len(numbers) == 3 else _no_key(body)


def _no_key(body: bytes) -> Key:
    raise ValueError(f"no message of this test: {body[:40]!r}")


@dataclass(slots=True)
class Outcome:
    """What one sender knows at the end: acknowledged places in sending order, and what it sent.

    unique: the unique key of each acknowledged message, given by the sender or made by the broker.
    """

    acked: dict[Key, Place] = field(default_factory=dict)
    unique: dict[Key, str] = field(default_factory=dict)
    sent: dict[Key, tuple[str, int]] = field(default_factory=dict)
    batches: int = 0
    problems: list[str] = field(default_factory=list)


def unique_key_of(key: Key) -> str:
    """The unique key that a sender gives to a message of a batch."""
    return f"7F0000010001{key.round:04X}{key.sender:04X}{key.number:012X}"


class Sender(threading.Thread):
    """Sends to random queues of ``topic`` until the connection breaks.

    Before the load it sends one message to ``fresh_topic``, which no one has used: its
    acknowledgement promises that the new topic's configuration outlives the process too.
    """

    def __init__(
        self,
        broker: tuple[str, int],
        *,
        seed: int,
        round_number: int,
        sender: int,
        topic: str,
        queues: int,
        window: int,
        fresh_topic: str | None,
        first_ack: threading.Event,
    ) -> None:
        super().__init__(name=f"sender-{sender}", daemon=True)
        self.outcome = Outcome()
        self._client = Client(broker, timeout=20)
        self._random = random.Random(seed)
        self._round = round_number
        self._sender = sender
        self._topic = topic
        self._queues = queues
        self._window = window
        self._fresh_topic = fresh_topic
        self._first_ack = first_ack
        self._number = 0
        self._pending: deque[tuple[int, str, int, list[Key]]] = deque()

    def run(self) -> None:
        try:
            if self._fresh_topic is not None:
                self._post(self._fresh_topic, 0, "single", JSON)
                self._take_answer()
            while True:
                while len(self._pending) < self._window:
                    kind = self._random.choice(("single", "single", "batch", "old"))
                    serialize = self._random.choice((JSON, BINARY))
                    self._post(self._topic, self._random.randrange(self._queues), kind, serialize)
                self._take_answer()
        except Closed:
            self._drain()
        except Exception as error:
            self.outcome.problems.append(f"sender {self._sender}: {error!r}")
        finally:
            self._client.close()

    def _post(self, topic: str, queue_id: int, kind: str, serialize: int) -> None:
        count = self._random.randint(2, 8) if kind == "batch" else 1
        keys = [Key(self._round, self._sender, self._number + i) for i in range(count)]
        self._number += count
        for key in keys:
            self.outcome.sent[key] = (topic, queue_id)
        options: dict[str, Any] = {"queue_id": queue_id, "serialize": serialize}
        options["queues"] = self._queues
        command: Command
        if kind == "batch":
            pairs = [
                (body_of(key), {"TAGS": f"T{key.number % 7}", "UNIQ_KEY": unique_key_of(key)})
                for key in keys
            ]
            command = batch_command(topic, pairs, **options)
            self.outcome.batches += 1
        else:
            if kind == "old":
                options["code"] = SEND_MESSAGE
            command = send_command(topic, body_of(keys[0]), properties={"KEYS": "k"}, **options)
        opaque = self._client.post(command)
        self._pending.append((opaque, topic, queue_id, keys))

    def _take_answer(self) -> None:
        self._account(self._client.receive())

    def _drain(self) -> None:
        """Answers that had left the server before it died are acknowledgements as well."""
        deadline = time.monotonic() + 5
        try:
            while time.monotonic() < deadline:
                self._account(self._client.receive(1))
        except (Closed, TimeoutError):
            pass

    def _account(self, answer: Command) -> None:
        opaque, topic, queue_id, keys = self._find(answer.opaque)
        where = f"sender {self._sender} round {self._round} opaque {opaque}"
        if answer.code != 0:
            self.outcome.problems.append(f"{where}: code {answer.code} {answer.remark}")
            return
        ids = answer.ext["msgId"].split(",")
        if int(answer.ext["queueId"]) != queue_id or len(ids) != len(keys):
            self.outcome.problems.append(f"{where}: {len(keys)} to queue {queue_id}: {answer.ext}")
            return
        first = int(answer.ext["queueOffset"])
        for i, (key, text) in enumerate(zip(keys, ids, strict=True)):
            _, physical = parse_message_id(text)
            self.outcome.acked[key] = Place(topic, queue_id, first + i, physical)
            single = len(keys) == 1
            self.outcome.unique[key] = answer.ext["transactionId"] if single else unique_key_of(key)
        self._first_ack.set()

    def _find(self, opaque: int) -> tuple[int, str, int, list[Key]]:
        """Answers normally come in order; any order is allowed by the protocol."""
        for i, pending in enumerate(self._pending):
            if pending[0] == opaque:
                del self._pending[i]
                return pending
        raise AssertionError(f"answer to unknown opaque {opaque}")
