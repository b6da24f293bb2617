"""Results as runs write them, with figures that a test chooses."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from pyrmq.bench.result import (
    Connections,
    Environment,
    ErrorCount,
    Generator,
    Interval,
    Latency,
    Result,
    ServerUsage,
)

ENVIRONMENT = Environment(
    pyrmq="0.1.0",
    python="3.11.7",
    kernel="6.1",
    machine="x86_64",
    cpu="A processor",
    cores=2,
    memory_bytes=8 << 30,
    disk="ext4 on /dev/sda",
    disk_path="/data",
    load_average=0.5,
    broker_version="V5_3_3",
    flush="ASYNC_FLUSH",
    broker_role="ASYNC_MASTER",
    virtual="",
)
SETTINGS = {"connections": 4, "in_flight": 16, "size": "1024", "rate": None, "duration": 10.0}


def latency(p99: float) -> Latency:
    return Latency(1000, "due", p99 / 20, p99 / 4, p99 / 5, p99 / 2, p99, p99 * 2, p99 * 3, p99 * 4)


def result(
    rate: float = 1000.0,
    p99: float = 500.0,
    *,
    asked: float | None = None,
    cpu: float | None = 4.0,
    errors: int = 0,
    backlog: int = 0,
    limit: bool = False,
    load: str = "send",
    ended: str = "duration",
    why: str = "",
    settings: dict[str, Any] | None = None,
) -> Result:
    """A run of 10 s."""
    messages = int(rate * 10)
    usage = ServerUsage(7, "java", 1.0, cpu, 0, 0, None, None, False)
    failed = [ErrorCount("code", 2, "SYSTEM_BUSY", errors, "busy")] if errors else []
    return Result(
        load=load,
        loop="closed" if asked is None else "open",
        settings={**SETTINGS, "rate": asked, **(settings or {})},
        command=["pyrmq", "bench", load],
        started="2026-01-01T00:00:00Z",
        ended=ended,
        why=why,
        seconds=10.0,
        messages=messages,
        requests=messages,
        bytes=messages * 1024,
        rate=rate,
        request_rate=rate,
        byte_rate=rate * 1024,
        target_rate=asked,
        rate_reached=None if asked is None else rate >= 0.99 * asked,
        latency={"request": latency(p99)},
        errors=failed,
        verify=None,
        generator=Generator(1, 1.0, 0.5, 0.0, limit),
        servers=[usage],
        connections=Connections(4, 0, 0),
        intervals=[Interval(1.0, 1.0, messages, 0, p99, p99, p99, True, backlog)],
        warnings=[],
        environment=ENVIRONMENT,
    )


def parsed(text: str) -> ElementTree.Element:
    """Fails unless it is well-formed XML."""
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))


def texts(root: ElementTree.Element) -> list[str]:
    """What stands in a document, piece by piece."""
    return [text.strip() for text in root.itertext() if text.strip()]
