"""The client on a blocking socket."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import pyrmq.net.client.blocking_channel
from pyrmq.engine import Command as Received
from pyrmq.errors import ClientError, ConnectError, RequestTimeoutError
from pyrmq.net.client.blocking_channel import BlockingChannel, BlockingChannels
from pyrmq.net.client.procedure import Invoke, Pause, Procedure
from tests.support.waiting import eventually
from tests.support.wire import Command, FrameReader, encode

Server = Callable[[socket.socket], object]


@contextlib.contextmanager
def serving(serve: Server) -> Iterator[tuple[str, int]]:
    """A server for one connection after the other."""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


def echo(connection: socket.socket) -> None:
    """Answers each request with its body, and reads on only when the answer is gone."""
    reader = FrameReader()
    while data := connection.recv(1 << 16):
        for command in reader.feed(data):
            connection.sendall(encode(command.reply(0, {}, command.body)))


def test_answers_come_in_any_order_of_asking() -> None:
    with serving(echo) as address:
        connection = BlockingChannel(address)
        numbers = [connection.submit(1, {"n": n}, b"%d" % n) for n in range(50)]
        for n in (49, 0, *range(1, 49)):
            assert connection.wait(numbers[n], 10).body == b"%d" % n
        connection.close()


def test_a_server_that_wants_its_answers_taken_first() -> None:
    """More is under way in both directions than sockets hold: sending takes answers meanwhile."""
    with serving(echo) as address:
        connection = BlockingChannel(address)
        bodies = [bytes([n]) * (1 << 20) for n in range(40)]
        numbers = [connection.submit(1, {}, body) for body in bodies]
        assert [connection.wait(n, 10).body for n in numbers] == bodies
        connection.close()


def test_a_server_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyrmq.net.client.blocking_channel, "STALL_TIMEOUT", 0.1)
    stop = threading.Event()
    with serving(lambda c: stop.wait(60)) as address:
        connection = BlockingChannel(address)
        with pytest.raises(ConnectError, match="takes no data"):
            connection.submit(1, {}, bytes(15 << 20))
        assert connection.broken is not None
        connection.close()
        stop.set()


def test_silence() -> None:
    with serving(lambda c: (c.recv(1 << 16), c.recv(1))) as address:
        connection = BlockingChannel(address)
        with pytest.raises(RequestTimeoutError, match=r"did not answer in 0\.05 s"):
            connection.call(1, {}, timeout=0.05)
        connection.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "hung up"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "protocol"),
        (b"\x7f\xff\xff\xff\x00\x00\x00\x00", "protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol"),
    ],
)
def test_a_server_of_another_kind(said: bytes, told: str) -> None:
    with serving(lambda c: (c.recv(1 << 16), c.sendall(said))) as address:
        connection = BlockingChannel(address)
        with pytest.raises(ConnectError, match=told):
            connection.call(1, {}, timeout=10)
        with pytest.raises(ConnectError, match="is gone"):
            connection.submit(1, {})
        connection.close()


def test_answers_that_nobody_asked_for_are_left_out() -> None:
    def serve(connection: socket.socket) -> None:
        reader = FrameReader()
        while data := connection.recv(1 << 16):
            for command in reader.feed(data):
                stray = Command(0, {}, b"stray", opaque=command.opaque + 1000, flag=1)
                asks = Command(40, {}, opaque=command.opaque)
                late = command.reply(0, {}, b"right")
                connection.sendall(encode(stray) + encode(asks) + encode(late) + encode(late))

    with serving(serve) as address:
        connection = BlockingChannel(address)
        for _ in range(3):
            assert connection.call(1, {}, timeout=10).body == b"right"
        connection.close()


def test_connections_are_kept_and_made_anew() -> None:
    with serving(echo) as address, BlockingChannels() as connections:
        first = connections.get(address)
        assert connections.get(address) is first
        connections.drop(first)
        second = connections.get(address)
        assert second is not first
        assert second.call(1, {}, b"x", timeout=10).body == b"x"
    assert second.fileno() == -1
    with pytest.raises(ConnectError, match="cannot connect to"):
        BlockingChannel(address)


class Endless:
    """A socket that always has more of what nobody asked for, for five seconds."""

    def __init__(self, of: socket.socket) -> None:
        self._of = of
        self._frame = encode(Command(1).reply(0))
        self.until = time.monotonic() + 5

    def recv_into(self, place: Any) -> int:
        if time.monotonic() > self.until:
            raise BlockingIOError
        memoryview(place)[: len(self._frame)] = self._frame
        return len(self._frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def test_what_nobody_asked_for_does_not_hold_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyrmq.net.client.blocking_channel, "RECEIVE_TIMEOUT", 0.1)
    with serving(lambda connection: connection.recv(1 << 16)) as address:
        connection = BlockingChannel(address)
        endless = Endless(connection._socket)
        connection._socket = endless  # type: ignore[assignment]
        with pytest.raises(RequestTimeoutError):
            connection.call(1, {}, timeout=0.1)
        assert time.monotonic() < endless.until
        connection.close()


def test_a_procedure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are done in order; what a step came to is what it returns."""
    paused: list[float] = []
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: paused.append(seconds))

    def procedure(deaf: tuple[str, int], address: tuple[str, int]) -> Procedure[list[object]]:
        refused = yield Invoke(deaf, 1, {}, 1.0)
        nothing = yield Pause(2.5)
        answer = yield Invoke(address, 1, {"n": 1}, 10.0)
        return [type(refused), nothing, type(answer)]

    with socket.socket() as bound, serving(echo) as address, BlockingChannels() as channels:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        found = channels.perform(procedure(bound.getsockname(), address))
    assert found == [ConnectError, None, Received]
    assert paused == [2.5]


