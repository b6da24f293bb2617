"""Files of every format as Apache RocketMQ 5.3.3 wrote them, decoded to expected values.

What is decoded here is decoded without the product: these tests establish what the formats are.
test_golden_formats_engine.py has our engine read, rebuild and continue the same stores.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyrmq.net import fastjson
from tests.store.golden_formats import (
    BATCH_FILE,
    LONG_RETRY,
    SCHEDULE,
    STORES,
    index_keys,
    key_hash,
    read_batch_queue,
    read_indexes,
    read_log,
    read_queue,
    read_units,
    split_inner,
    tags_code,
    unpack,
)
from tests.support.records import MAGIC_V1, MAGIC_V2, Record, crc31, parse_message_id

BITS_OF_SQL_GROUP = (9, 77, 33)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def expected(root: Path) -> dict[str, Any]:
    return unpack(root)


def by_offset(root: Path) -> dict[int, Record]:
    return {record.physical_offset: record for record in read_log(root)[0]}


def test_log_of_a_broker(root, expected):
    """Every send stands where the broker's answer says, with what the client sent."""
    records = by_offset(root / "broker")
    sent = 0
    for send in expected["broker"]["sends"]:
        ids = send["msgId"].split(",")
        if send["topic"] == "Inner":
            assert len(ids) == 1
            continue
        for at, (message_id, message) in enumerate(zip(ids, send["messages"], strict=True)):
            host, offset = parse_message_id(message_id)
            record = records[offset]
            assert record.magic == MAGIC_V1
            assert record.store_host == host
            assert record.body == base64.b64decode(message["body"])
            assert message["properties"].items() <= record.properties.items()
            assert record.prepared_offset == record.reconsume_times == 0
            sent += 1
            if len(ids) == 1:
                assert (record.flag, record.born_timestamp) == (7, 1700000000123)
            if "DELAY" in message["properties"]:
                level = int(message["properties"]["DELAY"])
                assert (record.topic, record.queue_id) == (SCHEDULE, level - 1)
                assert record.properties["REAL_TOPIC"] == send["topic"]
                assert record.properties["REAL_QID"] == str(send["queueId"])
            else:
                assert (record.topic, record.queue_id) == (send["topic"], send["queueId"])
                assert record.queue_offset == send["queueOffset"] + at
    assert sent == 19


def test_what_the_official_client_read(root, expected):
    """Each message as a consumer got it is the record at its place in the log."""
    records = by_offset(root / "broker")
    inner = 0
    for line in expected["broker"]["read"]:
        record, body = records[line["commitLogOffset"]], base64.b64decode(line["body"])
        assert (record.topic, record.queue_id) == (line["topic"], line["queueId"])
        assert record.store_timestamp == line["storeTimestamp"]
        if record.sys_flag & 0x80:
            at = line["queueOffset"] - record.queue_offset
            assert list(split_inner(record.body))[at] == (
                body,
                {"TAGS": "InBatch", "at": str(at)},
            )
            inner += 1
        else:
            plain = zlib.decompress(record.body) if record.sys_flag & 1 else record.body
            assert plain == body
            assert record.queue_offset == line["queueOffset"]
            assert record.reconsume_times == line["reconsumeTimes"]
            assert record.properties.get("TAGS") == line.get("tags")
            assert record.properties.get("KEYS") == line.get("keys")
    assert inner == 12
    assert len(expected["broker"]["read"]) == 16 + 2 + 12 + 1


def test_ends_of_log_files(root):
    """A record that leaves less than 8 bytes does not fit; the rest of the file is marked."""
    records, blanks = read_log(root / "broker")
    assert len(blanks) >= 1
    places = {record.physical_offset: record for record in records}
    for blank in blanks:
        end = blank.position + blank.size
        assert end % 4096 == 0
        assert blank.untouched
        assert places[end].size + 8 > blank.size
    assert sum(r.size for r in records) + sum(b.size for b in blanks) == (
        records[-1].physical_offset + records[-1].size
    )


def test_long_topics_are_v2(root, expected):
    records = read_log(root / "broker")[0]
    (retry,) = [r for r in records if r.topic == LONG_RETRY]
    assert len(LONG_RETRY) == 162
    assert retry.magic == MAGIC_V2
    assert retry.reconsume_times == 1
    assert retry.properties["RETRY_TOPIC"] == "Plain"
    first = records[0]
    assert retry.body == first.body
    assert retry.properties["ORIGIN_MESSAGE_ID"] == first.offset_msg_id
    assert {r.magic for r in records if r.topic != LONG_RETRY} == {MAGIC_V1}


