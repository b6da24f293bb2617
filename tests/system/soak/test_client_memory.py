"""Memory of clients: flat, however many messages they send and consume.

`PYRMQ_CLIENT_MESSAGES=10000000 PYRMQ_THOROUGH=1 pytest tests/system/soak/test_client_memory.py -s`
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from pyrmq import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from tests.support.server import ServerProcess
from tests.support.thorough import size

MESSAGES = size("PYRMQ_CLIENT_MESSAGES", 10_000, 1_000_000)
SAMPLES = 20
WARM = SAMPLES // 4
ALLOWED = 4 << 20
"""Bytes between the samples after the warm-up and the last ones: what allocators keep moves."""
IN_FLIGHT = 256
LIMIT = 3600.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
pytestmark = pytest.mark.thorough("a million messages and more")


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


class Samples:
    """Resident bytes at even distances of messages."""

    def __init__(self) -> None:
        self.seen = 0
        self.bytes: list[int] = []

    def count(self) -> None:
        self.seen += 1
        if self.seen % (MESSAGES // SAMPLES) == 0:
            self.bytes.append(resident())

    def check(self, what: str) -> None:
        text = " ".join(f"{size / (1 << 20):.1f}" for size in self.bytes)
        print(f"\n{what} {self.seen:,} messages, MiB: {text}")
        early, late = self.bytes[WARM : 2 * WARM], self.bytes[-WARM:]
        assert sum(late) / len(late) - sum(early) / len(early) < ALLOWED, text


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    with ServerProcess(tmp_path / "store") as server:
        host, port = server.namesrv
        yield f"{host}:{port}"


def test_memory_is_flat(namesrv: str) -> None:
    trio.run(_sends, namesrv, Samples)
    trio.run(_consumes, namesrv, Samples)


async def _sends(namesrv: str, samples: Callable[[], Samples]) -> None:
    seen, turns = samples(), iter(range(MESSAGES))
    async with Producer("g", namesrv=namesrv, auto_batch=True, send_timeout=60) as producer:

        async def one() -> None:
            for _ in turns:
                await producer.send(Message("Flat", bytes(128)))
                seen.count()

        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                for _ in range(IN_FLIGHT):
                    nursery.start_soon(one)
    seen.check("sent")


async def _consumes(namesrv: str, samples: Callable[[], Samples]) -> None:
    seen, done = samples(), trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        seen.count()
        if seen.seen == MESSAGES:
            done.set()

    async with PushConsumer(
        "flat",
        {"Flat": "*"},
        namesrv=namesrv,
        listener=listener,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        with trio.fail_after(LIMIT):
            await done.wait()
    seen.check("consumed")
