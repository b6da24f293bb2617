"""Senders beside a consumer that reads what is on disk only."""

from __future__ import annotations

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .context import Context
from .harness import Broker
from .proc import read_bytes
from .result import Result, Unavailable

NAME = "cold-consumer"
BACKLOG = 200_000
"""Messages of 1 KiB that are read from the disk, in each round anew: what a broker has read once
may stay in its memory."""
SETTLE_SECONDS = 2.0
SENDERS = 64
PROCESS_MADVISE = 440
"""The number of the system call: the same on all of Linux's machines but Alpha."""
MADV_PAGEOUT = 21


def _drop_from_memory(pid: int) -> None:
    """Has the kernel take the log's files out of memory, also what the broker has mapped."""
    os.sync()
    pidfd = os.pidfd_open(pid)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/commitlog/" in line:
                start, _, end = line.split(maxsplit=1)[0].partition("-")
                _page_out(pidfd, int(start, 16), int(end, 16))
    finally:
        os.close(pidfd)


class _Range(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _page_out(pidfd: int, start: int, end: int) -> None:
    area = _Range(start, end - start)
    libc = ctypes.CDLL(None, use_errno=True)
    call = [ctypes.c_long(n) for n in (PROCESS_MADVISE, pidfd)]
    if libc.syscall(*call, ctypes.byref(area), ctypes.c_long(1), MADV_PAGEOUT, 0) < 0:
        raise Unavailable(f"process_madvise: {os.strerror(ctypes.get_errno())}")


def _fill(context: Context, broker: Broker, topic: str) -> None:
    size = {"count": min(BACKLOG, context.max_messages), "seconds": 30, "warmup": 0}
    context.load("batch", broker, in_flight=4, topic=topic, **size)
    time.sleep(SETTLE_SECONDS)


def _pull(context: Context, broker: Broker, topic: str) -> dict[str, Any]:
    """All of the backlog once, as fast as it comes."""
    size = {"count": BACKLOG, "seconds": context.seconds + context.warmup, "warmup": 0}
    return context.load("pull", broker, connections=4, max_msgs=32, topic=topic, **size)


def cold_consumer(context: Context) -> Result:
    """p99 of 64 senders, alone and while 4 connections pull a backlog that is not in memory."""
    found = Result(NAME, f"{SENDERS} x 1, 1 KiB, ASYNC_FLUSH, beside pulls from the disk")
    shape = {"connections": SENDERS, "in_flight": 1, "topic": "LoopbackSend"}
    alone, beside, pulls = [], [], []
    from_disk = 0
    with context.broker() as broker, ThreadPoolExecutor(1) as executor:
        if broker.pid is None or context.running is not None:
            raise Unavailable("needs a broker of its own, to drop its files from memory")
        for n in range(context.rounds):
            topic = f"LoopbackCold{n}"
            _fill(context, broker, topic)
            alone.append(context.load("send", broker, **shape))
            _drop_from_memory(broker.pid)
            before = read_bytes(broker.pid)
            pulling = executor.submit(_pull, context, broker, topic)
            beside.append(context.load("send", broker, **shape))
            pulls.append(pulling.result())
            from_disk += read_bytes(broker.pid) - before
    found.raw += [*alone, *beside, *pulls]
    found.add_loads(alone, suffix=", alone")
    found.add_loads(beside, suffix=", beside it")
    ratios = [b["p99_us"] / a["p99_us"] for a, b in zip(alone, beside, strict=True)]
    found.add_ratios("p99 beside it, of alone", ratios, "")
    found.add("read from the disk", from_disk / len(pulls) / (1 << 20), "MiB a round")
    found.add("pulled", sum(p["rate"] for p in pulls) / len(pulls), "messages/s")
    return found
