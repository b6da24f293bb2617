"""Our engine on the stores of test_golden_formats.py: reading, finding, rebuilding, going on."""

from __future__ import annotations

import shutil
from array import array
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.golden_formats import (
    BATCH_FILE,
    EXT_FILE,
    INDEX_ENTRIES,
    INDEX_SLOTS,
    LOG_FILE,
    QUEUE_FILE,
    STORES,
    index_keys,
    read_indexes,
    read_log,
    read_queue,
    unpack,
)
from tests.store.tools import FOUND, NO_MATCH, contents, data, opened
from tests.support.records import Record, decode_record, decode_records, java_hash
from tests.support.waiting import eventually

INNER = "Inner"
DIRECT = ("direct", "crc")


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """The stores unpacked, each test its own."""
    unpack(tmp_path)
    return tmp_path


def options(store: str) -> dict[str, Any]:
    """Sizes, and for the broker's store the kinds of queue files that it has."""
    sizes: dict[str, Any] = {
        "commit_log_file_size": LOG_FILE,
        "consume_queue_file_size": QUEUE_FILE,
        "index_slots": INDEX_SLOTS,
        "index_entries": INDEX_ENTRIES[store],
    }
    if store == "broker":
        sizes |= {
            "batch_queue_file_size": BATCH_FILE,
            "batch_topics": [INNER],
            "queue_ext": True,
            "queue_ext_file_size": EXT_FILE,
        }
    return sizes


def raw_records(root: Path) -> list[tuple[Record, bytes]]:
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    return [(record, log[record.physical_offset :][: record.size]) for record in read_log(root)[0]]


def queued(record: Record) -> bool:
    return record.sys_flag & 0xC in (0, 8)


def await_index(store: Store) -> None:
    """Until the index has reached the end of the log: it follows behind the writer."""
    ranges = [store.entries(topic, queue_id, high - 1)[1] for topic, queue_id, low, high in
              store.queues() if high > low and topic != INNER]  # fmt: skip
    last = max(int(view[-1]["physicalOffset"]) for view in ranges)
    what = f"the index has the record at {last}"
    eventually(lambda: store.stats()["indexedWhere"], what, until=lambda at: at > last)


