"""The stores hold what they are meant to: otherwise the other tests prove less than they say."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import pytest

from tests.support.records import MAGIC_V2, Record, decode_record
from tests.system.interop import halves
from tests.system.interop.store import cargo
from tests.system.interop.store.special import INNER, LATER
from tests.system.interop.store.tool import Tool

from .brokers import JAVA_TOPICS
from .material import PACKED, SETTLED, Material
from .rows import assert_same, in_order, narrowed, rows_of

BLANK = 0xCBD43194
ADDED = {"MIN_OFFSET", "MAX_OFFSET", "WAIT"}
"""Properties that the client sets by itself on what it has received."""


def walk(folder: Path) -> list[Record]:
    """Every record of a log, by its lengths alone, up to where nothing is written."""
    found: list[Record] = []
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while at + 8 <= len(data):
            size, magic = int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : at + 8])
            if magic == BLANK or size == 0:
                break
            found.append(decode_record(data, at))
            at += size
    return found


def test_the_log_holds_what_a_restarted_broker_gives_out(material: Material):
    """The killed broker's log, walked by the tests' own codec, against what was pulled."""
    rows = in_order(r for record in walk(material.log) for r in rows_of(record, material.broker))
    assert_same(rows, material.rows, material.broker)


def test_counts_are_those_of_the_queues(material: Material):
    counted = Counter((row["topic"], row["queueId"]) for row in material.rows)
    assert counted == {queue: end - first for queue, (first, end) in material.queues.items()}


def test_every_kind_of_record_is_there(material: Material):
    records = walk(material.log)
    assert len(material.files) > 8
    assert (material.root / "abort").exists()
    topics = Counter(record.topic for record in records)
    assert topics[cargo.MAIN] >= 160
    assert topics[cargo.LOAD] >= 400
    assert topics[PACKED] == 28
    assert {r.sys_flag & 0x701 for r in records if r.topic == PACKED} >= {1, 0x101, 0x201, 0x301}
    assert topics[halves.HALF] == 24
    assert topics[halves.OP] > 0
    settled = [r for r in records if r.topic == SETTLED]
    assert sorted(r.body for r in settled) == [b"%d-%d" % (n, halves.COMMIT) for n in range(8)]
    assert all(r.prepared_offset > 0 for r in settled)
    inner = [r for r in records if r.topic == INNER]
    assert len(inner) == 6
    assert all(r.sys_flag & 0x80 for r in inner)
    assert any(r.magic == MAGIC_V2 for r in records)
    assert any(r.sys_flag & 0x10 for r in records)
    assert any(r.reconsume_times for r in records) or material.broker == "ours"
    if material.broker == "ours":
        assert any(r.sys_flag & 0x20 for r in records)
    else:
        assert topics["SCHEDULE_TOPIC_XXXX"] >= 3
        assert topics[LATER] == 2


def test_the_java_client_received_the_same(material: Material, tool: Tool | None):
    """What was pulled is decoded by these tests; the official client reads the same."""
    if tool is None:
        pytest.skip("no Java to ask")
    names = ["topic", "queueId", "queueOffset", "commitLogOffset", "body", "bornTimestamp",
             "storeTimestamp", "reconsumeTimes", "properties"]  # fmt: skip
    lines = []
    for line in material.java:
        kept = {k: v for k, v in line["properties"].items() if k not in ADDED}
        row = {**line, "properties": kept, "body": base64.b64decode(line["body"])}
        lines.append({"brokerName": material.broker, **{name: row[name] for name in names}})
    expected = [
        {**row, "properties": {k: v for k, v in row["properties"].items() if k not in ADDED}}
        for row in narrowed(material.rows, ["brokerName", *names])
        if row["topic"] in JAVA_TOPICS
    ]
    assert_same(in_order(lines), expected, "the Java client")
