"""Transactions over the wire by hand: halves, their end, the broker's checks, what was stored.

Field names and formats as in Apache RocketMQ 5.3.3 (SendMessageProcessor, EndTransactionProcessor,
Broker2Client); nothing of pyrmq is used.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from tests.support.client import HEART_BEAT, Client
from tests.support.records import Record, decode_record, parse_message_id
from tests.support.waiting import eventually
from tests.support.wire import Command

END_TRANSACTION = 37
CHECK_TRANSACTION_STATE = 39
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
OVERFLOW = "TRANS_CHECK_MAX_TIME_TOPIC"
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PATIENCE = 60.0
"""Seconds to wait for what has to happen; it takes a few."""


@dataclass(frozen=True)
class Half:
    """A half as its sender knows it: a place in the log and one in the half queue."""

    name: str
    topic: str
    unique: str
    physical_offset: int
    queue_offset: int


@dataclass(frozen=True)
class Check:
    """A check as the broker sent it: where the copy is that it asks about, and the message."""

    name: str
    half: Half
    times: int
    ext: dict[str, str]
    record: Record


def end_command(half: Half, group: str, state: int, *, from_check: bool = False) -> Command:
    ext = {
        "topic": half.topic,
        "producerGroup": group,
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.physical_offset),
        "commitOrRollback": str(state),
        "fromTransactionCheck": "true" if from_check else "false",
        "msgId": half.unique,
        "transactionId": half.unique,
    }
    return Command(END_TRANSACTION, ext)


class Producer:
    """A producer of a group on one connection: a context."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.group = group
        self.client = Client(address)
        self._checks: list[Check] = []
        self._answered = 0
        data = {
            "clientID": f"{group}@hand",
            "consumerDataSet": [],
            "producerDataSet": [{"groupName": group}],
        }
        answer = self.client.call(HEART_BEAT, json.dumps(data).encode())
        assert answer.code == 0, answer.remark

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def send(self, name: str, topic: str, *, age: int = 0) -> Half:
        """A half, born so many seconds ago; its name is its id, its key and a user property too."""
        unique = name.encode().hex().upper().zfill(32)
        every = {
            "TRAN_MSG": "true",
            "PGROUP": self.group,
            "UNIQ_KEY": unique,
            "KEYS": name,
            "name": name,
        }
        born = {"g": str(int((time.time() - age) * 1000))}
        answer = self.client.send(topic, name.encode(), properties=every, queues=1, change=born)
        assert answer.code == 0, answer.remark
        _, physical_offset = parse_message_id(answer.ext["msgId"])
        return Half(name, topic, unique, physical_offset, int(answer.ext["queueOffset"]))

    def end(self, half: Half, state: int, *, from_check: bool = False) -> None:
        """Commits or rolls back; the broker has to agree."""
        answer = self.client.request(end_command(half, self.group, state, from_check=from_check))
        assert answer.code == 0, f"{half.name}: {answer.code} {answer.remark}"

    @property
    def checks(self) -> list[Check]:
        """All checks so far, in the order in which they came."""
        while self.client.pushed:
            command = self.client.pushed.pop(0)
            if command.code == CHECK_TRANSACTION_STATE:
                self._checks.append(_check(command))
        return list(self._checks)

    def answer(self, decide: Callable[[Check], int | None]) -> list[Check]:
        """Answers the checks that came meanwhile, as decided (None: not at all); all so far."""
        with contextlib.suppress(TimeoutError):
            self.client.receive(0.1)
        checks = self.checks
        for check in checks[self._answered :]:
            state = decide(check)
            if state is not None:
                self.client.oneway(end_command(check.half, self.group, state, from_check=True))
        self._answered = len(checks)
        return checks

    def settle(self, decide: Callable[[Check], int | None], until: Iterable[str]) -> list[Check]:
        """Answers checks until all of `until` were asked about; all so far."""
        wanted = set(until)

        def missing() -> set[str]:
            return wanted - {check.name for check in self.answer(decide)}

        eventually(missing, "all are asked about", PATIENCE, until=lambda left: not left)
        return self.checks


def _check(command: Command) -> Check:
    ext, record = command.ext, decode_record(command.body)
    properties = record.properties
    assert ext["msgId"] == ext["transactionId"] == properties["UNIQ_KEY"]
    assert parse_message_id(ext["offsetMsgId"])[1] == int(ext["commitLogOffset"])
    half = Half(
        properties["name"],
        ext["topic"],
        properties["UNIQ_KEY"],
        int(ext["commitLogOffset"]),
        int(ext["tranStateTableOffset"]),
    )
    return Check(properties["name"], half, int(properties[CHECK_TIMES]), ext, record)


def stored(client: Client, topic: str, queues: int = 1) -> list[Record]:
    """Every record of the topic."""
    found: list[Record] = []
    for queue_id in range(queues):
        first, end = client.min_offset(topic, queue_id), client.max_offset(topic, queue_id)
        found += client.pull_all(topic, queue_id, first, end)
    return found


def names(records: Iterable[Record]) -> list[str]:
    """The names of halves or of what became of them, sorted."""
    return sorted(record.properties["name"] for record in records)


def settled_offsets(client: Client) -> set[int]:
    """The offsets in the half queue that op records name."""
    return {
        int(text)
        for record in stored(client, OP)
        for text in record.body.decode().split(",")
        if text
    }


def await_stored(
    client: Client, topic: str, enough: Callable[[list[Record]], bool], queues: int = 1
) -> list[Record]:
    """Reads the topic until its records are enough."""
    return eventually(lambda: stored(client, topic, queues), topic, PATIENCE, until=enough)
