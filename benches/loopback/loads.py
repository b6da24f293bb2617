"""The loads that brokers are measured with in turns, and the targets of pyrmq: one table.

Targets are those the project set for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

SYNC, ASYNC = "SYNC_FLUSH", "ASYNC_FLUSH"
BATCH = 32
"""Messages of a batch, and messages that a pull asks for."""


@dataclass(frozen=True)
class Load:
    """A load, and what is to come of it. A target is text such as ">= 0.6"; without one: ""."""

    name: str
    flush: str
    mode: str
    """The load of `pyrmq bench`."""
    connections: int
    in_flight: int
    of_floor: str = ""
    """The rate, as a part of the floor's."""
    of_apache: str = ""
    """The rate, in times that of Apache RocketMQ."""
    cpu: str = ""
    """The broker's CPU time in us, of a message or, when pulling, of a request."""
    yardstick: str = ""
    """The rate, in times one write and one fdatasync a message."""
    p99: str = "<= 2"
    """p99, in times the floor's."""

    @property
    def text(self) -> str:
        shape = f"{self.connections} x {self.in_flight}"
        if self.mode == "pull":
            return f"{shape}, {BATCH} x 1 KiB a request"
        size = f"batches of {BATCH} x 1 KiB" if self.mode == "batch" else "1 KiB"
        return f"{shape}, {size}, {self.flush}"


LOADS = (
    Load("sync-1x1", SYNC, "send", 1, 1, ">= 0.6", ">= 3"),
    Load("sync-1x64", SYNC, "send", 1, 64, ">= 0.6", ">= 6", yardstick=">= 5"),
    Load("sync-64x1", SYNC, "send", 64, 1, ">= 0.6", ">= 4"),
    Load("sync-8x128", SYNC, "send", 8, 128, ">= 0.6", ">= 6"),
    Load("send-1x64", ASYNC, "send", 1, 64, ">= 0.9", ">= 7", cpu="<= 3"),
    Load("send-8x128", ASYNC, "send", 8, 128, ">= 0.9", ">= 7", cpu="<= 1.5"),
    Load("batch-1x4x32", ASYNC, "batch", 1, 4, ">= 0.9", ">= 4"),
    Load("send-64x1", ASYNC, "send", 64, 1, ">= 0.85", ">= 5", cpu="<= 12"),
    Load("send-256x1", ASYNC, "send", 256, 1, ">= 0.85", ">= 5"),
    Load("send-1x1", ASYNC, "send", 1, 1, ">= 0.85", ">= 5"),
    Load("pull-32-1x1", ASYNC, "pull", 1, 1, of_apache=">= 3", cpu="<= 25", p99=""),
    Load("pull-32-4x1", ASYNC, "pull", 4, 1, of_apache=">= 3", cpu="<= 25", p99=""),
)

WRITTEN = "<= 16"
"""KiB that the broker writes to the disk for a message of 1 KiB, SYNC_FLUSH, one at a time."""