def test_hosts_of_both_families(root, expected):
    """sysFlag 0x10 and 0x20 say that the born and the store host have 16 bytes."""
    found = [r for r in read_log(root / "direct")[0] if r.topic == "Hosts"]
    four, six = ("192.0.2.1", 40001), ("2001:db8::17", 40002)
    assert [r.born_host for r in found] == [four, six, four, six]
    assert [r.store_host[0] for r in found] == ["127.0.0.1", "127.0.0.1", "::1", "::1"]
    assert {r.store_host[1] for r in found} == {10911}
    assert [r.sys_flag for r in found] == [0, 0x10, 0x20, 0x30]
    assert [r.size - found[0].size for r in found] == [0, 12, 12, 24]
    told = [put for put in expected["direct"]["puts"] if put["topic"] == "Hosts"]
    assert [r.offset_msg_id for r in found] == [put["msgId"] for put in told]
    over_v6 = [r for r in read_log(root / "broker")[0] if r.born_host[0] == "::1"]
    assert [r.body for r in over_v6] == [b"over IPv6"]


@pytest.mark.parametrize("store", ["direct", "crc"])
def test_records_put_directly(root, expected, store):
    records = by_offset(root / store)
    puts = expected[store]["puts"]
    assert len(records) == len(puts) == 8
    half = puts[4]["physicalOffset"]
    for put in puts:
        record, number = records[put["physicalOffset"]], put["number"]
        assert record.size == put["size"]
        assert record.topic == put["topic"]
        assert record.body == f"number {number}".encode()
        assert record.flag == number * 1000
        assert record.born_timestamp == 1_700_000_000_000 + number
        assert record.store_timestamp == put["storeTimestamp"]
        assert record.reconsume_times == number % 3
        assert record.queue_offset == put["queueOffset"]
        assert record.prepared_offset == (half if number in (6, 7) else 0)
        assert record.properties_raw.startswith(put["properties"].encode())
        assert record.sys_flag & 0xC == {5: 4, 6: 8, 7: 12}.get(number, 0)


def test_checksum_among_the_properties(root):
    """The last 20 bytes of a record: crc31 of what stands before them, digits in reverse."""
    data = (root / "crc" / "commitlog" / ("0" * 20)).read_bytes()
    for record in read_log(root / "crc")[0]:
        raw = data[record.physical_offset :][: record.size]
        digits = str(crc31(raw[:-20]))[::-1].ljust(10, "0")
        assert raw[-20:] == f"__CRC32#\x01{digits}\x02".encode()
    assert "__CRC32#" not in read_log(root / "direct")[0][0].properties


@pytest.mark.parametrize("store", ["direct", "crc"])
def test_queue_entries(root, store):
    """Prepared and rolled-back messages are in no queue."""
    expect = defaultdict(list)
    for record in read_log(root / store)[0]:
        if record.sys_flag & 0xC in (0, 8):
            entry = (record.physical_offset, record.size, tags_code(record))
            expect[record.topic].append(entry)
    assert read_queue(root / store, "Hosts", 0) == expect["Hosts"]
    assert read_queue(root / store, "Types", 0) == expect["Types"]
    assert (len(expect["Hosts"]), len(expect["Types"])) == (4, 2)


def test_queue_entries_with_extension(root, expected):
    """With an extension file the tag code is an address; what stood there stands in the unit."""
    expect: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in read_log(root / "broker")[0]:
        if record.topic != "Inner":
            expect[record.topic, record.queue_id].append(record)
    assert len(expect["Plain", 0]) == 16
    for queue, records in expect.items():
        entries = read_queue(root / "broker", *queue)
        units = read_units(root / "broker", *queue)
        assert [(e.physical_offset, e.size) for e in entries] == [
            (r.physical_offset, r.size) for r in records
        ]
        assert [r.queue_offset for r in records] == list(range(len(records)))
        assert [e.tags_code for e in entries] == list(units)
        for record, unit in zip(records, units.values(), strict=True):
            assert unit.store_time == record.store_timestamp
            assert unit.tags_code == code_of(record)
            assert unit.bitmap == bits_of(record)
    assert len(list((root / "broker" / "consumequeue_ext" / "Plain" / "0").iterdir())) == 4


def code_of(record: Record) -> int:
    """Of a parked message it is the time when it comes due."""
    if record.topic == SCHEDULE:
        delay = {"1": 1_000, "18": 7_200_000}[record.properties["DELAY"]]
        return record.store_timestamp + delay
    return tags_code(record)


