"""What the ready loop leaves to the reader, and in which order the reader does it."""

from __future__ import annotations

import math
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from pyrmq.engine import Command, Listener, Session
from pyrmq.errors import EngineError
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event, State
from pyrmq.net.server.linger import Linger
from pyrmq.net.server.reader import Reader
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.support.wire import Command as Frame
from tests.support.wire import encode

Left = tuple[int, bool, bytes | None, Exception | None]


class Processing:
    """Stands for the dispatcher: every command sends `b"pushed"` to `other`."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.other: Connection | None = None

    def process(self, connection: Connection, command: Command) -> None:
        self.codes.append(command.code)
        if self.other is not None:
            self.other.send(b"pushed")


class Lingering(Linger):
    """Wants to linger always, and counts how often it was told what came of it."""

    lingers = 0

    def begins(self, now: float) -> int:
        return 1000

    def lingered(self, *, served: int, missed: bool) -> None:
        self.lingers += 1


class World:
    def __init__(self, stack: ExitStack) -> None:
        self.processing = Processing()
        listener = Listener()
        unconfirmed = Unconfirmed("test", None, 5000)
        dispatcher: Any = self.processing
        self.reader = Reader("test", listener, dispatcher, unconfirmed, None)
        self.connections = []
        for _ in range(2):
            ours, peer = (stack.enter_context(one) for one in socket.socketpair())
            ours.setblocking(False)
            self.reader.add(ours, Session(listener, b"\x7f\0\0\1", 1), f"peer {peer.fileno()}")
            self.connections.append(self.reader.connections[ours.fileno()])

    def serve(self, *left: Left) -> None:
        """`left`: by position. There is time for all of it."""
        self.reader._slice_end = math.inf
        self.reader._serve_left([(self.connections[at].fd, *rest) for at, *rest in left], None)

    def is_watched(self, connection: Connection) -> bool:
        """Whether the ready loop serves it: its descriptor cannot be changed then."""
        try:
            connection.session.fd = connection.fd
        except RuntimeError:
            return True
        return False


@pytest.fixture
async def world() -> Any:
    with ExitStack() as stack:
        yield World(stack)


def has_a_command(connection: Connection, code: int) -> None:
    assert connection.session.feed_bytes(encode(Frame(code=code, opaque=1)), 0) is None


async def test_what_a_socket_did_not_take_comes_before_what_is_sent_next(world: World) -> None:
    first, second = world.connections
    has_a_command(first, 35)
    world.processing.other = second
    world.serve((0, False, None, None), (1, False, b"rest", None))
    assert world.processing.codes == [35]
    assert b"".join(bytes(piece) for piece in second.out) == b"restpushed"


async def test_commands_count_although_the_peer_takes_no_answer(world: World) -> None:
    first, second = world.connections
    has_a_command(first, 15)
    world.serve((0, False, None, BrokenPipeError(32, "send")), (1, True, None, None))
    assert world.processing.codes == [15]
    assert (first.state, second.state) == (State.MUTE, State.CLOSED)
    assert second.fd not in world.reader.connections


async def test_the_ready_loop_serves_who_is_plain(world: World) -> None:
    first, second = world.connections
    assert world.is_watched(first)
    first.keep(b"kept for it meanwhile")
    assert not world.is_watched(first)
    first.send_kept()
    assert world.is_watched(first)
    first.happened(Event.SEND_FAILED)
    assert not world.is_watched(first), "its answers go nowhere"
    world.reader.stop_reading()
    assert not world.is_watched(second)


async def test_a_closed_connection_is_left_out(world: World) -> None:
    first, second = world.connections
    first.call_on_close(lambda _: world.reader.close(second))
    world.serve((0, True, None, None), (1, False, None, None))
    assert world.reader.connections == {}


async def test_a_failure_of_the_engine_closes(world: World) -> None:
    world.serve((0, False, None, EngineError("a bug")))
    assert world.connections[0].state is State.CLOSED


async def test_who_waits_to_be_fed_is_fed_for_a_slice_at_most(world: World) -> None:
    """What is left of it comes first in the next slice."""
    reader, (first, second) = world.reader, world.connections
    reader._reading = True
    for connection, code in ((first, 35), (second, 36)):
        frames = encode(Frame(code=code, opaque=1)) * 100
        connection.session.feed_bytes(frames, 0)
        world.serve((world.connections.index(connection), False, None, None))
    assert world.processing.codes == [35] * 64 + [36] * 64
    world.processing.codes.clear()
    reader._slice_end, reader._processed = 0.0, False
    reader._feed_waiting()
    assert world.processing.codes == [35], "the time is over behind the first command"
    reader._slice_end = math.inf
    reader._feed_waiting()
    assert world.processing.codes == [35] + [36] * 36 + [35] * 35, "others come first"
    assert not reader._feed_next


async def test_commands_of_several_connections_take_turns(world: World) -> None:
    """Of what a slice brings, one command is processed where they take long; the rest is left."""
    reader, (first, second) = world.reader, world.connections
    reader._reading = True
    for connection, code in ((first, 35), (second, 36)):
        connection.session.feed_bytes(encode(Frame(code=code, opaque=1)) * 3, 0)
    reader._processed = False
    reader._slice_end = 0.0
    for connection in world.connections:
        reader._follow_up(connection)
    assert world.processing.codes == [35]
    assert not any(map(world.is_watched, world.connections)), "nothing new is read before them"
    for _ in range(5):
        reader._processed = False
        reader._feed_waiting()
    assert world.processing.codes == [35, 35, 36, 35, 36, 36]
    assert all(map(world.is_watched, world.connections))


async def test_commands_of_a_peer_that_does_not_read_wait(world: World) -> None:
    reader, (first, _) = world.reader, world.connections
    first.session.feed_bytes(encode(Frame(code=35, opaque=1)) * 3, 0)
    first.keep(b"an answer that it has not taken")
    world.serve((0, False, None, None))
    assert world.processing.codes == []
    reader._reading = True
    first.send_kept()
    assert first in reader._feed_next
    reader._feed_waiting()
    assert world.processing.codes == [35] * 3


async def test_a_slice_with_something_to_feed_does_not_linger(world: World) -> None:
    """So it says nothing about whether lingering is worth it."""
    reader, first = world.reader, world.connections[0]
    reader._reading = True
    first.session.feed_bytes(encode(Frame(code=35, opaque=1)) * 100, 0)
    world.serve((0, False, None, None))
    reader._linger = Lingering()
    reader._serve_slice()
    assert len(world.processing.codes) == 100
    assert reader._linger.lingers == 0