def check(store: Store, records: list[tuple[Record, bytes]]) -> None:
    """Every record by its place in the log and by its place in its queue."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    for record, raw in records:
        assert store.record_at(record.physical_offset) == raw
        if not queued(record):
            continue
        count = 3 if record.topic == INNER else 1
        for within in range(count):
            got = store.get(record.topic, record.queue_id, record.queue_offset + within, 1)
            assert (got.status, got.count) == (FOUND, count), record
            assert b"".join(bytes(piece) for piece in got.slices) == raw
            assert got.next_offset == record.queue_offset + count
        ends[record.topic, record.queue_id] = record.queue_offset + count
    assert {(t, q): (low, high) for t, q, low, high in store.queues()} == {
        queue: (0, end) for queue, end in ends.items()
    }


@pytest.mark.parametrize("name", STORES)
def test_every_record(golden, name):
    records = raw_records(golden / name)
    with opened(golden / name, **options(name)) as store:
        check(store, records)


@pytest.mark.parametrize("name", STORES)
def test_every_key(golden, name):
    root = golden / name
    records = raw_records(root)
    newest = read_indexes(root, name)[-1]
    holders: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    for record, raw in records:
        for key in index_keys(record):
            holders[record.topic, key].append(raw)
    assert max(len(found) for found in holders.values()) == (6 if name == "broker" else 1)
    with opened(root, **options(name)) as store:
        for (topic, key), expected in holders.items():
            slices, newest_time, offset = store.query_message(topic, key)
            assert [bytes(piece) for piece in slices] == expected
            assert (newest_time, offset) == (newest.end_time, newest.end_offset)
        assert store.query_message("Plain", "no such key")[0] == []


@pytest.mark.parametrize("name", STORES)
def test_a_clean_reopening_changes_nothing(golden, name):
    root = golden / name
    kinds = [folder for folder in root.iterdir() if folder.is_dir() and folder.name != "config"]
    before = {folder.name: contents(folder) for folder in kinds}
    assert {"commitlog", "consumequeue", "index"} <= before.keys()
    for _ in range(2):
        with opened(root, **options(name)):
            pass
        assert {folder.name: contents(folder) for folder in kinds} == before


def lose(root: Path, *folders: str) -> None:
    """What a crash and a careless hand leave: the log, and a mark that it was not stopped."""
    for folder in folders:
        shutil.rmtree(root / folder)
    (root / "checkpoint").unlink()
    (root / "abort").write_text("4711")


@pytest.mark.parametrize("name", DIRECT)
def test_rebuilt_files_are_those_of_apache(golden, name):
    root = golden / name
    queues = contents(root / "consumequeue")
    index = list(contents(root / "index").values())
    lose(root, "consumequeue", "index")
    with opened(root, **options(name)) as store:
        check(store, raw_records(root))
    assert contents(root / "consumequeue") == queues
    assert list(contents(root / "index").values()) == index


def test_rebuilt_files_of_a_broker(golden):
    """As above; the bits of SQL filters are the broker's to compute, not the engine's."""
    root = golden / "broker"
    batch = contents(root / "batchconsumequeue")
    index = list(contents(root / "index").values())
    topics = [("Plain", 0), ("Plain", 1), ("SCHEDULE_TOPIC_XXXX", 17)]
    queues = [[entry[:2] for entry in read_queue(root, *queue)] for queue in topics]
    lose(root, "consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
    with opened(root, **options("broker")) as store:
        check(store, raw_records(root))
    assert contents(root / "batchconsumequeue") == batch
    assert list(contents(root / "index").values()) == index
    assert [[e[:2] for e in read_queue(root, *queue)] for queue in topics] == queues
    assert not (root / "consumequeue" / INNER).exists(), "Apache's broker would not start on it"


@pytest.mark.parametrize("queue_ext", [True, False])
def test_tags_behind_addresses(golden, queue_ext):
    """With the extension tags select; without it at least nothing that matches is left out."""
    root = golden / "broker"
    plain = [(r, raw) for r, raw in raw_records(root) if (r.topic, r.queue_id) == ("Plain", 0)]
    with opened(root, **{**options("broker"), "queue_ext": queue_ext}) as store:
        for tag in ("CANCELLED", "标签", "TagA", "InBatch"):
            wanted = [raw for r, raw in plain if r.properties.get("TAGS") == tag]
            got, offset = b"", 0
            while offset < len(plain):
                result = store.get("Plain", 0, offset, tags=array("i", [java_hash(tag)]))
                assert result.status in (FOUND, NO_MATCH)
                got, offset = got + data(result), result.next_offset
            if queue_ext:
                assert got == b"".join(wanted), tag
            found = [record.queue_offset for record in decode_records(got)]
            assert found == sorted(set(found))
            assert {decode_record(raw).queue_offset for raw in wanted} <= set(found)


def test_a_view_of_entries(golden):
    root = golden / "direct"
    with opened(root, **options("direct")) as store:
        for topic in ("Hosts", "Types"):
            first, view = store.entries(topic, 0)
            assert first == 0
            assert [tuple(entry) for entry in view.tolist()] == read_queue(root, topic, 0)


@pytest.mark.parametrize("name", STORES)
def test_going_on(golden, name):
    """New records follow the last one, also into further files of each kind."""
    root = golden / name
    records = raw_records(root)
    last = records[-1][0]
    topic = "Plain" if name == "broker" else "Hosts"
    with opened(root, **options(name)) as store:
        _, end = store.queue_range(topic, 0)
        phys, size, offset, stored = store.put(
            topic, 0, b"ours", "KEYS\x01ours\x02TAGS\x01TagZ\x02", born_host="192.0.2.9:9"
        )
        assert (phys, offset) == (last.physical_offset + last.size, end)
        for number in range(30):
            store.put(topic, 0, b"x" * 200, f"KEYS\x01more-{number} ours\x02")
        await_index(store)
        slices, newest, _ = store.query_message(topic, "ours")
        assert len(slices) == 31
        assert newest >= stored
    with opened(root, **options(name)) as store:
        assert store.queue_range(topic, 0) == (0, end + 31)
        raw = store.record_at(phys)
        assert raw is not None
        assert len(raw) == size
        assert decode_record(raw).body == b"ours"
        assert len(store.query_message(topic, "ours")[0]) == 31
        for record, raw in records:
            assert store.record_at(record.physical_offset) == raw
    indexes = read_indexes(root, name)
    assert [index.full for index in indexes] == [True] * (len(indexes) - 1) + [False]
