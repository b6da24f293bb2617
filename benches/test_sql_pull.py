"""Pulls over a queue of which few messages are wanted: by tag, and by an SQL92 expression."""

from __future__ import annotations

from array import array
from pathlib import Path
from statistics import median

import pytest

from benches.stores import FULL, Frame, Producer, single_frame
from pyrmq.engine import SqlFilter, Store, java_hash
from pyrmq.model.properties import encode_properties

MESSAGES = 1_000_000 if FULL else 200_000
EVERY = 1000
"""One message of so many is wanted."""
FEED = 50
BODY = 100
COMMON = {"UNIQ_KEY": "7F00000100002A9F0000000000000000", "region": "north", "amount": "17"}


def frame(tag: str, a: int) -> bytes:
    properties = encode_properties({"TAGS": tag, "a": str(a), **COMMON, "b": "abc"})
    return single_frame("T0", 0, BODY, properties)


SQL = "a > 5 AND b = 'abc'"
BITS, BITMAP_LEN = [9, 33, 77], 14


def load(producer: Producer) -> None:
    other = Frame(frame("Other", 1) * FEED)
    last = Frame(frame("Other", 1) * (FEED - 1) + frame("Wanted", 9))
    for n in range(MESSAGES // FEED):
        producer.feed(last if n % (EVERY // FEED) == 0 else other)


def pull_all(store: Store, **wanted: object) -> int:
    """Reads the queue to its end, as a consumer does that is always sent on."""
    offset = found = 0
    while offset < MESSAGES:
        got = store.get("T0", 0, offset, 32, **wanted)  # type: ignore[call-overload]
        found += got.count
        offset = got.next_offset
    return found


@pytest.mark.benchmark(group=f"pulls over {MESSAGES:,} messages, 1 in {EVERY} wanted")
def test_pulls(folder: Path, paired, report) -> None:
    producer = Producer(folder / "store", topics=1, index_enable=False)
    load(producer)
    store = producer.store
    tags = array("i", [java_hash("Wanted")])
    sql = SqlFilter(SQL)
    assert pull_all(store, tags=tags) == pull_all(store, sql=sql) == MESSAGES // EVERY
    result = paired(lambda: pull_all(store, sql=sql), lambda: pull_all(store, tags=tags), rounds=5)
    ns = median(result.work) / MESSAGES * 1e9
    report(
        f"by SQL92: {ns:.0f} ns a message, {1 / result.speed:.1f} times the time of the same by tag"
    )
    producer.close()


@pytest.mark.benchmark(group=f"pulls over {MESSAGES:,} messages, 1 in {EVERY} wanted")
def test_pulls_with_bits(folder: Path, paired, report) -> None:
    """The expression was evaluated as the messages were stored (enableCalcFilterBitMap)."""
    options = {"queue_ext": True, "bitmap_len": BITMAP_LEN, "index_enable": False}
    producer = Producer(folder / "store", topics=1, **options)
    store, plain = producer.store, SqlFilter(SQL)
    born = store.set_expressions("T0", [(plain, BITS)])
    assert born is not None
    load(producer)
    sql = plain.with_bits(BITS, BITMAP_LEN, *born)
    found = MESSAGES // EVERY
    assert pull_all(store, sql=sql) == pull_all(store, sql=plain) == found
    result = paired(lambda: pull_all(store, sql=sql), lambda: pull_all(store, sql=plain), rounds=5)
    ns = median(result.work) / MESSAGES * 1e9
    report(f"with bits: {ns:.1f} ns a message, {result.speed:.0f} times as fast as without")
    producer.close()
