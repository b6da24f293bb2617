"""What the server does with what processors return, on a connection over a socket pair."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.engine import Command, Listener, RecvBuffer, Session
from pyrmq.errors import TopicNotExistError
from pyrmq.net.command import Response
from pyrmq.net.server.answers import (
    After,
    Park,
    Resend,
    WhenConfirmed,
)
from pyrmq.net.server.connection import MAX_AWAITED, Connection
from pyrmq.net.server.connection_state import Event, State
from pyrmq.net.server.dispatch import MAX_WAITING, Dispatcher
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.support.wire import Command as Frame
from tests.support.wire import FrameReader, encode

ASKED = 77


def request(opaque: int, *, code: int = ASKED, oneway: bool = False) -> Command:
    """A command as a session hands it over."""
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    session.feed_bytes(encode(Frame(code=code, opaque=opaque, flag=2 if oneway else 0)), 0)
    command = session.next_command()
    assert command is not None
    return command


class Peer:
    """The client's end of a connection."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self.changes: list[State] = []
        session = Session(Listener(), b"\x7f\0\0\1", 1)
        self.connection = Connection(ours, session, "peer", self._changed, 0.0)

    def _changed(self, connection: Connection) -> None:
        self.changes.append(connection.state)

    def answers(self) -> list[tuple[int, int]]:
        """(opaque, code) of all that was sent."""
        data = b""
        with suppress(BlockingIOError):
            while piece := self.sock.recv(1 << 20):
                data += piece
                self.connection.send_kept()
        return [(f.opaque, f.code) for f in FrameReader().feed(data)]

    def close(self) -> None:
        self.sock.close()
        self.connection.sock.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


