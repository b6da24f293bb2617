"""Pops with their acks beside pulls of the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.engine import Pops, Store
from pyrmq.net.clock import now_ms

MESSAGES = 20_000


@pytest.mark.benchmark(group="pop of 32 messages and its acks")
@pytest.mark.parametrize("records", [1, 32], ids=["acked together", "acked one by one"])
def test_pop_and_ack(records: int, folder: Path, paired, report) -> None:
    store = Store(folder / "store", commit_log_file_size=64 << 20)
    for _ in range(MESSAGES):
        store.put("T", 0, b"x" * 1024, "TAGS\x01TagA\x02")
    pops = Pops(store.native, cluster="C", broker_name="b")
    time = now_ms()
    offset = 0

    def pop() -> None:
        nonlocal offset, time
        time += 1
        got = pops.pop(
            "T", 0, "G", offset, 32, pop_time=time, invisible_time=60_000, revive_queue=0
        )
        assert got is not None
        each = 32 // records
        for at in range(0, 32, each):
            pops.ack(
                "T",
                0,
                "G",
                got.offsets[at : at + each],
                start_offset=got.start_offset,
                pop_time=time,
                invisible_time=60_000,
                revive_queue=0,
            )
        offset = got.next_offset if got.next_offset < MESSAGES - 32 else 0

    def pull() -> None:
        store.get("T", 0, offset, 32)

    result = paired(pop, pull, rounds=200)
    report(f"{result.speed:.3f} times the speed of a pull of the same 32 messages")
    report(f"{result.cpu_ns(1):.0f} ns for 32 messages: {32e9 / result.cpu_ns(1):.0f} a second")
    store.close()
