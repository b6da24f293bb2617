"""Producers for the kill loop of transactions: halves, words about them, answers to checks.

What becomes of a transaction follows from its unique key, so that every producer of a group can
answer for it and a verifier needs only what was sent, answered and told.
"""

from __future__ import annotations

import random
import threading
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.client import Client, Closed
from tests.support.ledger import Ledger, parsed
from tests.support.records import Record, decode_records
from tests.support.transactions import (
    CHECK_TRANSACTION_STATE,
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Half,
    end_command,
    half_command,
    join_group,
    stored_half,
)
from tests.support.wire import BINARY, JSON, Command

TOPIC = "TxLoad"
QUEUES = 3
GROUPS = ("PG_load_0", "PG_load_1")
SIZES = (10, 100, 100, 1000, 4000, 20_000)
WORDS = (COMMIT, COMMIT, COMMIT, COMMIT, ROLLBACK, ROLLBACK, UNKNOWN, None)


def _mix(key: str) -> int:
    return zlib.crc32(key.encode())


def fate_of(key: str) -> int:
    """What its producer says in the end."""
    word = first_word(key)
    return word if word in (COMMIT, ROLLBACK) else (COMMIT, ROLLBACK)[_mix(key) >> 8 & 1]


def first_word(key: str) -> int | None:
    """What its producer says by itself; None: nothing, it waits to be asked."""
    return WORDS[_mix(key) % len(WORDS)]


