"""Many topics in one store: what 40,000 queues cost beside one topic's four."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benches.stores import (
    FULL,
    PROPERTIES,
    Frame,
    Producer,
    allocated,
    batch_frame,
    make_kill_image,
    single_frame,
)

TOPICS = 10_000 if FULL else 2_000
QUEUES = 4
FILE = 256 << 20
ROUNDS = 9 if FULL else 5


def frames(topics: int, body: int, batch: int) -> list[Frame]:
    """One feed for each group of 16 queues, a send to each, through all queues in turn."""
    queues = [(f"T{t}", q) for q in range(QUEUES) for t in range(topics)]
    make = single_frame if batch == 1 else lambda t, q, b, p: batch_frame(t, q, batch, b, p)
    out = []
    for i in range(0, len(queues), 16):
        out.append(Frame(b"".join(make(t, q, body, PROPERTIES) for t, q in queues[i : i + 16])))
    return out


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("many")
    producer = Producer(root / "store", commit_log_file_size=FILE)
    began = time.perf_counter()
    for n in range(TOPICS):
        producer.add_topic(f"T{n}", QUEUES)
    named = time.perf_counter() - began
    began = time.perf_counter()
    for frame in frames(TOPICS, 100, 1):
        producer.feed(frame)
    created = time.perf_counter() - began
    yield producer, {"named": named, "created": created, "disk": queue_disk(producer, root)}
    producer.close()
    shutil.rmtree(root, ignore_errors=True)


def queue_disk(producer: Producer, root: Path) -> int:
    return allocated(root / "store" / "consumequeue")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("one")
    producer = Producer(root / "store", 1, QUEUES, commit_log_file_size=FILE)
    yield producer
    producer.close()
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.benchmark(group=f"{TOPICS:,} topics x {QUEUES} queues")
def test_creation(many, benchmark, report) -> None:
    """Reports what making the queues took, with the first message of each."""
    producer, figures = many
    stats = benchmark.pedantic(producer.store.stats, rounds=1)
    n = TOPICS * QUEUES
    report(f"{n / figures['created']:,.0f} queues a second made, one message in each")
    report(f"{stats['mappedQueueFiles']:,} of {stats['queueFiles']:,} queue files mapped")
    report(f"{figures['disk'] / n / 1024:.1f} KiB of disk a queue")


@pytest.mark.parametrize("batch", [1, 4], ids=["single", "batch-4"])
@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group=f"append, {TOPICS:,} topics beside one")
def test_throughput(body, batch, many, one, paired, report) -> None:
    producer, _ = many
    spread = frames(TOPICS, body, batch)
    # As many different buffers as the spread has, so that reading them costs as much.
    single = [
        Frame(b"".join(make_one(body, batch, q) for q in range(16))) for _ in range(len(spread))
    ]

    def run(who: Producer, all_frames: list[Frame]) -> None:
        for frame in all_frames:
            who.feed(frame)

    def before() -> None:
        producer.wait_prepared()
        one.wait_prepared()

    result = paired(
        lambda: run(producer, spread),
        lambda: run(one, single),
        rounds=ROUNDS,
        before=before,
    )
    ratios = np.array(result.yard) / np.array(result.work)
    low, high = ratios.min(), ratios.max()
    report(f"{result.speed:.2f} ({low:.2f} to {high:.2f}) of one topic's rate", ">= 0.9")
    count = len(spread) * 16 * batch
    rate = count / np.median(result.work)
    report(f"{rate:,.0f}/s, {result.cpu_ns(count):.0f} ns of CPU a message in the call")


def make_one(body: int, batch: int, n: int) -> bytes:
    if batch == 1:
        return single_frame("T0", n % QUEUES, body, PROPERTIES)
    return batch_frame("T0", n % QUEUES, batch, body, PROPERTIES)


OPEN = """
import json, sys, time
from benches.stores import memory
from pyrmq.engine import Store
before = memory()
began = time.perf_counter()
store = Store(sys.argv[1], commit_log_file_size=int(sys.argv[2]))
took = time.perf_counter() - began
after = memory()
stats = store.stats()
private = lambda m: m["Private_Dirty"] + m["Private_Clean"]
print(json.dumps({
    "took": took, "rss": after["Rss"] - before["Rss"],
    "private": private(after) - private(before),
    "mapped": stats["mappedQueueFiles"], "queues": stats["queues"],
}))
store.close()
"""


def reopen(root: Path) -> dict[str, float]:
    """Opens the store in a fresh process, which says how long that took and what it uses."""
    command = [sys.executable, "-c", OPEN, str(root), str(FILE)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.benchmark(group=f"start, {TOPICS:,} topics x {QUEUES} queues")
def test_start(folder: Path, benchmark, report) -> None:
    root = folder / "store"
    producer = Producer(root, commit_log_file_size=FILE)
    for n in range(TOPICS):
        producer.add_topic(f"T{n}", QUEUES)
    for frame in frames(TOPICS, 100, 1):
        producer.feed(frame)
    producer.close()
    clean = benchmark.pedantic(reopen, args=(root,), rounds=1)
    n = clean["queues"]
    make_kill_image(root)
    killed = reopen(root)
    make_kill_image(root, queues=False)
    bare = reopen(root)
    report(
        f"{clean['took']:.2f} s after a clean stop, {killed['took']:.2f} s after a kill", "< 10 s"
    )
    report(f"{bare['took']:.2f} s after a kill with the queues deleted")
    rss, private = clean["rss"] / n, clean["private"] / n
    report(f"{rss:,.0f} bytes resident a queue, {private:,.0f} private; {clean['mapped']} mapped")
