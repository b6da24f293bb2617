"""Property strings, records and batches of messages."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.errors import MessageIllegalError, ProtocolError
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.properties import (
    MAX_PROPERTIES,
    decode_properties,
    encode_properties,
    split_keys,
)
from pyrmq.model.record import decode_record, decode_records, encode_batch
from tests.support import records

_PART = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)

# The worked record of the storage sheet, section 13.
V1 = bytes.fromhex(
    "000000b4daa320a769c865ed000000030000000000000000000000050000000000000400000000000000018b"
    "cfe568007f0000010000d4310000018bcfe56805c0a8010a00002a9f000000000000000000000000"
    "0000000e48656c6c6f20526f636b65744d5109546f706963546573740042"
    "4b455953016f726465722d3432025441475301546167410"
    "2554e49515f4b455901433041383031304131463930313842344141433234374237363030303030303002"
)
SAMPLE = records.Record(
    size=0,
    magic=records.MAGIC_V2,
    body_crc=0,
    queue_id=7,
    flag=-3,
    queue_offset=1 << 40,
    physical_offset=1 << 41,
    sys_flag=0x4,
    born_timestamp=1700000000000,
    born_host=("10.0.0.1", 40000),
    store_timestamp=1700000000005,
    store_host=("10.0.0.2", 10911),
    reconsume_times=2,
    prepared_offset=99,
    body="bödy".encode(),
    topic="T" * 200,
    properties_raw=b"TAGS\x01TagA\x02KEYS\x01a  b\x02",
)


def reject(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(decode_records(data))


@given(st.dictionaries(_PART, _PART))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert text == records.encode_properties(properties)
    assert decode_properties(text) == properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b", {"a": "b"}),  # the last end mark may be missing
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),  # the first 0x01 splits
        ("a\x01\x02b\x01c\x02", {"b": "c"}),  # an empty value is none
        ("\x01b\x02c\x01d\x02", {"c": "d"}),  # so is an empty name
        ("ab\x02c\x01d\x02", {"c": "d"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),  # the later one wins
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
    ],
)
def test_java_reading_rules(text: str, expected: dict[str, str]) -> None:
    assert decode_properties(text) == expected


@given(st.text("ab\x01\x02"))
def test_reading_agrees_with_the_second_opinion(text: str) -> None:
    assert decode_properties(text) == records.decode_properties(text)


@pytest.mark.parametrize(
    "properties", [{"": "x"}, {"a\x01": "x"}, {"a": "x\x02"}, {"a\x02": "x"}, {"a": "\x01"}]
)
def test_properties_that_cannot_be_written(properties: dict[str, str]) -> None:
    with pytest.raises(MessageIllegalError) as caught:
        encode_properties(properties)
    assert caught.value.code == 13


def test_property_limit_counts_bytes() -> None:
    fits = {"k": "ä" * ((MAX_PROPERTIES - 3) // 2)}
    assert len(encode_properties(fits).encode()) == MAX_PROPERTIES
    with pytest.raises(MessageIllegalError):
        encode_properties({"k": fits["k"] + "a"})


def test_empty_values_are_not_written() -> None:
    assert encode_properties({"a": "", "b": "c"}) == "b\x01c\x02"


def test_all_properties() -> None:
    message = Message("T", b"", "TagA", ["k1", "k2"], wait_store_ok=False, properties={"u": "v"})
    assert message.all_properties() == {
        "u": "v", "WAIT": "false", "TAGS": "TagA", "KEYS": "k1 k2"
    }  # fmt: skip
    assert message.properties == {"u": "v"}
    assert Message("T", b"").all_properties() == {"WAIT": "true"}


def test_worked_record() -> None:
    m = decode_record(memoryview(V1))
    assert (m.topic, m.body, m.queue_id, m.queue_offset) == ("TopicTest", b"Hello RocketMQ", 3, 5)
    assert (m.commit_log_offset, m.store_size, m.body_crc) == (1024, 180, 0x69C865ED)
    assert (m.born_timestamp, m.born_host) == (1700000000000, "127.0.0.1:54321")
    assert (m.store_timestamp, m.store_host) == (1700000000005, "192.168.1.10:10911")
    assert (m.flag, m.sys_flag, m.reconsume_times, m.prepared_transaction_offset) == (0, 0, 0, 0)
    unique = "C0A8010A1F9018B4AAC247B760000000"
    assert m.properties == {"KEYS": "order-42", "TAGS": "TagA", "UNIQ_KEY": unique}
    assert (m.tags, m.keys, m.msg_id) == ("TagA", ["order-42"], unique)
    assert m.offset_msg_id == "C0A8010A00002A9F0000000000000400"


@pytest.mark.parametrize("magic", [records.MAGIC_V1, records.MAGIC_V2])
@pytest.mark.parametrize("born_v6", [False, True])
@pytest.mark.parametrize("store_v6", [False, True])
def test_record_forms(magic: int, born_v6: bool, store_v6: bool) -> None:
    sample = replace(
        SAMPLE,
        magic=magic,
        topic="T" * 127,
        sys_flag=born_v6 * 0x10 | store_v6 * 0x20,
        born_host=("2001:db8::1" if born_v6 else "10.0.0.1", 1),
        store_host=("2001:db8::2" if store_v6 else "10.0.0.2", 2),
    )
    data = records.encode_record(sample)
    m = decode_record(memoryview(data + b"more"))
    assert m.store_size == len(data)
    assert (m.topic, m.body, m.flag, m.queue_offset) == ("T" * 127, sample.body, -3, 1 << 40)
    assert m.born_host == ("[2001:db8::1]:1" if born_v6 else "10.0.0.1:1")
    assert m.store_host == ("[2001:db8::2]:2" if store_v6 else "10.0.0.2:2")
    assert m.offset_msg_id == records.decode_record(data).offset_msg_id
    assert m.keys == ["a", "b"]
    assert m.msg_id == m.offset_msg_id  # no UNIQ_KEY


def test_records_back_to_back() -> None:
    data = V1 + records.encode_record(SAMPLE) + V1
    assert [m.queue_offset for m in decode_records(data)] == [5, 1 << 40, 5]
    assert list(decode_records(b"")) == []


@pytest.mark.parametrize("cut", [1, 4, 47, 90, 120, 179])
def test_cut_records(cut: int) -> None:
    reject(V1[:cut])
    reject(V1 + V1[:cut])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 181), (0, 179), (0, 1 << 30), (0, 0), (0, -1),
        (4, 0), (84, -1), (84, -100), (84, 1 << 30), (84, 15),
    ],
)  # fmt: skip
def test_records_with_wrong_lengths(at: int, value: int) -> None:
    damaged = bytearray(V1)
    struct.pack_into(">i", damaged, at, value)
    reject(bytes(damaged) + V1)


def test_a_record_may_not_state_to_be_empty() -> None:
    """A negative property length that makes up for everything read: reading must not stand still
    at a record of size 0."""
    hollow = bytearray(91)
    struct.pack_into(">iI", hollow, 0, 0, records.MAGIC_V1)
    struct.pack_into(">h", hollow, 89, -91)
    reject(bytes(hollow))


_HOST = st.tuples(st.sampled_from(["10.0.0.1", "0.0.0.0", "255.1.2.3"]), st.integers(0, 65535))
_RECORD = st.builds(
    partial(replace, SAMPLE),
    magic=st.sampled_from([records.MAGIC_V1, records.MAGIC_V2]),
    queue_id=st.integers(0, 2**31 - 1),
    queue_offset=st.integers(0, 2**63 - 1),
    physical_offset=st.integers(0, 2**62),
    born_timestamp=st.integers(0, 2**62),
    born_host=_HOST,
    store_host=_HOST,
    body=st.binary(max_size=300),
    topic=st.sampled_from(["T", "U" * 127]),
    properties_raw=st.lists(st.tuples(_PART, _PART), max_size=20).map(
        lambda pairs: "".join(f"{n}\x01{v}\x02" for n, v in pairs).encode()
    ),
)


@given(st.lists(_RECORD, max_size=5))
def test_random_records(written: list[records.Record]) -> None:
    """What messages of one answer share may not become what they do not."""
    found = decode_records(b"".join(map(records.encode_record, written)), broker_name="b")
    assert len(found) == len(written)
    for m, r in zip(found, written, strict=True):
        assert (m.topic, m.body, m.properties) == (r.topic, r.body, r.properties)
        assert (m.queue_id, m.queue_offset, m.flag) == (r.queue_id, r.queue_offset, r.flag)
        assert (m.commit_log_offset, m.offset_msg_id) == (r.physical_offset, r.offset_msg_id)
        assert (m.born_timestamp, m.store_timestamp) == (r.born_timestamp, r.store_timestamp)
        assert m.born_host == "{}:{}".format(*r.born_host)
        assert m.store_host == "{}:{}".format(*r.store_host)
        assert (m.reconsume_times, m.sys_flag) == (r.reconsume_times, r.sys_flag)
        assert (m.prepared_transaction_offset, m.broker_name) == (r.prepared_offset, "b")


@given(_RECORD, st.data())
def test_records_with_a_byte_changed(record: records.Record, data: st.DataObject) -> None:
    """They are a message or a ProtocolError; the one behind is there unless the sizes differ."""
    raw = bytearray(records.encode_record(record))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    faults: list[ProtocolError] = []
    try:
        found = decode_records(bytes(raw) + V1, faults.append)
    except ProtocolError as e:
        assert "sizes do not add up" in str(e)  # noqa: PT017 - either is right
    else:
        same_size = int.from_bytes(raw[:4], "big") == len(raw)
        assert len(found) + len(faults) == 2 or not same_size
        assert found[-1:] == decode_records(V1) or not same_size


@given(st.lists(st.tuples(st.binary(), st.dictionaries(_PART, _PART, max_size=3)), min_size=1))
def test_batch_body(entries: list[tuple[bytes, dict[str, str]]]) -> None:
    encoded = encode_batch([(0, body, encode_properties(p)) for body, p in entries])
    assert encoded == records.encode_batch(entries)


def test_batch_entry_flag() -> None:
    assert encode_batch([(9, b"ab", "p")]).hex() == (
        "00000019" "00000000" "00000000" "00000009" "00000002" "6162" "0001" "70"
    )  # fmt: skip


def test_queue_order_and_json() -> None:
    queues = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("T", "a", 11)]
    assert sorted(queues) == [queues[2], queues[1], queues[0]]
    for queue in queues:
        assert MessageQueue.from_json(queue.to_json()) == queue
    for bad in ({}, {"topic": "T", "brokerName": "b", "queueId": "1"}, {"queueId": 1}):
        with pytest.raises(ProtocolError):
            MessageQueue.from_json(bad)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (None, []),
        ("", []),
        (" ", []),
        ("a", ["a"]),
        (" a  b ", ["a", "b"]),
        ("t\tu", ["t\tu"]),
        ("k\u00a0l\u2003m", ["k\u00a0l\u2003m"]),
        ("订单\u3000张三 x\ny", ["订单\u3000张三", "x\ny"]),
    ],
)
def test_keys_are_separated_by_spaces_alone(text: str | None, keys: list[str]) -> None:
    """As the index takes them. [MessageConst.KEY_SEPARATOR]"""
    assert split_keys(text) == keys
    properties = {} if text is None else {"KEYS": text}
    raw = encode_properties(properties).encode()
    record = replace(SAMPLE, properties_raw=raw)
    assert decode_record(memoryview(records.encode_record(record))).keys == keys
