"""Several connections in a row: what they send is written once, then all are answered."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Listener, RecvBuffer, Session, Store
from tests.net.unit.session.exchange import new_session, serving
from tests.store.tools import FOUND
from tests.support.client import send_command
from tests.support.wire import FrameReader, encode

NOW = 1_000_000


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[tuple[Store, Listener]]:
    with serving(tmp_path) as both:
        yield both


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        yield ours, peer


def send(opaque: int, queue_id: int = 0) -> bytes:
    command = send_command("T", b"%d" % opaque, queue_id=queue_id)
    command.opaque = opaque
    return encode(command)


def opaques(raw: bytes | None) -> list[tuple[int, int]]:
    return [(answer.opaque, answer.code) for answer in FrameReader().feed(raw or b"")]


def test_nothing_is_answered_or_seen_before_the_write(serve: tuple[Store, Listener]):
    store, listener = serve
    sessions = [new_session(listener) for _ in range(3)]
    store.notify_on_arrival("T", 0)
    for n, session in enumerate(sessions):
        stream = send(10 * n) + send(10 * n + 1, queue_id=77) + send(10 * n + 2)
        assert session.feed_bytes(stream, NOW, defer_write=True) is None
        assert (session.unconfirmed, session.arrivals) == (3, False)
        assert session.release(NOW, 60_000) is None
    assert store.queue_range("T", 0) == (0, 0)
    assert store.stats()["maxPhyOffset"] == 0
    assert store.write_staged() is True, "somebody waits for what came"
    assert store.queue_range("T", 0) == (0, 6)
    for n, session in enumerate(sessions):
        answers = opaques(session.release(NOW, 60_000))
        assert answers == [(10 * n, 0), (10 * n + 1, 29), (10 * n + 2, 0)], "in order"
        assert session.unconfirmed == 0
    assert store.write_staged() is True, "nobody took it"
    assert [len(queue) for queue in (store.drain_arrivals(), store.drain_arrivals())] == [1, 0]
    assert store.write_staged() is False


def test_one_more_feed_writes_what_others_left(serve: tuple[Store, Listener]):
    store, listener = serve
    first, second = new_session(listener), new_session(listener)
    assert first.feed_bytes(send(1), NOW, defer_write=True) is None
    assert opaques(second.feed_bytes(send(2), NOW)) == [(2, 0)]
    assert opaques(first.release(NOW, 60_000)) == [(1, 0)]
    got = store.get("T", 0, 0)
    assert (got.status, got.count) == (FOUND, 2)


def test_it_receives_and_sends_by_itself(
    serve: tuple[Store, Listener], pair: tuple[socket.socket, socket.socket]
):
    store, listener = serve
    ours, peer = pair
    session, buffer = new_session(listener), RecvBuffer(4096)
    assert session.receive(ours.fileno(), buffer, NOW) is None
    assert session.received == -1, "nothing has come"
    peer.send(send(1) + send(2)[:20])
    assert opaques(session.receive(ours.fileno(), buffer, NOW)) == [(1, 0)]
    assert session.received == len(send(1)) + 20
    peer.send(send(2)[20:])
    assert session.receive(ours.fileno(), buffer, NOW, defer_write=True) is None
    assert session.unconfirmed == 1
    store.write_staged()
    assert session.send_released(ours.fileno(), NOW, 60_000) is None
    assert opaques(peer.recv(4096)) == [(2, 0)]
    peer.shutdown(socket.SHUT_WR)
    assert session.receive(ours.fileno(), buffer, NOW) is None
    assert session.received == 0
    with pytest.raises(OSError, match="recv"):
        session.receive(-1, buffer, NOW)


def test_what_a_full_socket_does_not_take_is_returned(
    serve: tuple[Store, Listener], pair: tuple[socket.socket, socket.socket]
):
    store, listener = serve
    ours, peer = pair
    session = new_session(listener)
    filler = 0
    try:
        while True:
            filler += ours.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    session.feed_bytes(send(1), NOW, defer_write=True)
    store.write_staged()
    rest = session.send_released(ours.fileno(), NOW, 60_000)
    assert opaques(rest) == [(1, 0)], "all of it"
    while filler:
        filler -= len(peer.recv(1 << 16))
    session.feed_bytes(b"".join(send(n) for n in range(3000)), NOW, defer_write=True)
    store.write_staged()
    rest = session.send_released(ours.fileno(), NOW, 60_000)
    assert rest
    ours.setblocking(True)
    ours.shutdown(socket.SHUT_WR)
    raw = b""
    while piece := peer.recv(1 << 16):
        raw += piece
    assert opaques(raw + rest) == [(n, 0) for n in range(3000)]


def test_a_peer_that_is_gone_is_an_error(
    serve: tuple[Store, Listener], pair: tuple[socket.socket, socket.socket]
):
    store, listener = serve
    ours, peer = pair
    session = Session(listener, b"\x7f\0\0\1", 1)
    session.feed_bytes(send(1), NOW, defer_write=True)
    store.write_staged()
    peer.close()
    with pytest.raises(OSError, match="send"):
        session.send_released(ours.fileno(), NOW, 60_000)
