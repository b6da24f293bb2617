"""Opening 1 GiB of log after a kill without its queues, beside one CRC pass over the file.

The log is in the page cache; so is what the recovery writes, until it flushes it, which counts.
"""

from __future__ import annotations

import mmap
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from benches.stores import FULL, Producer, make_kill_image
from pyrmq.engine import Store
from pyrmq.model.properties import encode_properties

LOG = (1 << 30) if FULL else (256 << 20)
PROPERTIES = encode_properties({"UNIQ_KEY": "C0A8010A1F9018B4AAC247B760000000", "TAGS": "TagA"})


def crc_pass(path: Path) -> float:
    """Seconds of zlib.crc32 over a mapped file."""
    with path.open("rb") as f, mmap.mmap(f.fileno(), LOG, prot=mmap.PROT_READ) as m:
        began = time.perf_counter()
        zlib.crc32(m)
        return time.perf_counter() - began


@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group=f"recovery of {LOG >> 20} MiB of log, queues deleted")
def test_recovery(body, folder: Path, benchmark, report) -> None:
    root = folder / "store"
    options = {"commit_log_file_size": LOG, "index_enable": False}
    producer = Producer(root, 1, **options)
    producer.fill(1000, body)
    size = producer.store.stats()["maxPhyOffset"] // 1000
    messages = (LOG - (1 << 20)) // size // 1000 * 1000
    producer.fill(messages - 1000, body)
    producer.close()
    log = root / "commitlog" / f"{0:020}"
    crcs, opens = [], []

    def setup() -> None:
        make_kill_image(root, queues=False)
        crcs.append(crc_pass(log))

    def reopen() -> None:
        began = time.perf_counter()
        store = Store(root, **options)
        opens.append(time.perf_counter() - began)
        assert store.queue_range("T0", 0)[1] == messages
        store.close()

    benchmark.pedantic(reopen, setup=setup, rounds=5, warmup_rounds=1)
    took, crc = np.median(opens[1:]), np.median(crcs[1:])
    report(f"{took / crc:.2f} times a zlib.crc32 pass", "<= 3")
    report(f"{took:.2f} s ({min(opens[1:]):.2f} to {max(opens[1:]):.2f}), {messages:,} messages")
    report(f"{took / messages * 1e9:.0f} ns a message, {LOG / took / 1e9:.2f} GB/s")
