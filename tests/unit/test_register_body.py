"""Bodies of REGISTER_BROKER: plain, compressed, damaged, hostile."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import pytest

from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.topic import DataVersion, TopicConfig
from pyrmq.namesrv import register_body
from pyrmq.namesrv.register_body import check_crc, parse
from pyrmq.net import fastjson

VERSION = DataVersion(1700000000000, 5, 2)
TOPICS = {
    "T": TopicConfig("T", 4, 8, 6),
    "U": TopicConfig("U", 1, 2, 4, "MULTI_TAG", attributes={"a": "b c"}),
}
LINES = ["T 4 8 6 SINGLE_TAG ", 'U 1 2 4 MULTI_TAG {"a":"b c"}']


def piece(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def pieces(lines: list[str], version: str | None = None) -> bytes:
    """The pieces of the compressed form, not compressed."""
    head = piece(fastjson.dumps(VERSION.to_json()).decode() if version is None else version)
    return head + struct.pack(">i", len(lines)) + b"".join(map(piece, lines)) + piece("[]")


def plain(topics: dict[str, TopicConfig]) -> bytes:
    wrapper = {
        "dataVersion": VERSION.to_json(),
        "topicConfigTable": {n: t.to_json() for n, t in topics.items()},
    }
    return fastjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def test_plain() -> None:
    assert parse(plain(TOPICS)) == (TOPICS, VERSION)


@pytest.mark.parametrize("level", [1, 6, 9])
def test_compressed(level: int) -> None:
    body = zlib.compress(pieces(LINES), level)
    assert parse(body) == (TOPICS, VERSION)


def test_a_newer_brokers_fourth_piece_is_not_needed() -> None:
    mappings = struct.pack(">i", 1) + piece('{"topic":"T"}')
    assert parse(zlib.compress(pieces(LINES) + mappings)) == (TOPICS, VERSION)


def test_nothing() -> None:
    assert parse(b"") == ({}, DataVersion())
    assert parse(b"{}") == ({}, DataVersion())
    assert parse(zlib.compress(pieces([]))) == ({}, VERSION)


def test_a_wrapper_without_its_body() -> None:
    """As 3.x brokers send it."""
    body = fastjson.loads(plain(TOPICS))["topicConfigSerializeWrapper"]
    assert parse(fastjson.dumps(body)) == (TOPICS, VERSION)


def test_parts_of_a_wrong_kind() -> None:
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1,"U":{}},"dataVersion":[]}}'
    assert parse(body) == ({"U": TopicConfig("U")}, DataVersion())
    assert parse(b'{"topicConfigSerializeWrapper":5}') == ({}, DataVersion())


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"\0\0", b"\x1f\x8b\x08"])
def test_no_body_at_all(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(body)


@pytest.mark.parametrize("line", ["", "T", "T 1 2 6", "T 1 2 6 SINGLE_TAG {", "T 1 2 6 S [1"])
def test_bad_lines(line: str) -> None:
    with pytest.raises(ProtocolError):
        parse(zlib.compress(pieces([line])))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        piece("{}"),
        piece("{}") + struct.pack(">i", -5),
        piece("{}") + struct.pack(">i", (1 << 31) - 1),
        piece("{}") + struct.pack(">i", 1) + struct.pack(">i", 100) + b"T 1",
        piece("no json {") + struct.pack(">i", 0),
    ],
)
def test_damaged_pieces(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(zlib.compress(data))


def test_every_cut_of_the_pieces_is_noticed() -> None:
    """Up to the end of the topics; what comes behind them is not read."""
    data = pieces(LINES)
    for size in range(len(data) - len(piece("[]"))):
        with pytest.raises(ProtocolError):
            parse(zlib.compress(data[:size]))


def test_damaged_stream() -> None:
    body = bytearray(zlib.compress(pieces(LINES)))
    body[10] ^= 0xFF
    with pytest.raises(ProtocolError):
        parse(bytes(body))
    with pytest.raises(ProtocolError):
        parse(b"x")


def test_a_zip_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds for the memory, not just for the answer."""
    monkeypatch.setattr(register_body, "MAX_PLAIN", 1 << 16)
    bomb = zlib.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="more than 65536 bytes"):
            parse(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_a_body_of_the_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pieces(LINES)
    monkeypatch.setattr(register_body, "MAX_PLAIN", len(data))
    assert parse(zlib.compress(data)) == (TOPICS, VERSION)


def test_crc() -> None:
    body = b"x1"
    assert zlib.crc32(body) & 0x80000000, "a body whose CRC has the sign bit is wanted"
    crc = zlib.crc32(body) & 0x7FFFFFFF
    check_crc(body, crc)
    check_crc(body, 0)
    for wrong in (crc + 1, -1, zlib.crc32(body)):
        with pytest.raises(ResponseError) as caught:
            check_crc(body, wrong)
        assert caught.value.code == 1
