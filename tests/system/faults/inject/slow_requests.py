"""What the log says of requests that waited for a disk: a process with the failing calls preloaded.

Arguments: a case's name, and a folder to work in. See `slow_disk`."""

from __future__ import annotations

import logging
import re
import sys
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import trio

import pyrmq.testing
from pyrmq.net.server import slow
from tests.support.client import Client
from tests.support.waiting import eventually_trio
from tests.system.faults.inject.calls import HELD, FailingCalls, Fault

SECONDS = 30.0
LIMIT_MS = 200
HANGS = 0.5
"""Seconds for which the disk hangs."""
TOPIC = "T"

thread = trio.to_thread.run_sync


class Lines(logging.Handler):
    """The lines of slow requests."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


async def line_of_a_send(root: Path, calls: FailingCalls, call: str, **settings: Any) -> str:
    """Sends a message while this call hangs; returns the one line of it."""
    lines = Lines()
    slow.log.addHandler(lines)
    calls.arm(root, Fault())
    async with pyrmq.testing.broker(
        root, mapped_file_size_commit_log=1 << 20, slow_log_ms=0, **settings
    ) as running:
        server = running.broker.parts.server
        with Client(running.broker_address) as client:
            assert (await thread(partial(client.send, TOPIC, b"first", queues=1))).code == 0
            assert (await thread(partial(client.heartbeat, "i", "g", TOPIC))).code == 0
            server.slow_requests.set_limit(LIMIT_MS)
            calls.arm(root, Fault(call, "commitlog/*", 1, 0, HELD))
            timer = Timer(HANGS, calls.disarm)
            timer.start()
            assert (await thread(partial(client.send, TOPIC, b"second"))).code == 0
            timer.join()
            server.slow_requests.set_limit(0)  # whatever else this machine makes slow
            await eventually_trio(lambda: lines.found, "the line is there")
            peer = client.address
    sends = [line for line in lines.found if "SEND_MESSAGE" in line]
    assert len(sends) == 1, lines.found
    rest = f", client i, group g, topic {TOPIC}, queue 0, offset 1, bytes "
    assert f"slow request 310 SEND_MESSAGE_V2 of {peer} took " in sends[0], sends[0]
    assert rest in sends[0], sends[0]
    return sends[0]


def part(line: str, name: str) -> int:
    found = re.search(rf"[(, ]{name} (\d+)", line)
    return int(found[1]) if found else 0


async def hung_write(root: Path, calls: FailingCalls) -> None:
    line = await line_of_a_send(root, calls, "write")
    assert part(line, "writing") >= HANGS * 900, line
    assert part(line, "flushing") == 0, line


async def hung_flush(root: Path, calls: FailingCalls) -> None:
    line = await line_of_a_send(root, calls, "fdatasync", flush_disk_type="SYNC_FLUSH")
    assert part(line, "flushing") >= HANGS * 900, line
    assert part(line, "writing") < LIMIT_MS, line


CASES = {"slow-write": hung_write, "slow-flush": hung_flush}


async def main(case: str, root: Path) -> None:
    calls = FailingCalls()
    with trio.fail_after(SECONDS):
        await CASES[case](root, calls)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]))
