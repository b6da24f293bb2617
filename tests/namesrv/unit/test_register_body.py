"""Bodies of REGISTER_BROKER: plain, compressed, damaged, hostile."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import pytest

from pyrmq.errors import InvalidParameterError, ProtocolError, ResponseError
from pyrmq.model.topic import DataVersion, TopicConfig
from pyrmq.namesrv import register_body
from pyrmq.namesrv.register_body import MAX_REST, MAX_ROW, Queues, check_crc, read
from pyrmq.net import fastjson
from pyrmq.net.server.turns import finish

VERSION = DataVersion(1700000000000, 5, 2)
CONFIGS = {
    "T": TopicConfig("T", 4, 8, 6),
    "U": TopicConfig("U", 1, 2, 4, "MULTI_TAG", attributes={"a": "b c"}),
}
TOPICS = {"T": (4, 8, 6, 0), "U": (1, 2, 4, 0)}
LINES = ["T 4 8 6 SINGLE_TAG ", 'U 1 2 4 MULTI_TAG {"a":"b c"}']


def piece(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def pieces(lines: list[str], version: str | None = None) -> bytes:
    """The pieces of the compressed form, not compressed."""
    head = piece(fastjson.dumps(VERSION.to_json()).decode() if version is None else version)
    return head + struct.pack(">i", len(lines)) + b"".join(map(piece, lines)) + piece("[]")


def parse(body: bytes) -> tuple[dict[str, Queues], DataVersion]:
    found = finish(read(body))
    return found.topics, found.version


def plain(topics: dict[str, TopicConfig]) -> bytes:
    wrapper = {
        "dataVersion": VERSION.to_json(),
        "topicConfigTable": {n: t.to_json() for n, t in topics.items()},
    }
    return fastjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def test_plain() -> None:
    assert parse(plain(CONFIGS)) == (TOPICS, VERSION)


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
    body = fastjson.loads(plain(CONFIGS))["topicConfigSerializeWrapper"]
    assert parse(fastjson.dumps(body)) == (TOPICS, VERSION)


def wrapped(text: str) -> bytes:
    return b'{"filterServerList":[],"topicConfigSerializeWrapper":{%b}}' % text.encode()


def test_what_a_topic_does_not_say() -> None:
    assert parse(wrapped('"topicConfigTable":{"U":{}}')) == ({"U": (16, 16, 6, 0)}, DataVersion())


@pytest.mark.parametrize(
    "text",
    [
        '"topicConfigTable":5', '"topicConfigTable":[]', '"topicConfigTable":{"T":1}',
        '"topicConfigTable":{"T":[{}]}', '"topicConfigTable":{"T":{}', '"topicConfigTable":{',
        '"topicConfigTable":{"T":{},}', '"topicConfigTable":{"T":{}"U":{}}',
        '"topicConfigTable":{T:{}}', '"topicConfigTable":{1:{}}',
        '"topicConfigTable":{"T":{"a":{"b":{"c":{}}}}}',
        '"topicConfigTable":{"T":{"$ref":"$.x"}}',
        '"topicConfigTable":{"T":{"readQueueNums":"4"}}',
        '"topicConfigTable":{"T":{"readQueueNums":-1}}',
        '"topicConfigTable":{"T":{"writeQueueNums":99999999999999999999}}',
        '"topicConfigTable":{"T":{"perm":true}}', '"topicConfigTable":{"T":{"perm":16}}',
        '"topicConfigTable":{"T":{"perm":1.5}}', '"topicConfigTable":{"T":{"topicSysFlag":[]}}',
        '"topicConfigTable":{"T":{}},"topicConfigTable":{"U":{}}',
        '"inner":{"topicConfigTable":{"T":{}}}', '"dataVersion":[]', '"dataVersion":5',
        '"dataVersion":{"counter":"1"}', '"dataVersion":{"timestamp":9223372036854775808}',
    ],
)  # fmt: skip
def test_parts_of_a_wrong_kind(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse(wrapped(text))


@pytest.mark.parametrize("body", [b'{"topicConfigSerializeWrapper":5}', b'{"a":1}}', b"null"])
def test_no_wrapper(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(body)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "caf\u00e9", "\u001b[31m", "t" * 513, "\n"])
def test_names_of_topics(name: str) -> None:
    with pytest.raises(InvalidParameterError):
        parse(plain({name: TopicConfig(name)}))
    if "\n" not in name:
        with pytest.raises((InvalidParameterError, ProtocolError)):
            parse(zlib.compress(pieces([f"{name} 1 1 6 SINGLE_TAG"])))


@pytest.mark.parametrize("name", ["%RETRY%group+topic", "broker.host", "t" * 512])
def test_names_that_brokers_make_themselves(name: str) -> None:
    assert parse(plain({name: TopicConfig(name)}))[0] == {name: (16, 16, 6, 0)}


def test_many_topics_come_in_steps() -> None:
    configs = {f"T{n}": TopicConfig(f"T{n}", n, n + 1, attributes={"a": "}{"}) for n in range(500)}
    lines = [f'T{n} {n} {n + 1} 6 SINGLE_TAG {{"a":"}}{{"}}' for n in range(500)]
    wanted = {f"T{n}": (n, n + 1, 6, 0) for n in range(500)}
    for body in (plain(configs), zlib.compress(pieces(lines))):
        assert finish(read(body)).topics == wanted
        assert len(list(read(body))) >= 30


def test_blanks_and_escapes() -> None:
    text = """ "topicConfigTable" : { "T" : { "attributes" : { "a\\"}b" : "\\\\" } , "perm" : 4 } ,
        "U":{"topicName":"\\"topicConfigTable\\":{"}}, "dataVersion" : { "counter" : 7 } """
    assert parse(wrapped(text)) == (
        {"T": (16, 16, 4, 0), "U": (16, 16, 6, 0)},
        DataVersion(counter=7),
    )
    assert parse(wrapped('"topicConfigTable":{ }')) == ({}, DataVersion())


def test_static_topics_are_noticed() -> None:
    found = finish(read(wrapped('"topicConfigTable":{},"topicQueueMappingInfoMap":{"T":{}}')))
    assert found.static
    assert not finish(read(wrapped('"topicQueueMappingInfoMap":{}'))).static
    for mappings, static in ((struct.pack(">i", 0), False), (struct.pack(">i", 1), True)):
        assert finish(read(zlib.compress(pieces(LINES) + mappings))).static == static


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="beside its topics"):
        parse(wrapped('"x":"' + "y" * MAX_REST + '"'))
    with pytest.raises(ProtocolError, match="no topic of at most"):
        parse(wrapped('"topicConfigTable":{"T":{"x":"' + "y" * MAX_ROW + '"}}'))
    with pytest.raises(ProtocolError, match="a block of"):
        parse(zlib.compress(pieces(["T" * (MAX_ROW + 1)])))
    monkeypatch.setattr(register_body, "MAX_TOPICS", 1)
    for body in (plain(CONFIGS), zlib.compress(pieces(LINES))):
        with pytest.raises(ProtocolError, match="more than 1 topics"):
            parse(body)


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
    data = pieces(LINES)
    for size in range(len(data)):
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
    bomb = zlib.compress(pieces(LINES) + bytes(64 << 20), 9)
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