def body_of(key: str) -> bytes:
    size = SIZES[(_mix(key) >> 4) % len(SIZES)]
    text = key.encode() + b";"
    return (text * (size // len(text) + 1))[: max(size, len(text))]


@dataclass(slots=True)
class Outcome:
    """What one producer knows when it is cut off."""

    sent: set[str] = field(default_factory=set)
    acked: dict[str, Half] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    """Its word was answered with SUCCESS."""
    checks: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Producer(threading.Thread):
    """Sends halves and speaks about them until the connection breaks, and answers checks. With
    `window` 0 it only answers, until it is stopped."""

    def __init__(
        self,
        broker: tuple[str, int],
        *,
        number: int,
        round_number: int,
        seed: int,
        window: int,
        told: frozenset[str] = frozenset(),
        first_told: threading.Event | None = None,
    ) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self.outcome = Outcome()
        self.stop = threading.Event()
        self._client = Client(broker, timeout=20)
        self._name = f"{round_number}-{number}"
        self._group = GROUPS[number % len(GROUPS)]
        self._random = random.Random(seed)
        self._window = window
        self._told_before = told
        self._first_told = first_told or threading.Event()
        self._count = 0
        self._halves: dict[int, tuple[str, Command]] = {}
        self._words: dict[int, tuple[str, int]] = {}
        join_group(self._client, self._group, client_id=self._name)

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                while len(self._halves) < self._window:
                    self._send_half()
                self._take(0.02 if self._window == 0 else 20)
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
                self._account(self._client.receive(1))
        except (Closed, TimeoutError):
            pass

    def _take(self, patience: float) -> None:
        answer = None
        try:
            answer = self._client.receive(patience)
        except TimeoutError:
            if self._window:
                raise
        # Checks first: those that came with the answer may have been sent before it.
        while self._client.pushed:
            self._answer_check(self._client.pushed.pop(0))
        if answer is not None:
            self._account(answer)

    def _send_half(self) -> None:
        self._count += 1
        key = f"{self._name}-{self._count}"
        command = half_command(
            TOPIC,
            body_of(key),
            group=self._group,
            key=key,
            queue_id=self._random.randrange(QUEUES),
            queues=QUEUES,
            serialize=self._random.choice((JSON, BINARY)),
        )
        self.outcome.sent.add(key)
        self._halves[self._client.post(command)] = (key, command)

    def _account(self, answer: Command) -> None:
        if (half := self._halves.pop(answer.opaque, None)) is not None:
            key, command = half
            if answer.code != 0:
                self.outcome.problems.append(f"half {key}: {answer.code} {answer.remark}")
                return
            self.outcome.acked[key] = stored_half(command, answer)
            self._say(key)
            return
        key, state = self._words.pop(answer.opaque)
        if answer.code != 0:
            self.outcome.problems.append(f"end of {key}: {answer.code} {answer.remark}")
        elif state != UNKNOWN:
            self.outcome.told.add(key)
            self._first_told.set()

    def _say(self, key: str) -> None:
        word = first_word(key)
        if word is None:
            return
        times = 2 if self._random.random() < 0.1 else 1
        for _ in range(times):
            self._end(self.outcome.acked[key], word, wait=self._random.random() < 0.5)

    def _end(self, half: Half, word: int, *, wait: bool, from_check: bool = False) -> None:
        serialize = self._random.choice((JSON, BINARY))
        command = end_command(half, word, from_check=from_check, serialize=serialize)
        if wait and word != UNKNOWN:
            self._words[self._client.post(command)] = (half.unique_key, word)
        else:
            self._client.oneway(command)

    def _answer_check(self, command: Command) -> None:
        if command.code != CHECK_TRANSACTION_STATE:
            return
        (record,) = decode_records(command.body)
        key = command.ext["msgId"]
        if record.body != body_of(key):
            self.outcome.problems.append(f"the check about {key} shows another body")
        if key in self.outcome.told or key in self._told_before:
            self.outcome.problems.append(f"{key} is asked about after it was settled")
        self.outcome.checks[key] += 1
        half = Half(
            group=record.properties["PGROUP"],
            unique_key=key,
            queue_id=record.queue_id,
            queue_offset=int(command.ext["tranStateTableOffset"]),
            phys=int(command.ext["commitLogOffset"]),
            offset_msg_id=command.ext["offsetMsgId"],
            transaction_id=command.ext["transactionId"],
        )
        # One that is not decided yet says so once.
        count = int(record.properties["TRANSACTION_CHECK_TIMES"])
        undecided = first_word(key) == UNKNOWN and count == 1
        word = UNKNOWN if undecided else fate_of(key)
        self._end(half, word, wait=self._random.random() < 0.5, from_check=True)


Found = tuple[str, int, int]
"""Key, queue offset and physical offset of a delivered message."""


class TransactionVerifier:
    """What producers were told in all rounds, and what the store gives back."""

    def __init__(self) -> None:
        self.ledger = Ledger("transactions", single=True)
        self.acked: dict[str, Half] = {}
        self.told: set[str] = set()
        self.found: list[list[Found]] = [[] for _ in range(QUEUES)]
        """What was delivered, by queue."""
        self.checks = 0

    def note(self, number: int, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            assert not outcome.problems, f"round {number}: {outcome.problems[:5]}"
            for key in outcome.sent:
                self.ledger.sent(*parsed(key))
            self._is_to_end(outcome.told)
            self.acked |= outcome.acked
            self.told |= outcome.told
            self.checks += outcome.checks.total()

    def _is_to_end(self, keys: Iterable[str]) -> None:
        """The message of a half has to be delivered, unless it was rolled back."""
        for key in keys:
            self.ledger.acknowledged(*parsed(key), wanted=fate_of(key) == COMMIT)

    def verify(self, client: Client, number: int) -> None:
        """Before anybody answers anything: what was told is so, and nothing is there twice."""
        for queue, found in enumerate(self.found):
            end = client.max_offset(TOPIC, queue)
            assert end >= len(found), f"round {number}: queue {queue} shrank to {end}"
            for record in client.pull_all(TOPIC, queue, len(found), end)[: end - len(found)]:
                self._receive(record, queue)
                found.append(_found(record))
        self.ledger.check(f"round {number}")

    def _receive(self, record: Record, queue: int) -> None:
        key = record.properties["UNIQ_KEY"]
        where = f"{key} at {queue}/{record.queue_offset}"
        self.ledger.received(*parsed(key), record.physical_offset)
        if fate_of(key) != COMMIT:
            self.ledger.note("rolled back, but delivered", where)
        if record.body != body_of(key):
            self.ledger.note("damaged", where)
        if record.sys_flag & 0xC != COMMIT:
            self.ledger.note("without the flag of a commit", f"{where}: {record.sys_flag}")
        if (half := self.acked.get(key)) and half.queue_id != queue:
            self.ledger.note("in another queue", f"{where} instead of {half.queue_id}")

    def verify_all(self, client: Client) -> None:
        """Nothing waits any more: every half that was answered has come to its end."""
        self._is_to_end(self.acked)
        self.verify(client, -1)
        for queue, found in enumerate(self.found):
            again = client.pull_all(TOPIC, queue, 0, len(found))
            assert [_found(record) for record in again] == found, f"queue {queue}"

    def summary(self) -> str:
        row = self.ledger.row()
        commits = sum(fate_of(k) == COMMIT for k in self.acked)
        unanswered = sum(key not in self.acked for found in self.found for key, *_ in found)
        return (
            f"{row.sent} halves sent, {len(self.acked)} answered, {len(self.told)} words "
            f"answered, {self.checks} checks; {commits} to be committed, "
            f"{row.received} delivered ({unanswered} of them by halves without answer), "
            f"{len(self.acked) - commits} rolled back, 0 lost, 0 twice"
        )


def _found(record: Record) -> Found:
    return record.properties["UNIQ_KEY"], record.queue_offset, record.physical_offset