def bits_of(record: Record) -> bytes:
    """The group that wants `number > 3` of Plain has three bits of 112 [BitsArray: bit n is bit
    n mod 8 of byte n / 8]; topics without such groups have no bitmap."""
    if record.topic != "Plain":
        return b""
    bits = bytearray(14)
    if int(record.properties.get("number", "0")) > 3:
        for bit in BITS_OF_SQL_GROUP:
            bits[bit // 8] |= 1 << bit % 8
    return bytes(bits)


def test_batch_queue_entries(root):
    """One entry a batch: [BatchConsumeQueue]. Files are named by bytes, not by messages."""
    batches = [r for r in read_log(root / "broker")[0] if r.topic == "Inner"]
    for n, record in enumerate(batches):
        assert record.sys_flag == 0xC0
        assert record.queue_offset == 3 * n
        assert record.properties["INNER_NUM"] == "3"
        assert record.properties["INNER_BASE"] == str(3 * n)
    assert read_batch_queue(root / "broker", "Inner", 0) == [
        (r.physical_offset, r.size, tags_code(r), r.store_timestamp, r.queue_offset, 3, -1, 0)
        for r in batches
    ]
    assert len(batches) == 4 > BATCH_FILE // 46


@pytest.mark.parametrize("store", STORES)
def test_index_files(root, store):
    """Entries in order of the log, each key once a record; a file that is full is followed."""
    records = read_log(root / store)[0]
    expect = [
        (key_hash(r.topic, key), r.physical_offset, r.store_timestamp)
        for r in records
        for key in index_keys(r)
    ]
    indexes = read_indexes(root / store, store)
    entries = [(index, entry) for index in indexes for entry in index.written()]
    assert [(e.key_hash, e.physical_offset) for _, e in entries] == [e[:2] for e in expect]
    assert [index.full for index in indexes] == [True] * (len(indexes) - 1) + [False]
    assert len(indexes) > 1
    times = {r.physical_offset: r.store_timestamp for r in records}
    since = 0
    for index in indexes:
        written = index.written()
        first, last = written[0].physical_offset, written[-1].physical_offset
        assert (index.begin_time, index.end_time) == (times[first], times[last])
        # The first entry of all has neither a place nor a time before it.
        assert (index.begin_offset, index.end_offset) == (first, last)
        # Of a later file the first entry is timed by the end of the file before.
        for number, entry in enumerate(written):
            base = since if number == 0 and since else index.begin_time
            assert entry.time_diff == (times[entry.physical_offset] - base) // 1000
        since = index.end_time


@pytest.mark.parametrize("store", STORES)
def test_index_chains(root, store):
    indexes = read_indexes(root / store, store)
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in read_log(root / store)[0]:
        for key in index_keys(record):
            holders[record.topic, key].append(record.physical_offset)
    for (topic, key), offsets in holders.items():
        found = [offset for index in indexes for offset in index.find(topic, key)]
        assert sorted(found) == offsets
    assert not any(index.find("Plain", "no such key") for index in indexes)
    for index in indexes:
        assert index.used_slots == sum(slot > 0 for slot in index.slots)
        assert max(index.slots) == index.next_entry - 1


def test_keys_that_the_official_client_found(root, expected):
    records = by_offset(root / "broker")
    indexes = read_indexes(root / "broker", "broker")
    asked = expected["broker"]["byKey"]
    assert [len(found) for found in asked.values()] == [1, 1, 6, 0]
    for key, found in asked.items():
        offsets = [offset for index in indexes for offset in index.find("Plain", key)]
        assert sorted([records[o].queue_id, records[o].queue_offset] for o in offsets) == found


@pytest.mark.parametrize("store", STORES)
def test_checkpoint(root, store):
    data = (root / store / "checkpoint").read_bytes()
    assert len(data) == 4096
    physic, logics, index, flushed, confirmed = struct.unpack_from(">qqqqq", data)
    records = read_log(root / store)[0]
    # Of the last timed flush: a clean stop does not always bring it to the end of the log.
    assert physic in {r.store_timestamp for r in records}
    assert logics == max(r.store_timestamp for r in records if r.sys_flag & 0xC in (0, 8))
    assert index == read_indexes(root / store, store)[-2].end_time, "the last full file's"
    assert (flushed, confirmed) == (0, 0)
    assert not any(data[40:])


def test_lock(root):
    assert (root / "broker" / "lock").read_bytes() == b"lock"


def test_configuration_files(root, expected):
    """Integer keys stand without quotes; each file has a `.bak` of the same kind."""
    folder = root / "broker" / "config"
    found = {}
    for path in folder.glob("*.json"):
        found[path.stem] = fastjson.loads_object(path.read_bytes())
        backup = path.with_name(path.name + ".bak")
        assert fastjson.loads_object(backup.read_bytes()).keys() == found[path.stem].keys()
    assert set(found) == {
        "topics", "subscriptionGroup", "consumerOffset", "consumerFilter", "consumerOrderInfo",
        "delayOffset",
    }  # fmt: skip
    told = expected["broker"]["config"]
    table = found["topics"]["topicConfigTable"]
    assert {name: table[name] for name in told["topics"]} == told["topics"]
    assert table["Inner"]["attributes"] == {"queue.type": "BatchCQ"}
    groups = found["subscriptionGroup"]["subscriptionGroupTable"]
    assert {name: groups[name] for name in told["groups"]} == told["groups"]
    assert found["consumerOffset"]["offsetTable"] == {"Plain@HALF": {0: 6}}
    assert found["delayOffset"]["offsetTable"] == {1: 2, 18: 0}
    assert b"{1:2,18:0" in (folder / "delayOffset.json").read_bytes()
    filters = found["consumerFilter"]["filterDataByTopic"]["Plain"]["groupFilterData"]["SQL"]
    assert filters["expression"] == expected["broker"]["sql"]["expression"]
    assert filters["bloomFilterData"] == {"bitNum": 112, "bitPos": list(BITS_OF_SQL_GROUP)}
    assert found["consumerOrderInfo"] == {"table": {}}
    for value in (found["topics"], found["subscriptionGroup"], found["delayOffset"]):
        assert set(value["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
