"""The index of waiting halves: opening it beside a long history, a pass over it, its memory.

The stores hold halves and the op records that settle most of them, as a broker writes them (the
committed copies are left out: nothing here reads them). Every hundredth half waits, all through the
history. A store with the waiting halves alone is the yardstick.
"""

from __future__ import annotations

import ctypes
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import trio

from benches.stores import FULL, MARK, Numbered, Producer, batch_frame, memory, single_frame
from pyrmq.engine import Listener, Session, Transactions
from pyrmq.model.names import HALF_TOPIC, OP_TOPIC
from pyrmq.model.properties import encode_properties
from pyrmq.txn.checking import CHUNK, EXAMINED
from pyrmq.txn.machine import Rules
from pyrmq.txn.service import TransactionService

PENDING = 100_000 if FULL else 10_000
SETTLED = 10_000_000 if FULL else 1_000_000
EACH = SETTLED // PENDING + 1  # one of so many waits
BATCH = 1000
BODY = 16
TIMEOUT = Rules().transaction_time_out
BORN = 1_700_000_000_000  # as in the frames of benches.stores
NAMED = 4096 // 8  # halves that one op record names, about transactionOpMsgMaxSize
# As a broker stores them, but for TRAN_MSG: no batch may hold that, and a batch is how they are
# written here.
PROPERTIES = {
    "UNIQ_KEY": f"C0A8010A1F9018B4AAC247B7{MARK}",
    "PGROUP": "PG",
    "__transactionId__": f"C0A8010A1F9018B4AAC247B7{MARK}",
    "REAL_TOPIC": "T0",
    "REAL_QID": "0",
}


@dataclass
class Shelf:
    """A store with waiting halves, and how it was made."""

    producer: Producer
    halves: int
    waiting: range
    seconds: float

    def open(self, half: int = -1, op: int = -1) -> Transactions:
        return Transactions(self.producer.store.native, half_offset=half, op_offset=op)


def fill(root: Path, halves: int, waiting: range, named: int = NAMED) -> Shelf:
    """Writes `halves` halves, and op records for all but those that wait, each for `named`."""
    began = time.perf_counter()
    producer = Producer(root, index_enable=False)
    for topic in (HALF_TOPIC, OP_TOPIC, "T0"):
        producer.add_topic(topic, 1)
    properties = encode_properties(PROPERTIES)
    frame = Numbered(batch_frame(HALF_TOPIC, 0, BATCH, BODY, properties), BATCH)
    for first in range(0, halves, BATCH):
        frame.set_numbers(first)
        producer.feed(frame)
    settled = np.setdiff1d(np.arange(halves), np.array(waiting), assume_unique=True)
    for first in range(0, len(settled), named):
        body = ",".join(map(str, settled[first : first + named])) + ","
        producer.store.put(OP_TOPIC, 0, body.encode(), encode_properties({"TAGS": "d"}))
    return Shelf(producer, halves, waiting, time.perf_counter() - began)


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shelf, Shelf]]:
    """The waiting halves alone, and the same many behind the history."""
    root = tmp_path_factory.mktemp("transactions")
    halves = PENDING * EACH
    alone = fill(root / "alone", PENDING, range(PENDING))
    history = fill(root / "history", halves, range(0, halves, EACH))
    yield alone, history
    for shelf in (alone, history):
        shelf.producer.close()
    shutil.rmtree(root, ignore_errors=True)


def heap() -> int:
    """Bytes of this process that are no file's, after what is free was given back."""
    ctypes.CDLL(None).malloc_trim(0)
    return memory()["Anonymous"]


