"""Looking up by time and by place in the log, and what a put refuses."""

from __future__ import annotations

import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Store
from pyrmq.errors import MessageIllegalError
from tests.store.tools import bodies, log_file, opened, read_queue


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, list[int]]]:
    """60 records in groups of the same millisecond or so, and their store times."""
    times = []
    with opened(tmp_path_factory.mktemp("timed"), commit_log_file_size=4096) as store:
        for _ in range(15):
            times += [store.put("T", 0, b"x" * 200)[3] for _ in range(4)]
            time.sleep(0.003)
        assert [r.store_timestamp for r in read_queue(store, "T", 0)] == times
        assert sorted(times) == times
        assert len(set(times)) < 60
        yield store, times


def test_offset_by_time_against_a_model(timed: tuple[Store, list[int]]):
    store, times = timed
    for when in [*range(times[0] - 3, times[-1] + 4), 0, -1, -(2**63), 2**63 - 1]:
        assert store.offset_by_time("T", 0, when) == bisect_left(times, when)
        assert store.offset_by_time("T", 0, when, upper=True) == max(
            bisect_right(times, when) - 1, 0
        )
    assert store.earliest_time("T", 0) == times[0]


def test_offset_by_time_without_the_oldest_file(timed: tuple[Store, list[int]], tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=4096) as store:
        times = []
        for _ in range(30):
            times.append(store.put("T", 0, b"x" * 300)[3])
            time.sleep(0.002)
    log_file(tmp_path).unlink()
    with opened(tmp_path, commit_log_file_size=4096) as store:
        low, high = store.queue_range("T", 0)
        assert (low > 0, high) == (True, 30)
        assert store.earliest_time("T", 0) == times[low]
        for when in range(times[0] - 1, times[-1] + 2):
            assert store.offset_by_time("T", 0, when) == max(bisect_left(times, when), low)
            upper = store.offset_by_time("T", 0, when, upper=True)
            assert upper == max(bisect_right(times, when) - 1, low)


def test_times_of_a_queue_without_messages(timed: tuple[Store, list[int]]):
    store, _ = timed
    for topic, queue_id in [("U", 0), ("T", 9)]:
        assert store.earliest_time(topic, queue_id) == -1
        assert store.offset_by_time(topic, queue_id, 2**62) == 0
        assert store.offset_by_time(topic, queue_id, 0, upper=True) == 0


def test_only_the_starts_of_records_are_records(timed: tuple[Store, list[int]]):
    store, _ = timed
    starts = {r.physical_offset: r.size for r in read_queue(store, "T", 0)}
    end = store.stats()["maxPhyOffset"]
    for offset in range(end + 5000):
        found = store.record_at(offset)
        assert (found and len(found)) == starts.get(offset), offset
    for offset in (2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1):
        assert store.record_at(offset) is None
    for offset in (-1, 2**64):
        with pytest.raises(OverflowError):
            store.record_at(offset)


def test_noise_in_bodies_is_never_taken_for_a_record(tmp_path: Path):
    """Bodies full of magic numbers and copied records: only their own place makes a record."""
    noise = random.Random(1)
    with opened(tmp_path) as store:
        phys, *_ = store.put("T", 0, b"inner")
        inner = store.record_at(phys)
        assert inner is not None
        for _ in range(20):
            store.put("T", 0, noise.randbytes(noise.randrange(50)) + inner * 3)
        starts = {r.physical_offset for r in read_queue(store, "T", 0)}
        for offset in range(store.stats()["maxPhyOffset"]):
            assert (store.record_at(offset) is not None) == (offset in starts)


def test_body_limit(tmp_path: Path):
    with opened(tmp_path, max_message_size=1000) as store:
        store.put("T", 0, b"x" * 1000)
        with pytest.raises(MessageIllegalError, match=r"1001.*1000"):
            store.put("T", 0, b"x" * 1001)
        assert store.queue_range("T", 0) == (0, 1)


def test_the_default_body_limit(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=8 << 20) as store:
        store.put("T", 0, bytes(4 << 20))
        with pytest.raises(MessageIllegalError, match="4194304"):
            store.put("T", 0, bytes((4 << 20) + 1))
    with opened(tmp_path, commit_log_file_size=8 << 20) as store:
        assert bodies(store) == [bytes(4 << 20)]


def test_property_limit(tmp_path: Path):
    with opened(tmp_path) as store:
        longest = "K\x01" + "v" * 32764 + "\x02"
        assert len(longest) == 32767
        store.put("T", 0, b"b", longest)
        assert read_queue(store, "T", 0)[0].properties_raw == longest.encode()
        for bad in ("x" * 32768, "ä" * 16384, "x" * 70000):
            with pytest.raises(MessageIllegalError, match="properties length"):
                store.put("T", 0, b"b", bad)
        assert store.queue_range("T", 0) == (0, 1)


@pytest.mark.parametrize(
    "topic",
    ["a", "A-b_c|d%e", "0", "%RETRY%", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250],
)
def test_topic_names_that_are_taken(tmp_path: Path, topic: str):
    with opened(tmp_path) as store:
        store.put(topic, 0, b"b")
    with opened(tmp_path) as store:
        assert bodies(store, topic) == [b"b"]
        assert [name for name, *_ in store.queues()] == [topic]


@pytest.mark.parametrize(
    "topic",
    [
        "", ".", "..", "a/b", "../a", "/a", "a\\b", "a b", "a.b", "a\0b", "a\n", "ä", "t" * 128,
        "%RETRY%" + "g" * 249, "%DLQ%" + "g" * 251, "%retry%" + "g" * 121, "$x", "a:b", "a@b", "~",
    ],
)  # fmt: skip
def test_topic_names_that_are_refused(tmp_path: Path, topic: str):
    with opened(tmp_path / "store") as store:
        with pytest.raises(MessageIllegalError):
            store.put(topic, 0, b"b")
        assert store.get(topic, 0, 0).status == 8
        assert store.queues() == []
        assert store.stats()["maxPhyOffset"] == 0
    assert not list((tmp_path / "store" / "consumequeue").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_queue_ids(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 65535, b"b")
        for bad in (65536, 2**31, 2**32 - 1):
            with pytest.raises(MessageIllegalError, match="65536"):
                store.put("T", bad, b"b")
        for worse in (-1, 2**32):
            with pytest.raises(OverflowError):
                store.put("T", worse, b"b")
        assert [queue for queue in store.queues() if queue[3]] == [("T", 65535, 0, 1)]
    assert [path.name for path in (tmp_path / "consumequeue" / "T").iterdir()] == ["65535"]


@pytest.mark.parametrize("host", ["", "localhost:1", "1.2.3.4", "1.2.3.4:65536", "[::1]", "::1:1"])
def test_hosts_are_addresses(tmp_path: Path, host: str):
    with pytest.raises(ValueError, match="IP:PORT"):
        Store(tmp_path, store_host=host)
    with opened(tmp_path) as store, pytest.raises(ValueError, match="IP:PORT"):
        store.put("T", 0, b"b", born_host=host)
