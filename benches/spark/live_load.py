"""A process that sends messages at an even rate, and writes down when each batch was acknowledged.

    python -m benches.spark.live_load NAMESRV TOPIC RATE SECONDS BODY OUT

The body of message n begins with n and a semicolon. OUT gets lines "first count nanoseconds", with
the clock of `time.monotonic_ns`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import trio

import pyrmq

EVERY = 0.002
"""Seconds between two batches."""
PARALLEL = 8


async def send(
    namesrv: str, topic: str, rate: int, seconds: float, size: int
) -> list[tuple[int, int, int]]:
    each = max(1, round(rate * EVERY))
    batches = round(seconds * rate / each)
    acknowledged: list[tuple[int, int, int]] = []
    room = trio.CapacityLimiter(PARALLEL)

    async with pyrmq.Producer("live-load", namesrv=namesrv) as producer:

        async def one(number: int) -> None:
            bodies = (b"%d;" % (number * each + i) for i in range(each))
            batch = [pyrmq.Message(topic, body.ljust(size, b"x")) for body in bodies]
            async with room:
                await producer.send_batch(batch)
            acknowledged.append((number * each, each, time.monotonic_ns()))

        await producer.send_batch([pyrmq.Message(topic, b"-1;")])  # makes topic and log
        print("ready", flush=True)
        sys.stdin.readline()
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(batches):
                await trio.sleep_until(start + number * each / rate)
                nursery.start_soon(one, number)
    return acknowledged


if __name__ == "__main__":
    namesrv, topic, rate, seconds, size, out = sys.argv[1:]
    found = trio.run(send, namesrv, topic, int(rate), float(seconds), int(size))
    Path(out).write_text("".join(f"{first} {count} {when}\n" for first, count, when in found))
