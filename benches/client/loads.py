"""What the client is asked to do while its CPU is measured. The broker is another process."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import trio

from pyrmq import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

BODY = bytes(range(128))
IN_FLIGHT = 256
WARM_UP = 5000
"""Messages before the measurement begins."""
WINDOW = 1000
LIMIT = 600.0
"""Seconds that a load may take."""
BATCH = 500
HELD = 256 << 10
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Measured:
    """Of `count` messages: microseconds of CPU (user and kernel) for each in every window of
    WINDOW messages, wall seconds in all, and the bytes by which the process grew meanwhile."""

    count: int
    windows: list[float]
    wall: float
    grown: int

    @property
    def cpu_us(self) -> float:
        """CPU of one message in the median window."""
        return median(self.windows)

    @property
    def best_us(self) -> float:
        """The same in the best window: others on the machine make everything slower."""
        return min(self.windows)

    @property
    def rate(self) -> float:
        return self.count / self.wall


class _Meter:
    """Begins when it is made; `count` is called for each message."""

    def __init__(self) -> None:
        gc.collect()
        self._seen = 0
        self._windows: list[float] = []
        self._resident = _resident()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def count(self) -> None:
        self._seen += 1
        if not self._seen % WINDOW:
            now = time.process_time()
            self._windows.append((now - self._cpu) / WINDOW * 1e6)
            self._cpu = now

    def read(self) -> Measured:
        wall = time.perf_counter() - self._wall
        gc.collect()
        return Measured(self._seen, self._windows, wall, _resident() - self._resident)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


async def send(
    namesrv: str, topic: str, count: int, *, auto_batch: bool = False, in_flight: int = IN_FLIGHT
) -> Measured:
    """So many tasks, each of which sends one message after the other and has its result."""
    async with Producer(
        "bench-client", namesrv=namesrv, auto_batch=auto_batch, send_timeout=LIMIT
    ) as producer:

        async def one() -> None:
            await producer.send(Message(topic, BODY))

        await _spread(WARM_UP, in_flight, one)
        meter = _Meter()
        await _spread(count, in_flight, one, meter)
        return meter.read()


async def send_soon(namesrv: str, topic: str, count: int) -> Measured:
    """One task that sends one message after the other and has no result. So little is held that
    about as many are answered in a window as are taken."""
    async with Producer(
        "bench-client",
        namesrv=namesrv,
        auto_batch=True,
        batch_total_bytes=HELD,
        send_timeout=LIMIT,
    ) as producer:
        with trio.fail_after(LIMIT):
            for _ in range(WARM_UP):
                await producer.send_soon(Message(topic, BODY))
            await producer.flush()
            meter = _Meter()
            for _ in range(count):
                await producer.send_soon(Message(topic, BODY))
                meter.count()
            await producer.flush()
        return meter.read()


async def _spread(
    count: int, tasks: int, work: Callable[[], Awaitable[None]], meter: _Meter | None = None
) -> None:
    turns = itertools.count()

    async def run() -> None:
        while next(turns) < count:
            await work()
            if meter is not None:
                meter.count()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(run)


async def fill(namesrv: str, topic: str, count: int) -> None:
    """So many messages, for `consume`."""
    async with Producer("bench-client", namesrv=namesrv) as producer:
        left = itertools.count(0, BATCH)

        async def batch() -> None:
            many = min(BATCH, count - next(left))
            await producer.send_batch([Message(topic, BODY) for _ in range(many)])

        await _spread(-(-count // BATCH), 4, batch)


async def consume(namesrv: str, group: str, topic: str, count: int) -> Measured:
    """A push consumer whose listener does nothing but count, over what `fill` has sent."""
    seen = 0
    meter: _Meter | None = None
    done = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        nonlocal seen, meter
        seen += 1
        if meter is not None:
            meter.count()
        elif seen == WARM_UP:
            meter = _Meter()
        if seen == count:
            done.set()

    async with PushConsumer(
        group,
        {topic: "*"},
        namesrv=namesrv,
        listener=listener,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        with trio.fail_after(LIMIT):
            await done.wait()
        assert meter is not None
        return meter.read()


async def switches(count: int, tasks: int = IN_FLIGHT) -> Measured:
    """The yardstick: as many tasks that wait for something and are woken, and nothing else. No
    client on trio can spend less if each message has a task that waits for it."""
    waiting: list[trio.Event] = []

    async def wait() -> None:
        event = trio.Event()
        waiting.append(event)
        await event.wait()

    async def wake() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            for event in waiting:
                event.set()
            waiting.clear()

    meter = _Meter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake)
        await _spread(count, tasks, wait, meter)
        nursery.cancel_scope.cancel()
    return meter.read()
