"""Bytes of a record and of its queue entry, computed here from the published layout alone."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from pathlib import Path

import pytest

from pyrmq.engine import Listener, Session
from tests.store.tools import log_file, opened, queue_entries, read_queue
from tests.support.client import SEND_BATCH_MESSAGE, batch_command, send_command
from tests.support.records import encode_properties, java_hash
from tests.support.wire import BINARY, JSON, decode, encode

MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
WORKED_EXAMPLE = (
    "000000b4daa320a769c865ed00000003000000000000000000000005000000000000040000000000"
    "0000018bcfe568007f0000010000d4310000018bcfe56805c0a8010a00002a9f00000000"
    "00000000000000000000000e48656c6c6f20526f636b65744d5109546f70696354657374"
    "00424b455953016f726465722d34320254414753015461674102554e49515f4b455901"
    "433041383031304131463930313842344141433234374237363030303030303002"
)
"""A 180-byte record as RocketMQ's own encoder writes it."""


def host(text: str) -> bytes:
    address, port = text.rsplit(":", 1)
    return ipaddress.ip_address(address.strip("[]")).packed + struct.pack(">i", int(port))


def record_bytes(
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    physical: int,
    stored: int,
    body: bytes,
    properties: bytes = b"",
    *,
    flag: int = 0,
    sys_flag: int = 0,
    born: int = 0,
    born_host: str = "127.0.0.1:0",
    store_host: str = "127.0.0.1:10911",
    reconsumed: int = 0,
    prepared: int = 0,
) -> bytes:
    sys_flag |= 0x10 * born_host.startswith("[") | 0x20 * store_host.startswith("[")
    long = len(topic) > 127
    rest = struct.pack(
        ">IIiiqqiq",
        MAGIC_V2 if long else MAGIC_V1,
        zlib.crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        queue_offset,
        physical,
        sys_flag,
        born,
    )
    rest += host(born_host) + struct.pack(">q", stored) + host(store_host)
    rest += struct.pack(">iqi", reconsumed, prepared, len(body)) + body
    rest += struct.pack(">h" if long else ">b", len(topic)) + topic
    rest += struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", len(rest) + 4) + rest


def test_the_second_opinion_knows_the_worked_example():
    properties = b"KEYS\x01order-42\x02TAGS\x01TagA\x02UNIQ_KEY\x01" + (
        b"C0A8010A1F9018B4AAC247B760000000\x02"
    )
    made = record_bytes(
        b"TopicTest", 3, 5, 1024, 1_700_000_000_005, b"Hello RocketMQ", properties,
        born=1_700_000_000_000, born_host="127.0.0.1:54321", store_host="192.168.1.10:10911",
    )  # fmt: skip
    assert made.hex() == WORKED_EXAMPLE


LONG_TOPIC = "%RETRY%" + "g" * 248


@pytest.mark.parametrize(
    ("topic", "hosts"),
    [
        ("T", ("127.0.0.1:0", "127.0.0.1:10911")),
        ("T", ("[2001:db8::7]:4000", "127.0.0.1:10911")),
        ("T", ("10.0.0.1:4000", "[2001:db8::1]:10911")),
        ("t" * 127, ("[::1]:65535", "[2001:db8::1]:10911")),
        ("%RETRY%" + "g" * 121, ("127.0.0.1:1", "127.0.0.1:10911")),
        (LONG_TOPIC, ("127.0.0.1:1", "127.0.0.1:10911")),
        (LONG_TOPIC, ("[2001:db8::7]:1", "[2001:db8::1]:10911")),
    ],
)
def test_record_and_entry_bytes(tmp_path: Path, topic: str, hosts: tuple[str, str]):
    born_host, store_host = hosts
    properties = encode_properties({"TAGS": "TagÄ😀", "KEYS": "k"})
    where = 0
    expected = b""
    with opened(tmp_path, store_host=store_host) as store:
        for n, body in enumerate([b"one", bytes(range(256)) * 3, b""]):
            phys, size, offset, stored = store.put(
                topic, 7, body, properties, flag=-n, sys_flag=0x301, born_timestamp=2**40 + n,
                born_host=born_host, reconsume_times=n, prepared_transaction_offset=n * 2**33,
            )  # fmt: skip
            raw = record_bytes(
                topic.encode(), 7, n, where, stored, body, properties.encode(), flag=-n,
                sys_flag=0x301, born=2**40 + n, born_host=born_host, store_host=store_host,
                reconsumed=n, prepared=n * 2**33,
            )  # fmt: skip
            assert (phys, size, offset) == (where, len(raw), n)
            assert store.record_at(where) == raw
            expected += raw
            where += size
            entries = queue_entries(tmp_path, topic, 7)
            assert entries[n] == (phys, size, java_hash("TagÄ😀"))
        assert [r.topic for r in read_queue(store, topic, 7)] == [topic] * 3
    assert log_file(tmp_path).read_bytes() == expected.ljust(64 * 1024, b"\0")
    with opened(tmp_path, store_host=store_host) as store:
        assert len(read_queue(store, topic, 7)) == 3


def test_the_sysflag_bits_of_hosts_are_the_stores_own(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 0, b"b", sys_flag=0x30)
        assert read_queue(store, "T", 0)[0].sys_flag == 0


def test_an_ipv4_address_in_ipv6_clothes_is_stored_as_ipv4(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 0, b"b", born_host="[::ffff:10.1.2.3]:77")
        assert read_queue(store, "T", 0)[0].born_host == ("10.1.2.3", 77)


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("TAGS\x01TagA\x02", 2598919),
        ("TAGS\x01CANCELLED\x02", -1031784143),
        ("TAGS\x01a\x02TAGS\x01TagA\x02", 2598919),
        ("TAGS\x01TagA", 2598919),
        ("TAGS\x01\x02", 0),
        ("XTAGS\x01a\x02", 0),
        ("", 0),
    ],
)
def test_tag_code_of_an_entry(tmp_path: Path, properties: str, code: int):
    with opened(tmp_path) as store:
        _, size, *_ = store.put("T", 0, b"b", properties)
        raw = (tmp_path / "consumequeue/T/0/00000000000000000000").read_bytes()[:20]
        assert raw == struct.pack(">qiq", 0, size, code)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("store_host", ["192.168.1.10:10911", "[2001:db8::1]:10911"])
def test_offset_message_ids_of_a_reply(tmp_path: Path, serialize: int, store_host: str):
    prefix = host(store_host)
    with opened(tmp_path, store_host=store_host) as store:
        store.set_topic("T", read_queues=4, write_queues=4)
        listener = Listener(store.native)
        session = Session(listener, ipaddress.ip_address("2001:db8::9").packed, 5555)
        starts = []
        commands = [
            send_command("T", b"one", queue_id=1, serialize=serialize),
            batch_command("T", [(b"a", {}), (b"b", {})], queue_id=1, serialize=serialize),
        ]
        assert commands[1].code == SEND_BATCH_MESSAGE
        for command in commands:
            reply = session.feed_bytes(encode(command), 0)
            assert reply is not None
            starts += decode(reply).ext["msgId"].split(",")
        records = read_queue(store, "T", 1)
        assert [r.born_host for r in records] == [("2001:db8::9", 5555)] * 3
        assert starts == [
            (prefix + struct.pack(">q", r.physical_offset)).hex().upper() for r in records
        ]
        assert {len(message_id) for message_id in starts} == {32 if len(prefix) == 8 else 56}
