"""What the tests that kill amid transactions share: a server that dies at a step, the log in its
folder, and a producer that answers checks."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.client import Client, Closed
from tests.support.records import Record, decode_record
from tests.support.server import ServerFailed, ServerProcess
from tests.support.transactions import (
    OP_TOPIC,
    ROLLBACK,
    UNKNOWN,
    Half,
    delivered,
    end_command,
    half_command,
    join_group,
    next_check,
    send_half,
)
from tests.support.waiting import eventually
from tests.support.wire import Command

TOPIC = "TxKill"
GET_BROKER_RUNTIME_INFO = 28
SYSTEM_BUSY = 2
PATIENCE = 60.0


class DyingServer(ServerProcess):
    """`die`: a step of tests/system/crash/dying_server.py at which the next process kills
    itself."""

    die = ""

    def spawn(self) -> None:
        self.env = {"PYRMQ_DIE": self.die}
        super().spawn()

    def _command(self) -> list[str]:
        command = super()._command()
        at = command.index("server")
        command[at - 1 : at + 1] = ["tests.system.crash.dying_server"]
        return command

    def wait_killed(self) -> None:
        try:
            code = self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failure(f"it lives on: {self.die!r} is not reached") from None
        self._close()
        if code != -signal.SIGKILL:
            raise ServerFailed(f"exit code {code} instead of a kill at {self.die!r}")

    def stop_into_kill(self) -> None:
        self._popen.send_signal(signal.SIGTERM)
        self.wait_killed()


def log_records(store: Path) -> Iterator[tuple[int, Record]]:
    """Every record of a log that is one file, with its place."""
    (path,) = [p for p in (store / "commitlog").iterdir() if p.name == "0" * 20]
    data = path.read_bytes()
    at = 0
    while data[at : at + 4].strip(b"\0"):
        record = decode_record(data, at)
        yield at, record
        at += record.size


def cut(store: Path, keep: Callable[[list[Record]], int]) -> list[Record]:
    """Leaves as many records as `keep` says, and zeros behind them, as a process has left them that
    was killed before it wrote the next one. Returns those that are gone."""
    places = list(log_records(store))
    count = keep([record for _, record in places])
    assert 0 < count < len(places), f"{count} of {len(places)} records are to stay"
    path = store / "commitlog" / ("0" * 20)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(places[count][0])
        file.truncate(size)
    return [record for _, record in places[count:]]


def without_last_op(records: list[Record]) -> int:
    """All but the op record that stands at the end."""
    assert records[-1].topic == OP_TOPIC, f"a record of {records[-1].topic} is the last"
    return len(records) - 1


@dataclass
class Story:
    """One store over many lives, and what has to be true of the transactions in it.

    A transaction is named by its unique key; its producer group is its own. `fate` is what its
    producer says when it is asked; UNKNOWN: it does not answer.
    """

    server: DyingServer
    fate: dict[str, int] = field(default_factory=dict)
    halves: dict[str, Half] = field(default_factory=dict)
    expected: Counter[str] = field(default_factory=Counter)
    checks: dict[str, int] = field(default_factory=dict)
    """Who was asked in this life, and with which count first."""
    client: Client | None = None
    markers: int = 0

    @property
    def c(self) -> Client:
        assert self.client is not None
        return self.client

    def begin(self, die: str = "") -> None:
        """The next life of the server, in which it is killed at step `die`."""
        self.server.die = die
        self.server.start()
        self.client = Client(self.server.broker)
        self.checks.clear()

    def kill(self) -> None:
        self.c.close()
        self.server.kill()

    def killed(self) -> None:
        self.server.wait_killed()
        self.c.close()

    # What a producer does.

    def half(self, key: str, fate: int) -> Half:
        self.fate[key] = fate
        half = send_half(self.c, TOPIC, key.encode(), group=group_of(key), key=key, queues=1)
        self.halves[key] = half
        return half

    def post_half(self, key: str, fate: int) -> None:
        """Without waiting for an answer."""
        self.fate[key] = fate
        command = half_command(TOPIC, key.encode(), group=group_of(key), key=key, queues=1)
        self.c.post(command)

    def post_end(self, half: Half, state: int, *, from_check: bool = False) -> None:
        self.c.post(end_command(half, state, from_check=from_check))

    def join(self, *keys: str) -> None:
        join_group(self.c, *(group_of(key) for key in keys))

    def next_check(self) -> tuple[str, Half]:
        half, record = next_check(self.c, PATIENCE)
        key = half.unique_key
        assert record.body == key.encode(), f"the check about {key} shows {record.body!r}"
        assert record.topic == TOPIC
        self.checks.setdefault(key, int(record.properties["TRANSACTION_CHECK_TIMES"]))
        return key, half

    # What has to be true.

    def settle_all(self) -> dict[str, int]:
        """The producers of all transactions are there again and answer, and go. Returns who was
        asked, and with which count first: everybody for whom something waits, as a half that was
        sent last is asked about after all others."""
        self.markers += 1
        marker = f"marker-{self.markers}"
        self.join(*self.fate, marker)
        self.half(marker, ROLLBACK)
        while marker not in self.checks:
            key, half = self.next_check()
            if (state := self.fate[key]) != UNKNOWN:
                self.post_end(half, state, from_check=True)
                answer = self.c.receive()
                assert answer.code == 0, f"{key}: {answer.code} {answer.remark}"
        asked = {key: count for key, count in self.checks.items() if key != marker}
        silent = sum(self.fate[key] == UNKNOWN for key in asked)
        self.c.close()
        self.client = Client(self.server.broker)
        self._wait_for("transactionPendingCount", silent)
        self._wait_for("transactionUnreachableCount", silent)
        assert self.figure("transactionOwedOpCount") == 0
        return asked

    def _wait_for(self, name: str, value: int) -> None:
        what = f"{name} is {value}"
        eventually(lambda: self.figure(name), what, until=lambda found: found == value)

    def figure(self, name: str) -> int:
        answer = self.c.call(GET_BROKER_RUNTIME_INFO)
        assert answer.code == 0, answer.remark
        return int(json.loads(answer.body)["table"][name])

    def until_killed(self, command: Callable[[], Command]) -> None:
        """Asks for the step again and again: the broker may say at first that it is busy."""
        try:
            answer = eventually(
                lambda: self.c.request(command()),
                "the broker is not busy any more",
                until=lambda answer: answer.code != SYSTEM_BUSY,
            )
            raise AssertionError(f"{answer.code} {answer.remark}: it lives on")
        except Closed:
            self.killed()

    def check_delivered(self) -> None:
        """Exactly what is expected was delivered, each as often as is expected."""
        found = Counter(record.body.decode() for record in delivered(self.c, TOPIC, 1))
        assert found == +self.expected, f"delivered {found - self.expected} too often, " + (
            f"{self.expected - found} not"
        )


def group_of(key: str) -> str:
    return f"PG_{key}"
