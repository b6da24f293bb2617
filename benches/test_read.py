"""Pulls beside memcpy of the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.engine import Store


@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group="pull of 32 messages")
def test_pull(body, folder: Path, paired, report) -> None:
    store = Store(folder / "store", commit_log_file_size=64 << 20)
    for _ in range(20_000):
        store.put("T", 0, b"x" * body, "TAGS\x01TagA\x02")
    target = bytearray(256 * 1024)
    offset = 0

    def pull() -> None:
        nonlocal offset
        got = store.get("T", 0, offset, 32)
        offset = got.next_offset if got.next_offset < 19_000 else 0

    def yardstick() -> None:
        for piece in store.get("T", 0, offset, 32).slices:
            view = memoryview(piece)
            target[: len(view)] = view

    result = paired(pull, yardstick, rounds=500)
    report(f"{result.speed:.2f} times the speed of reading and copying the bodies")
    report(f"{result.cpu_ns(1):.0f} ns a pull of 32")
    store.close()
