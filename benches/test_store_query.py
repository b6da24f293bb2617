"""Looking messages up by key in a large store, and how fast the index follows the log.

Every message has a unique key and one of KEYS, so there are two index entries for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from benches.stores import FULL, MARK, Numbered, Producer, batch_frame, thread_cpu
from pyrmq.engine import Store
from pyrmq.model.properties import encode_properties

MESSAGES = 10_000_000 if FULL else 1_000_000
QUERIES = 20_000
UNIQUE = "C0A8010A1F9018B4AAC247B7" + "{}"
KEY = "order-{}"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, dict[str, float]]]:
    import shutil

    root = tmp_path_factory.mktemp("query")
    producer = Producer(root / "store", 1)
    properties = encode_properties(
        {"UNIQ_KEY": UNIQUE.format(MARK), "KEYS": KEY.format(MARK), "TAGS": "TagA"}
    )
    frame = Numbered(batch_frame("T0", 0, 1000, 16, properties), 1000)
    began = time.perf_counter()
    for first in range(0, MESSAGES, 1000):
        frame.set_numbers(first)
        producer.feed(frame)
    sent = time.perf_counter() - began
    producer.wait_indexed()
    took = time.perf_counter() - began
    cpu = thread_cpu("pyrmq-index")
    yield producer.store, {"sent": sent, "took": took, "cpu": cpu}
    producer.close()
    shutil.rmtree(root, ignore_errors=True)


def ask(store: Store, keys: list[str], hits: int) -> np.ndarray:
    """Nanoseconds of each look-up; every one must give `hits` records."""
    times = np.zeros(len(keys), dtype=np.int64)
    clock = time.perf_counter_ns
    for i, key in enumerate(keys):
        began = clock()
        found = store.query_message("T0", key)[0]
        times[i] = clock() - began
        assert len(found) == hits, key
    return times


@pytest.mark.parametrize("kind", ["unique key", "KEYS", "absent"])
@pytest.mark.benchmark(group=f"query by key, {MESSAGES:,} messages")
def test_query(kind, filled, benchmark, report) -> None:
    store, _ = filled
    numbers = np.random.default_rng(3).integers(0, MESSAGES, QUERIES)
    pattern = {"unique key": UNIQUE, "KEYS": KEY, "absent": "nobody-{}"}[kind]
    keys = [pattern.format(f"{n:0{len(MARK)}}") for n in numbers]
    times = benchmark.pedantic(ask, args=(store, keys, int(kind != "absent")), rounds=1)
    p50, p99, worst = np.median(times), np.percentile(times, 99), times.max()
    report(f"median {p50 / 1e3:.1f} us", "< 100 us")
    report(f"p99 {p99 / 1e3:.1f} us, worst {worst / 1e3:.0f} us")


@pytest.mark.benchmark(group="indexing")
def test_indexing(filled, benchmark, report) -> None:
    """Reports what the store's making took; nothing more is measured."""
    store, figures = filled
    benchmark.pedantic(store.stats, rounds=1)
    report(f"{MESSAGES / figures['took']:,.0f} messages a second indexed, 2 keys each")
    report(f"{figures['cpu'] / MESSAGES * 1e9:.0f} ns of the indexing thread a message")
    report(
        f"sent in {figures['sent']:.1f} s, indexed {figures['took'] - figures['sent']:.1f} s later"
    )