def test_a_request_that_is_forgotten() -> None:
    with serving(echo) as address:
        connection = BlockingChannel(address)
        left = connection.submit(1, {}, b"left")
        connection.forget(left)
        wanted = connection.submit(1, {}, b"wanted")
        assert connection.wait(wanted, 10).body == b"wanted"
        with pytest.raises(ClientError, match="not waited for"):
            connection.take(left)
        connection.close()


def test_the_time_of_a_request_runs_from_when_it_is_waited_for() -> None:
    """A pull ahead may lie there for long; one with a time of its own ends the connection."""
    stop = threading.Event()
    with serving(lambda c: stop.wait(60)) as address:
        connection = BlockingChannel(address)
        ahead = connection.submit(1, {})
        late = connection.submit(1, {}, timeout=0.0)
        connection.receive()
        with pytest.raises(RequestTimeoutError):
            connection.take(late)
        with pytest.raises(ConnectError, match="did not answer in time"):
            connection.wait(ahead, 10)
        connection.close()
        stop.set()


def test_the_time_of_an_answer_begins_when_its_request_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large request on a slow line may take longer to leave than its answer may take."""
    late = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0])
    monkeypatch.setattr(pyrmq.net.client.blocking_channel, "time", clock)

    def slow(connection: socket.socket) -> None:
        reader = FrameReader()
        while data := connection.recv(1 << 16):
            late[0] = 50.0
            for command in reader.feed(data):
                connection.sendall(encode(command.reply(0, {}, b"stored")))

    monkeypatch.setattr(pyrmq.net.client.blocking_channel, "STALL_TIMEOUT", 100.0)
    with serving(slow) as address:
        connection = BlockingChannel(address)
        # More than sockets buffer: the clock has moved on before all of it has left.
        request = connection.submit(1, {}, bytes(15 << 20), timeout=30.0)

        def answered() -> Received | None:
            connection.receive()
            return connection.take(request)

        answer = eventually(answered, "the answer came")
        assert answer is not None
        assert answer.body == b"stored"
        connection.close()


@pytest.mark.parametrize("host", ["..", "a" * 64, "\ud800", "\u202e"])
def test_a_host_that_can_be_none(host: str) -> None:
    """Name servers hand on what brokers call their addresses."""
    with pytest.raises(ConnectError, match="cannot connect to"):
        BlockingChannel((host, 10911))
