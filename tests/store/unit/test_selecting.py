"""Reads by tag of a queue of which few messages are wanted, against what one entry after the other
says."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pyrmq.engine import Store
from tests.store.tools import FOUND, NO_MATCH, opened
from tests.support.records import decode_records, java_hash

COUNT = 700


@dataclass
class Sent:
    tag: str
    size: int


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, list[Sent]]]:
    """Runs of unwanted messages of all lengths up to 300; a few of them are large."""
    chance, sent = random.Random(7), []
    while len(sent) < COUNT:
        others = chance.choice([0, 1, 2, 40, 255, 256, 257, 300])
        sent += [Sent(chance.choice("xyz"), chance.choice([10, 20, 900])) for _ in range(others)]
        sent.append(Sent("w", chance.choice([10, 500])))
    with opened(tmp_path_factory.mktemp("select"), consume_queue_file_size=20_000) as store:
        for one in sent:
            store.put("T", 0, bytes(one.size), f"TAGS\x01{one.tag}\x02")
        for offset, one in enumerate(sent):
            (record,) = decode_records(bytes(store.get("T", 0, offset, 1).slices[0]))
            one.size = record.size
        yield store, sent


def expected(
    sent: list[Sent], offset: int, count: int, most: int, scan: int
) -> tuple[list[int], int]:
    """Offsets of what is given, and the next offset."""
    found: list[int] = []
    taken = 0
    for at in range(offset, min(len(sent), offset + max(scan, count))):
        one = sent[at]
        if found and (len(found) + 1 > count or taken + one.size > most):
            return found, at
        if one.tag == "w":
            found.append(at)
            taken += one.size
    return found, min(len(sent), offset + max(scan, count))


@pytest.mark.parametrize("count", [1, 2, 3, 32])
@pytest.mark.parametrize("most", [100, 700, 1500, 1 << 18])
def test_as_one_after_the_other(queue: tuple[Store, list[Sent]], count: int, most: int):
    store, sent = queue
    wanted = array("i", [java_hash("w")])
    for offset in range(0, len(sent), 3):
        got = store.get("T", 0, offset, count, most, tags=wanted)
        found, following = expected(sent, offset, count, most, 800)
        records = [r for part in got.slices for r in decode_records(bytes(part))]
        assert [r.queue_offset for r in records] == found, offset
        assert got.next_offset == following, offset
        assert got.status == (FOUND if found else NO_MATCH)


def test_from_pull_to_pull(queue: tuple[Store, list[Sent]]):
    store, sent = queue
    wanted, offset, found = array("i", [java_hash("w"), java_hash("y")]), 0, []
    while offset < len(sent):
        got = store.get("T", 0, offset, 5, 1000, tags=wanted)
        found += [r.queue_offset for part in got.slices for r in decode_records(bytes(part))]
        assert got.next_offset > offset
        offset = got.next_offset
    assert found == [at for at, one in enumerate(sent) if one.tag in "wy"]
