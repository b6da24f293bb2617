"""SYNC_FLUSH with 64 sends in flight, beside one write and fdatasync a message on the same disk."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from benches.stores import PROPERTIES, Frame, Producer, single_frame

IN_FLIGHT = 64


@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group="SYNC_FLUSH, 64 in flight")
def test_sync_flush(body, folder: Path, paired, report) -> None:
    producer = Producer(folder / "store", 1, sync_flush=True)
    frame = Frame(single_frame("T0", 0, body, PROPERTIES) * IN_FLIGHT)
    session, event = producer.session, producer.store.event_fd()
    poll = select.poll()
    poll.register(event, select.POLLIN)
    plain = os.open(folder / "plain", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(plain, 0, 64 << 20)
    os.pwrite(plain, b"\0" * (64 << 20), 0)
    os.fsync(plain)
    record = b"x" * (body + 180)
    at = 0

    def send() -> None:
        session.feed(frame.buffer, frame.nbytes, 0)
        while session.unconfirmed:
            poll.poll()
            os.read(event, 8)
            session.release(0, 1 << 40)

    def yardstick() -> None:
        nonlocal at
        for _ in range(IN_FLIGHT):
            os.pwrite(plain, record, at)
            os.fdatasync(plain)
            at = (at + len(record)) % (60 << 20)

    result = paired(send, yardstick, rounds=50)
    os.close(plain)
    rate = IN_FLIGHT / sorted(result.work)[len(result.work) // 2]
    report(f"{result.speed:.1f} times one fdatasync a message", ">= 5")
    report(f"{rate:,.0f} messages a second, waiting for each 64")
    producer.close()
