"""What a SYNC_FLUSH commit of one message writes to the disk."""

from __future__ import annotations

import time

from .context import Context
from .floor import floor
from .harness import Broker
from .loads import SYNC, WRITTEN
from .proc import written_bytes
from .result import Result, Unavailable

NAME = "written-1x1"
SETTLE_SECONDS = 2.0
"""Queues, index and checkpoint are written behind the log, once a second or so."""


def _kib_per_message(context: Context, broker: Broker, found: Result) -> float:
    if broker.pid is None:
        raise Unavailable("needs the broker's process id")

    def settled(pid: int) -> int:
        time.sleep(SETTLE_SECONDS)
        return written_bytes(pid)

    # The first messages make the topic and its files.
    context.load("send", broker, topic="LoopbackWritten", seconds=0.5, warmup=0)
    before = settled(broker.pid)
    result = context.load("send", broker, topic="LoopbackWritten", warmup=0)
    after = settled(broker.pid)
    found.raw.append({**result, "written_bytes": after - before})
    return (after - before) / 1024 / int(result["messages"])


def written(context: Context) -> Result:
    """`write_bytes` of the process (proc(5)): pages that it made dirty, each as a whole. What the
    file system writes on its own, as to its journal, is not in it."""
    found = Result(NAME, f"1 x 1, 1 KiB, {SYNC}: written to the disk by the broker's process")
    if context.running is not None:
        found.note = "as the running broker is configured"
    with context.broker(SYNC) as broker:
        found.add("written", _kib_per_message(context, broker, found), "KiB/message", WRITTEN)
    with floor(SYNC, context.directory) as broker:
        found.add("written, floor", _kib_per_message(context, broker, found), "KiB/message")
    return found
