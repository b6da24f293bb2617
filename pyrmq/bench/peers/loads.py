"""The loads of `pyrmq bench peers`."""

from __future__ import annotations

from pyrmq.bench.peers.peer import Load

ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"
SIZE = 1024
BATCH = 32
SHAPES = {"1x1": (1, 1), "1x64": (1, 64), "8x128": (8, 128), "64x1": (64, 1), "256x1": (256, 1)}
"""Connections, and requests under way on each."""


def _sends(flush: str) -> list[Load]:
    prefix = "sync-" if flush == SYNC else ""
    found = [
        Load(f"{prefix}{name}", "send", connections, in_flight, SIZE, flush=flush)
        for name, (connections, in_flight) in SHAPES.items()
    ]
    name = f"{prefix}batch-1x4x{BATCH}"
    return [*found, Load(name, "batch", 1, 4, SIZE, BATCH, flush=flush)]


LOADS = (
    *_sends(ASYNC),
    Load("topics-10000", "send", 8, 128, SIZE, flush=ASYNC, topics=10_000, part_of="8x128"),
    Load("pull-1x1", "pull", 1, 1, SIZE, BATCH, flush=ASYNC),
    Load("pull-4x1", "pull", 4, 1, SIZE, BATCH, flush=ASYNC),
    Load("latency-10000", "latency", 4, 64, SIZE, flush=ASYNC, rate=10_000.0),
    *_sends(SYNC),
)
"""All of them, in their order. Those of one flush mode stand together: the peers start anew for
each."""
FEW = frozenset(
    {"1x1", "1x64", "8x128", "64x1", f"batch-1x4x{BATCH}", "pull-1x1", "latency-10000"}
    | {"sync-1x64", "sync-64x1"}
)
"""The names of those that are measured unless more are asked for."""
