"""Frames that are none: lengths, header lengths, serialize types, other protocols, garbage behind.

Rule (NettyDecoder): an over-limit or negative length, a header longer than the frame, an unknown
serialize type or a header that does not parse closes the connection without an answer.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import pytest

from tests.support.client import Client, send_command
from tests.support.server import Address, ServerProcess
from tests.support.wire import BINARY, FRAME_LIMIT, JSON, Command, binary_header, encode, frame
from tests.system.hostile.probe import PATIENCE, Probe, assert_closed, deliver

GOOD = Command(310, {"b": "T"}, b"x", serialize=BINARY)


def word(total: int, mark: int = 0, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", total, mark) + rest


def cut_binary(at: int, value: bytes) -> bytes:
    """A ROCKETMQ header with some of its bytes replaced."""
    header = bytearray(binary_header(GOOD))
    header[at : at + len(value)] = value
    return frame(bytes(header), b"x", BINARY)


FRAMES = {
    "length-0": struct.pack(">i", 0) + encode(GOOD),
    "length-1": word(1) + b"x" * 16,
    "length-3": word(3) + b"x" * 16,
    "length-minus-1": word(-1, 0, b"x" * 64),
    "length-minimum": word(-(2**31), 0, b"x" * 64),
    "length-one-over": word(FRAME_LIMIT - 3, 10, b"{}"),
    "length-maximum": word(2**31 - 1, 10, b"{}"),
    "header-one-beyond": word(4 + 2, 3, b"{}"),
    "header-far-beyond": word(4 + 2, 0xFFFFFF, b"{}"),
    "header-empty": frame(b"", b"body"),
    "header-empty-binary": frame(b"", b"body", BINARY),
    "json-cut": frame(b'{"code":310,"opaq'),
    "json-words": frame(b"hello world"),
    "json-zero-bytes": frame(b"\0" * 64),
    "type-2": frame(b"{}", b"", 2),
    "type-127": frame(b"{}", b"", 127),
    "type-255": frame(b"{}", b"", 255),
    "binary-20-bytes": frame(binary_header(Command(310))[:20], b"", BINARY),
    "binary-remark-beyond": cut_binary(13, struct.pack(">i", 1000)),
    "binary-remark-negative": cut_binary(13, struct.pack(">i", -1)),
    "binary-remark-huge": cut_binary(13, struct.pack(">i", 2**31 - 1)),
    "binary-map-beyond": cut_binary(17, struct.pack(">i", 1000)),
    "binary-map-negative": cut_binary(17, struct.pack(">i", -5)),
    "binary-key-beyond": cut_binary(21, struct.pack(">H", 65535)),
    "binary-value-beyond": cut_binary(24, struct.pack(">i", 65535)),
    "binary-value-negative": cut_binary(24, struct.pack(">i", -1)),
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
}
TLS_HELLO = bytes.fromhex("16030100c8010000c40303")


@pytest.mark.parametrize("port", ["broker", "namesrv"])
@pytest.mark.parametrize("name", FRAMES)
def test_frame_costs_its_connection(server: ServerProcess, name: str, port: str) -> None:
    assert_closed(getattr(server, port), FRAMES[name])


@pytest.mark.parametrize("port", ["broker", "namesrv"])
def test_a_tls_hello_that_is_none(server: ServerProcess, port: str) -> None:
    """It is answered as TLS has it, with an alert, and costs its connection."""
    with socket.create_connection(getattr(server, port), PATIENCE) as peer:
        peer.sendall(TLS_HELLO + b"\x11" * 200)
        found = peer.recv(100)
        assert found[:1] == b"\x15"
        with suppress(ConnectionError):
            assert peer.recv(100) == b""
    with Client(server.broker) as client:
        assert client.send("GoodTopic").code == 0


def test_over_limit_is_refused_before_its_bytes_arrive(server: ServerProcess) -> None:
    """The length alone decides: nothing else of the frame is ever sent."""
    assert_closed(server.broker, struct.pack(">i", FRAME_LIMIT))


@pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
def test_largest_frame_is_read(client: Client, serialize: int) -> None:
    """At the limit exactly it is a frame; its body is too large for a message: 13."""
    command = send_command("LimitTopic", b"", serialize=serialize)
    command.opaque = 1
    command.body = bytes(FRAME_LIMIT - len(encode(command)))
    assert len(encode(command)) == FRAME_LIMIT
    assert client.request(command, timeout=PATIENCE).code == 13
    assert client.send("LimitTopic").code == 0


@pytest.mark.parametrize("name", ["length-0", "length-minus-1", "json-words", "type-255", "http"])
@pytest.mark.parametrize("valid", [1, 20])
def test_garbage_behind_valid_requests(server: ServerProcess, name: str, valid: int) -> None:
    """What is in front of the garbage is answered; then the connection goes."""
    topic = f"Behind-{name}-{valid}"
    data = b""
    for i in range(valid):
        command = send_command(topic, b"%d" % i, serialize=i % 2)
        command.opaque = 100 + i
        data += encode(command)
    answers = deliver(server.broker, data + FRAMES[name])
    assert answers is not None, "the connection stays open"
    assert [(a.opaque, a.code, a.ext["queueOffset"]) for a in answers] == [
        (100 + i, 0, str(i)) for i in range(valid)
    ]
    with Client(server.broker) as reader:
        bodies = [record.body for record in reader.pull_all(topic, 0, 0, valid)]
    assert bodies == [b"%d" % i for i in range(valid)]


@pytest.mark.parametrize("valid", [1, 63, 64, 65, 127, 128, 200])
def test_garbage_behind_requests_for_the_broker(server: ServerProcess, valid: int) -> None:
    """The same for requests that are not sends, of which one read may bring many."""
    data = b"".join(encode(Command(9999, opaque=i)) for i in range(valid))
    answers = deliver(server.broker, data + FRAMES["json-words"])
    assert answers is not None, "the connection stays open"
    assert [(a.opaque, a.code) for a in answers] == [(i, 3) for i in range(valid)]


def test_requests_behind_garbage_are_not_executed(server: ServerProcess) -> None:
    late = send_command("GoodTopic", b"behind the garbage")
    with Client(server.broker) as reader:
        before = reader.max_offset("GoodTopic", 0)
        assert_closed(server.broker, FRAMES["json-words"] + encode(late))
        assert reader.max_offset("GoodTopic", 0) == before


def test_answers_nobody_asked_for_are_ignored(client: Client) -> None:
    """A response frame with an unknown opaque is dropped, in both types; the connection lives."""
    for serialize in (JSON, BINARY):
        client.send_raw(encode(Command(0, opaque=77, flag=1, serialize=serialize)))
    assert client.send("GoodTopic").code == 0


def test_claimed_sizes_cost_nothing(server: ServerProcess, probe: Probe) -> None:
    """200 connections that announce a frame of 16 MiB and send a hundred bytes of it."""
    address: Address = server.broker
    before = probe.grown_kib()
    clients = [Client(address) for _ in range(200)]
    try:
        for client in clients:
            client.send_raw(word(FRAME_LIMIT - 4, 400, b"{" * 100))
        probe.assert_serving()
        assert probe.grown_kib() < before + 32 * 1024
    finally:
        for client in clients:
            client.close()