def timed(work: Callable[[], object], rounds: int = 5) -> float:
    """Median of the seconds that some rounds take."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


def find_due(index: Transactions, until: int, age: int) -> int:
    """What a check pass does before it asks anyone: finds the halves that are due, in chunks."""
    rules = Rules()
    limits = (rules.transaction_time_out, rules.transaction_check_max, rules.file_reserved_time)
    start = found = 0
    while start < until:
        facts, start = index.due(BORN + age, *limits, start, until, CHUNK, EXAMINED)
        found += len(facts)
    return found


@pytest.mark.benchmark(group=f"transactions, {PENDING:,} wait of {PENDING * EACH:,}")
def test_opening(shelves, benchmark, report) -> None:
    alone, history = shelves
    before = heap()
    index = history.open()
    bytes_each = (heap() - before) / PENDING
    assert index.stats()["pending"] == PENDING
    del index
    took = benchmark.pedantic(lambda: timed(history.open, 3), rounds=1)
    near = timed(alone.open, 3)
    report(f"opened in {took:.2f} s, all halves and op records looked at")
    report(f"{took / history.halves * 1e9:.0f} ns a half of the history")
    report(f"{near * 1e3:.0f} ms without it: {near / PENDING * 1e9:.0f} ns a waiting half")
    report(f"{bytes_each:.0f} bytes of memory a waiting half after opening")
    report(f"written in {history.seconds:.1f} s")


@pytest.mark.benchmark(group="transactions")
def test_opening_single_ops(folder: Path, benchmark, report) -> None:
    """A history of transactions that came one at a time: each has an op record of its own."""
    halves = SETTLED // 10
    shelf = fill(folder / "store", halves, range(0, halves, EACH), named=1)
    took = benchmark.pedantic(lambda: timed(shelf.open, 3), rounds=1)
    report(f"{took / halves * 1e9:.0f} ns a half of the history, an op record for each")
    shelf.producer.close()


@pytest.mark.benchmark(group=f"transactions, {PENDING:,} wait of {PENDING * EACH:,}")
def test_pass(shelves, benchmark, report) -> None:
    """None is due, or all are: the same with and without a history."""
    alone, history = shelves
    indexes = [(shelf.open(), shelf.halves) for shelf in (alone, history)]
    times: dict[tuple[int, int], list[float]] = {}

    def both() -> None:
        for age, due in ((0, 0), (TIMEOUT + 1, PENDING)):
            for i, (index, until) in enumerate(indexes):
                began = time.perf_counter()
                assert find_due(index, until, age) == due
                times.setdefault((due, i), []).append(time.perf_counter() - began)

    benchmark.pedantic(both, rounds=9, warmup_rounds=1)
    for due, what in ((0, "none due"), (PENDING, "all due")):
        bare, full = (median(times[due, i][1:]) for i in (0, 1))
        report(f"{what}: {full / bare:.2f} times a pass without history", "about 1")
        report(f"{what}: {full * 1e3:.2f} ms, {full / PENDING * 1e9:.0f} ns a waiting half")


class Silent:
    """A producer of every group that takes all checks and answers none."""

    def __init__(self) -> None:
        self.asked = 0

    def reachable(self, group: str, topic: str) -> bool:
        return True

    def pick(self, group: str, topic: str, turn: int) -> Callable[[bytes], None]:
        return self.take

    def take(self, frame: bytes) -> None:
        self.asked += 1


def service(shelf: Shelf, producers: Silent) -> TransactionService:
    return TransactionService(
        shelf.producer.store,
        shelf.open(),
        Rules(),
        producers=producers,
        broker_name="broker-a",
        message_id=lambda phys: f"7F00000100002A9F{phys:016X}",
        now=lambda: BORN + TIMEOUT + 1,
    )


@pytest.mark.benchmark(group=f"transactions, {PENDING:,} wait of {PENDING * EACH:,}")
def test_asking(shelves, benchmark, report) -> None:
    """A whole pass: each half is appended again, and its producer is asked."""
    alone, history = shelves
    checker: TransactionService | None = None

    def ask(shelf: Shelf) -> float:
        nonlocal checker
        silent = Silent()
        checker = service(shelf, silent)
        began = time.perf_counter()
        trio.run(checker.check_pass)
        assert silent.asked == PENDING
        return time.perf_counter() - began

    seconds = [ask(alone), benchmark.pedantic(ask, args=(history,), rounds=1)]
    report(f"{seconds[1] / seconds[0]:.2f} times a pass without history", "about 1")
    report(f"{seconds[1]:.2f} s, {seconds[1] / PENDING * 1e6:.1f} us a half asked about")
    assert checker is not None
    half, op, _ = checker.engine.progress()
    assert half >= history.halves
    again = timed(lambda: history.open(half, op), 3)
    report(f"opened again in {again * 1e3:.1f} ms: all that waits is behind the history now")


@pytest.mark.benchmark(group="transactions")
def test_memory(folder: Path, benchmark, report) -> None:
    """Halves that come in one after the other through a connection, none of them settled."""
    producer = Producer(folder / "store", index_enable=False)
    for topic in (HALF_TOPIC, OP_TOPIC, "T0"):
        producer.add_topic(topic, 1)
    index = Transactions(producer.store.native)
    native = producer.store.native
    producer.session = Session(Listener(native, transactions=index), b"\x7f\0\0\1", 1)
    sent = {name: PROPERTIES[name] for name in ("UNIQ_KEY", "PGROUP")}
    properties = encode_properties({"TRAN_MSG": "true", **sent})
    frame = Numbered(single_frame("T0", 0, BODY, properties), 1)

    def send(first: int) -> None:
        for number in range(first, first + PENDING):
            frame.set_numbers(number)
            producer.feed(frame)

    send(0)  # the session and the store have what they need
    assert index.stats()["pending"] == PENDING
    before = heap()
    benchmark.pedantic(send, args=(PENDING,), rounds=1)
    bytes_each = (heap() - before) / PENDING
    assert index.stats()["pending"] == 2 * PENDING
    report(f"{bytes_each:.0f} bytes of memory a waiting half")
    producer.close()
