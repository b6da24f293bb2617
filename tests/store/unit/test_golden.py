"""A store that Apache RocketMQ 5.3.3 wrote: read, reopened, rebuilt and continued here."""

from __future__ import annotations

import base64
import json
import shutil
from array import array
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.tools import FOUND, GOLDEN, bodies, contents, data, opened, queue_entries, unpack
from tests.support.records import decode_record, java_hash

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
DELAYS_MS = {"1": 1_000, "2": 5_000}
"""The delay levels used in the golden store: RocketMQ's messageDelayLevel starts 1s 5s."""


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """The unpacked archive: `store/` and `expected.json`."""
    return unpack(GOLDEN, tmp_path)


@pytest.fixture
def expected(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "expected.json").read_text())
    for record in found["records"]:
        record["record"] = base64.b64decode(record["record"])
    assert len(found["records"]) == 300
    return found


@pytest.fixture
def sizes(expected: dict[str, Any]) -> dict[str, int]:
    config = dict(line.split("=") for line in expected["config"])
    return {
        "commit_log_file_size": int(config["mappedFileSizeCommitLog"]),
        "consume_queue_file_size": int(config["mappedFileSizeConsumeQueue"]),
    }


def check_records(store: Store, expected: dict[str, Any]) -> None:
    ends: dict[tuple[str, int], int] = defaultdict(int)
    for record in expected["records"]:
        queue = record["topic"], record["queueId"]
        result = store.get(*queue, record["queueOffset"], 1)
        assert (result.status, result.count) == (FOUND, 1), record
        assert result.next_offset == record["queueOffset"] + 1
        assert data(result) == record["record"], record
        assert store.record_at(record["physicalOffset"]) == record["record"]
        assert record["size"] == len(record["record"])
        ends[queue] = max(ends[queue], record["queueOffset"] + 1)
    assert {(t, q): (low, high) for t, q, low, high in store.queues()} == {
        queue: (0, end) for queue, end in ends.items()
    }


def test_every_record_byte_for_byte(golden, expected, sizes):
    with opened(golden / "store", **sizes) as store:
        check_records(store, expected)
        for queue in {(r["topic"], r["queueId"]) for r in expected["records"]}:
            whole, offset = b"", 0
            while offset < store.queue_range(*queue)[1]:
                result = store.get(*queue, offset)
                whole, offset = whole + data(result), result.next_offset
            assert whole == b"".join(
                r["record"] for r in expected["records"] if (r["topic"], r["queueId"]) == queue
            )


def test_answers_of_the_broker_name_places_in_the_log(golden, expected, sizes):
    with opened(golden / "store", **sizes) as store:
        for send in expected["sends"]:
            ids = send["msgId"].split(",")
            assert len(ids) == send["n"]
            for n, message_id in enumerate(ids):
                raw = store.record_at(int(message_id[16:], 16))
                assert raw is not None
                record = decode_record(raw)
                assert record.offset_msg_id == message_id
                assert record.queue_offset == send["queueOffset"] + n


def test_tag_codes_of_the_entries(golden, expected, sizes):
    for record in expected["records"]:
        entry = queue_entries(golden / "store", record["topic"], record["queueId"])[
            record["queueOffset"]
        ]
        properties = decode_record(record["record"]).properties
        if record["topic"] == SCHEDULE:
            code = decode_record(record["record"]).store_timestamp + DELAYS_MS[properties["DELAY"]]
        else:
            code = java_hash(properties["TAGS"]) if "TAGS" in properties else 0
        assert entry == (record["physicalOffset"], record["size"], code)


def test_reading_by_tag(golden, expected, sizes):
    wanted = defaultdict(list)
    for record in expected["records"]:
        tag = decode_record(record["record"]).properties.get("TAGS")
        if tag and record["topic"] == "Golden" and record["queueId"] == 0:
            wanted[tag].append(record["record"])
    assert len(wanted) > 1
    with opened(golden / "store", **sizes) as store:
        for tag, records in wanted.items():
            result = store.get("Golden", 0, 0, 256, tags=array("i", [java_hash(tag)]))
            assert data(result) == b"".join(records)[: result.nbytes]
            assert result.count == min(len(records), 32)


def test_a_clean_reopening_changes_no_file_of_log_and_queues(golden, expected, sizes):
    root = golden / "store"
    log, queues = contents(root / "commitlog"), contents(root / "consumequeue")
    for _ in range(2):
        with opened(root, **sizes):
            assert (root / "abort").exists()
        assert not (root / "abort").exists()
        assert contents(root / "commitlog") == log
        assert contents(root / "consumequeue") == queues
    with opened(root, **sizes) as store:
        check_records(store, expected)


@pytest.mark.parametrize(
    ("lost", "checkpoint"),
    [
        ("nothing", True),
        ("nothing", False),
        ("all queues", True),
        ("all queues", False),
        ("one topic", False),
        ("one queue", False),
    ],
)
def test_rebuilt_queues_are_those_of_java(golden, expected, sizes, lost, checkpoint):
    """After a kill. As with RocketMQ, a checkpoint vouches for single queues of older files."""
    root = golden / "store"
    queues = contents(root / "consumequeue")
    folder = {
        "all queues": root / "consumequeue",
        "one topic": root / "consumequeue" / "Golden",
        "one queue": root / "consumequeue" / "Golden" / "2",
    }.get(lost)
    if folder:
        shutil.rmtree(folder)
    if not checkpoint:
        (root / "checkpoint").unlink()
    (root / "abort").write_text("4711")
    with opened(root, **sizes) as store:
        check_records(store, expected)
    assert contents(root / "consumequeue") == queues


def test_all_queues_lost_after_a_clean_stop(golden, expected, sizes):
    root = golden / "store"
    queues = contents(root / "consumequeue")
    shutil.rmtree(root / "consumequeue")
    with opened(root, **sizes) as store:
        check_records(store, expected)
    assert contents(root / "consumequeue") == queues


def test_the_log_goes_on_where_java_stopped(golden, expected, sizes):
    root = golden / "store"
    before = contents(root / "commitlog")
    last = max(expected["records"], key=lambda r: r["physicalOffset"])
    end = last["physicalOffset"] + last["size"]
    with opened(root, **sizes) as store:
        low, high = store.queue_range("Golden", 0)
        phys, size, offset, _ = store.put("Golden", 0, b"from here on", "TAGS\x01ours\x02")
        assert (phys, offset) == (end, high)
        for n in range(200):
            store.put("Golden", n % 4, b"x" * 900)
    for name, raw in before.items():
        kept = contents(root / "commitlog")[name]
        assert kept[: end - int(name)] == raw[: end - int(name)]
    with opened(root, **sizes) as store:
        assert store.queue_range("Golden", 0) == (low, high + 51)
        assert bodies(store, "Golden")[high] == b"from here on"
        raw = store.record_at(phys)
        assert raw is not None
        assert len(raw) == size
        for record in expected["records"]:
            assert store.record_at(record["physicalOffset"]) == record["record"]