class Stage:
    """A dispatcher whose processor answers what the test says."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.dispatcher = Dispatcher(
            "stage", {ASKED: lambda connection, command: self.answer}, Unconfirmed("stage", None, 0)
        )

    def process(self, peer: Peer, answer: Any, command: Command) -> None:
        self.answer = answer
        self.dispatcher.process(peer.connection, command)


def test_a_response(peer: Peer) -> None:
    Stage().process(peer, Response(5), request(1))
    assert peer.answers() == [(1, 5)]


def test_no_answer_at_all(peer: Peer) -> None:
    stage = Stage()
    stage.process(peer, None, request(1))
    stage.process(peer, Response(0), request(2, oneway=True))
    stage.process(peer, WhenConfirmed(Response(), 0), request(3, oneway=True))
    stage.process(peer, WhenConfirmed(Response(), 100), request(4, oneway=True))
    assert peer.answers() == []


def test_an_unknown_code(peer: Peer) -> None:
    Stage().process(peer, None, request(1, code=ASKED + 1))
    assert peer.answers() == [(1, 3)]


def test_what_a_processor_raises_is_the_answer(peer: Peer) -> None:
    def fail(connection: Connection, command: Command) -> Response:
        raise TopicNotExistError("none") if command.opaque == 1 else ZeroDivisionError("none")

    dispatcher = Dispatcher("stage", {ASKED: fail}, Unconfirmed("stage", None, 0))
    for opaque in (1, 2):
        dispatcher.process(peer.connection, request(opaque))
    assert peer.answers() == [(1, 17), (2, 1)]


def test_nothing_is_parked_without_a_store(peer: Peer) -> None:
    pull: Any = None
    Stage().process(peer, Park(pull, 15, otherwise=Response(19)), request(1))
    assert peer.answers() == [(1, 19)]


def test_an_answer_that_cannot_be_encoded_closes_its_connection(peer: Peer) -> None:
    bad = Response(0, ext={"k" * 70_000: "v"})
    Stage().process(peer, Response(0), request(1))
    assert peer.answers() == [(1, 0)]
    binary = Frame(code=ASKED, opaque=2, serialize=1)
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    session.feed_bytes(encode(binary), 0)
    second = session.next_command()
    assert second is not None
    Stage().process(peer, bad, second)
    assert peer.connection.state is State.CLOSED
    assert peer.answers() == []


async def test_awaited_answers_count_until_they_are_there(peer: Peer) -> None:
    stage = Stage()
    gate = trio.Event()

    async def later() -> Response:
        await gate.wait()
        return Response(6)

    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(MAX_AWAITED + 1):
            stage.process(peer, later(), request(opaque))
        assert peer.connection.has_many_awaited
        await trio.testing.wait_all_tasks_blocked()
        assert stage.dispatcher.busy
        assert peer.answers() == []
        gate.set()
    assert sorted(peer.answers()) == [(n, 6) for n in range(MAX_AWAITED + 1)]
    assert peer.connection.awaited == 0
    assert not stage.dispatcher.busy


class Topic:
    """Something that requests wait for."""

    def __init__(self) -> None:
        self.saved = trio.Event()
        self.error: Exception | None = None
        self.asked = 0

    async def ready(self) -> None:
        self.asked += 1
        await self.saved.wait()
        if self.error is not None:
            raise self.error

    def after(self, then: Response | Resend) -> After:
        return After(
            "topic",
            self.ready,
            then,
            failed=lambda e: Response(14, str(e)),
            busy=lambda: Response(2),
        )


async def test_what_waits_for_one_key_keeps_its_order(peer: Peer) -> None:
    stage, topic = Stage(), Topic()
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(50):
            stage.process(peer, topic.after(Response(opaque)), request(opaque))
        await trio.testing.wait_all_tasks_blocked()
        assert (topic.asked, peer.connection.awaited) == (1, 50)
        topic.saved.set()
    assert peer.answers() == [(n, n) for n in range(50)]
    assert peer.connection.awaited == 0


async def test_all_that_waits_is_answered_when_it_fails(peer: Peer) -> None:
    stage, topic = Stage(), Topic()
    topic.error = OSError("no space")
    topic.saved.set()
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(3):
            stage.process(peer, topic.after(Response(0)), request(opaque))
    assert peer.answers() == [(n, 14) for n in range(3)]
    assert not stage.dispatcher.busy


async def test_not_too_many_wait_for_one_key(peer: Peer) -> None:
    stage, topic = Stage(), Topic()
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        command = request(1)
        for _ in range(MAX_WAITING):
            stage.process(peer, topic.after(Response(0)), command)
        stage.process(peer, topic.after(Response(0)), request(2))
        assert peer.answers() == [(2, 2)]
        assert len(stage.dispatcher.line) == MAX_WAITING
        topic.saved.set()
    assert len(peer.answers()) == MAX_WAITING
    assert len(stage.dispatcher.line) == 0


def test_a_frame_that_the_engine_cannot_handle_again_closes_its_connection(peer: Peer) -> None:
    Stage().process(peer, Resend(b"\xff\xff\xff\xff no frame"), request(1))
    assert peer.connection.state is State.CLOSING


def test_a_peer_that_takes_nothing_more(peer: Peer) -> None:
    peer.sock.close()
    peer.connection.send(b"x")
    peer.connection.send(b"x")
    assert peer.connection.state is State.MUTE
    peer.connection.happened(Event.PROTOCOL_ERROR)
    assert peer.connection.state is State.CLOSED
    assert peer.changes[-2:] == [State.MUTE, State.CLOSED]


def test_what_the_socket_does_not_take_is_kept_in_order(peer: Peer) -> None:
    peer.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sent = [bytes([n]) * 10_000 for n in range(200)]
    for piece in sent:
        peer.connection.send(piece, b"|")
    assert peer.connection.out
    buffer = RecvBuffer(1 << 16)
    got = bytearray()
    while peer.connection.out or len(got) < sum(len(p) + 1 for p in sent):
        n = peer.sock.recv_into(buffer)
        got += memoryview(buffer)[:n]
        peer.connection.send_kept()
    assert bytes(got) == b"".join(p + b"|" for p in sent)
