"""What the dispatcher takes of a request, and how much of those that wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.engine import Command, Listener, Session
from pyrmq.errors import SystemBusyError
from pyrmq.model.codes import RequestCode
from pyrmq.model.request_kinds import BODIES, MAX_FRAME, most_body
from pyrmq.net.command import Response
from pyrmq.net.server import dispatch
from pyrmq.net.server.answers import After, Elsewhere, Resend
from pyrmq.net.server.connection import MAX_AWAITED_BYTES, MAX_ELSEWHERE
from pyrmq.net.server.dispatch import MAX_HEADER, SMALL, Dispatcher
from pyrmq.net.server.questions import MAX_OPEN, Questions
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.net.unit.test_dispatch import Peer
from tests.support.wire import Command as Frame
from tests.support.wire import encode

SEND, BEAT, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE


@pytest.fixture
def peer() -> Any:
    made = Peer()
    yield made
    made.close()


def request(code: int, *, body: int = 0, field: int = 0, opaque: int = 1) -> Command:
    """A command with so many bytes of each."""
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    ext = {"k": "x" * field} if field else {}
    session.feed_bytes(encode(Frame(code=code, opaque=opaque, ext=ext, body=b"z" * body)), 0)
    command = session.next_command()
    assert command is not None
    return command


class Stage:
    """A dispatcher that notes what its processors are given. `answer` makes the answer."""

    def __init__(self) -> None:
        self.taken: list[Command] = []
        self.answer: Any = lambda command: Response()
        codes = (SEND, BEAT, PULL)
        self.dispatcher = Dispatcher(
            "stage", dict.fromkeys(codes, self._process), Unconfirmed("stage", None, 0)
        )

    def _process(self, connection: object, command: Command) -> Any:
        self.taken.append(command)
        return self.answer(command)

    def process(self, peer: Peer, command: Command) -> None:
        self.dispatcher.process(peer.connection, command)


def test_a_body_that_no_request_of_its_kind_has_is_forgotten(peer: Peer) -> None:
    stage = Stage()
    stage.process(peer, request(PULL, body=1 << 20))
    (command,) = stage.taken
    assert command.body == b""
    assert command.size < 1000, "it counts no more"
    stage.process(peer, request(SEND, body=1 << 20))
    assert len(stage.taken[1].body) == 1 << 20


def test_a_body_longer_than_any_of_its_kind_is_refused(peer: Peer) -> None:
    stage = Stage()
    stage.process(peer, request(BEAT, body=most_body(BEAT)))
    stage.process(peer, request(BEAT, body=most_body(BEAT) + 1, opaque=2))
    assert peer.answers() == [(1, 0), (2, 13)]
    assert len(stage.taken) == 1
    assert all(0 < most <= MAX_FRAME for most in BODIES.values())


def test_a_header_longer_than_any_is_refused(peer: Peer) -> None:
    stage = Stage()
    stage.process(peer, request(PULL, field=MAX_HEADER - 1000))
    stage.process(peer, request(PULL, field=MAX_HEADER, opaque=2))
    assert peer.answers() == [(1, 0), (2, 13)]
    assert len(stage.taken) == 1


async def test_bytes_of_requests_that_wait(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many a connection is not read on, and the server takes no more large requests."""
    monkeypatch.setattr(dispatch, "MAX_HELD", MAX_AWAITED_BYTES + 1000)
    stage, gate = Stage(), trio.Event()
    keeps: list[Any] = []

    async def wait() -> Response:
        await gate.wait()
        return Response(5)

    def later(command: Command) -> Any:
        keeps.append(command)
        return wait()

    stage.answer = later
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        stage.process(peer, request(SEND, body=MAX_AWAITED_BYTES - 1000))
        assert not peer.connection.has_many_awaited
        stage.process(peer, request(SEND, body=1000, opaque=2))
        assert peer.connection.has_many_awaited
        stage.process(peer, request(SEND, body=SMALL, opaque=3))
        assert peer.answers() == [(3, 2)]
        stage.process(peer, request(SEND, body=SMALL - 1000, opaque=4))
        gate.set()
    assert sorted(peer.answers()) == [(1, 5), (2, 5), (4, 5)]
    assert peer.connection.awaited_bytes == 0
    assert not peer.connection.has_many_awaited
    stage.answer = lambda command: Response()
    stage.process(peer, request(SEND, body=SMALL, opaque=5))
    assert peer.answers() == [(5, 0)], "there is room again"


async def test_a_request_is_let_go_while_it_waits(peer: Peer) -> None:
    """Only what its processor keeps of it stays: a counter says when it is gone."""
    gate = trio.Event()
    seen: list[object] = []

    async def later(kept: int) -> Response:
        await gate.wait()
        return Response(kept)

    stage = Stage()
    stage.answer = lambda command: Elsewhere(later(7))
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        started = nursery.start_soon
        monkey: Any = lambda task, *args: (seen.extend(args), started(task, *args))  # noqa: E731
        nursery.start_soon = monkey  # type: ignore[method-assign]
        stage.process(peer, request(PULL))
        assert not [arg for arg in seen if isinstance(arg, Command)]
        gate.set()
    assert peer.answers() == [(1, 7)]


async def test_many_that_their_processor_bounds(peer: Peer) -> None:
    gate = trio.Event()

    async def later() -> Response:
        await gate.wait()
        return Response()

    stage = Stage()
    stage.answer = lambda command: Elsewhere(later())
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(MAX_ELSEWHERE):
            stage.process(peer, request(PULL, opaque=opaque))
        assert not peer.connection.has_many_awaited
        stage.process(peer, request(PULL, opaque=MAX_ELSEWHERE))
        assert peer.connection.has_many_awaited
        gate.set()
    assert not peer.connection.has_many_awaited
    assert len(peer.answers()) == MAX_ELSEWHERE + 1


async def test_so_many_are_awaited_at_a_time(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ASYNC_LIMIT", 2)
    gate, began = trio.Event(), 0

    async def later() -> Response:
        nonlocal began
        began += 1
        await gate.wait()
        return Response()

    stage = Stage()
    stage.answer = lambda command: later()
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(5):
            stage.process(peer, request(PULL, opaque=opaque))
        await trio.testing.wait_all_tasks_blocked()
        assert began == 2
        gate.set()
    assert len(peer.answers()) == 5


async def test_sends_that_wait_for_their_topic(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their frames are kept: they count."""
    monkeypatch.setattr(dispatch, "MAX_HELD", 3 * SMALL)
    gate = trio.Event()

    def after(command: Command) -> After:
        assert command.frame is not None
        then: Any = Resend(command.frame)
        return After("T", gate.wait, then, lambda e: Response(14), lambda: Response(2))

    stage = Stage()
    stage.answer = after
    acted: list[object] = []
    stage.dispatcher._acts[Resend] = lambda connection, command, answer: acted.append(answer)
    async with trio.open_nursery() as nursery:
        stage.dispatcher.nursery = nursery
        for opaque in range(3):
            stage.process(peer, request(SEND, body=SMALL, opaque=opaque))
        assert peer.answers() == [(2, 2)], "the third has no room"
        assert peer.connection.awaited_bytes > 2 * SMALL
        gate.set()
    assert len(acted) == 2
    assert peer.connection.awaited_bytes == 0
    assert stage.dispatcher._held == 0


async def test_questions_to_one_client(peer: Peer) -> None:
    questions = Questions()
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await questions.ask(peer.connection, 307, {}, timeout=60)

        for _ in range(MAX_OPEN):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SystemBusyError):
            await questions.ask(peer.connection, 307, {}, timeout=60)
        nursery.cancel_scope.cancel()
