"""The trio end of a client connection: many callers on one connection, and how it ends."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.engine import Command as Received
from pyrmq.errors import ClientError, ConnectError, RequestTimeoutError, ResponseError
from pyrmq.net.address import Address
from pyrmq.net.client.channel import WRITE_TIMEOUT, Channel, Channels
from pyrmq.net.client.procedure import Invoke, Pause, Procedure
from pyrmq.net.command import Response
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.scripted.streams import Stream, StreamBroker, StreamCluster
from tests.support.wire import Command, encode

A, B = ("broker-a", 10911), ("broker-b", 10911)


@pytest.fixture
async def channels(cluster: StreamCluster) -> AsyncIterator[Channels]:
    async with Channels() as running:
        yield running


async def test_callers_share_a_connection(broker: StreamBroker, channels: Channels) -> None:
    got: dict[int, str] = {}
    broker.change[1] = lambda c: c.reply(0, c.ext)

    async def call(n: int) -> None:
        channel = await channels.get(A)
        got[n] = (await channel.call(1, {"n": n})).ext["n"]

    async with trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(call, n)
    assert got == {n: str(n) for n in range(50)}
    assert len(broker.connections) == 1


async def test_answers_out_of_order(broker: StreamBroker, channels: Channels) -> None:
    broker.change[1] = lambda c: SILENCE
    channel, got = await channels.get(A), []

    async def call(n: int) -> None:
        got.append(((await channel.call(1, {"n": n})).ext["n"], str(n)))

    async with trio.open_nursery() as nursery:
        for n in range(5):
            nursery.start_soon(call, n)
        await trio.testing.wait_all_tasks_blocked()
        (connection,) = broker.connections
        for asked in sorted(connection.requests, key=lambda c: -int(c.ext["n"])):
            await connection.send(asked.reply(0, asked.ext))
            await trio.testing.wait_all_tasks_blocked()
    assert got == [(str(n), str(n)) for n in (4, 3, 2, 1, 0)]


async def test_a_connection_without_a_word_is_given_up(
    broker: StreamBroker, channels: Channels, clock: MockClock
) -> None:
    broker.change[1] = lambda c: SILENCE
    channel = await channels.get(A)
    await trio.sleep(1)
    with pytest.raises(RequestTimeoutError, match="broker-a:10911 did not answer in 3 s"):
        await channel.call(1)
    assert channel.closed
    with pytest.raises(ConnectError, match="is gone: it did not answer in time"):
        await channel.call(2)
    again = await channels.get(A)
    assert again is not channel
    assert (await again.call(2)).code == 0


async def test_what_arrives_meanwhile_keeps_it(
    broker: StreamBroker, channels: Channels, clock: MockClock
) -> None:
    broker.change[1] = lambda c: SILENCE
    channel = await channels.get(A)

    async def another() -> None:
        await trio.sleep(1)
        assert (await channel.call(2)).code == 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(another)
        with pytest.raises(RequestTimeoutError):
            await channel.call(1)
    assert await channels.get(A) is channel


async def test_a_caller_that_leaves(broker: StreamBroker, channels: Channels) -> None:
    broker.change[1] = lambda c: SILENCE
    channel = await channels.get(A)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.call, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert channel._protocol.in_flight == 0
    (connection,) = broker.connections
    await connection.send(connection.requests[0].reply(0))
    assert (await channel.call(2)).code == 0


@pytest.mark.parametrize("garbage", [b"", bytes(8), b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_how_a_server_ends_it(
    broker: StreamBroker, channels: Channels, garbage: bytes
) -> None:
    """Hanging up, or something that is no frame."""
    broker.change[1] = lambda c: SILENCE if garbage else HANG_UP
    channel = await channels.get(A)
    failed: list[str] = []

    async def call() -> None:
        with pytest.raises(ConnectError, match="connection to broker-a:10911 is gone") as error:
            await channel.call(1)
        failed.append(str(error.value))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        if garbage:
            await broker.connections[0].stream.send_all(garbage)
    reason = "it broke the protocol" if garbage else "the other end hung up"
    assert [reason in text for text in failed] == [True, True]
    assert (await (await channels.get(A)).call(2)).code == 0


async def test_a_server_that_takes_nothing(
    channels: Channels, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    async def send_all(data: bytes) -> None:
        await trio.sleep_forever()

    channel = await channels.get(A)
    monkeypatch.setattr(channel._stream, "send_all", send_all)
    began = trio.current_time()
    with pytest.raises(ConnectError, match="broker-a:10911 is gone: it takes no data"):
        await channel.oneway(1)
    assert trio.current_time() - began == WRITE_TIMEOUT
    assert channel.closed


async def test_a_server_that_takes_nothing_holds_nobody_past_his_time(
    channels: Channels, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    """Also those behind it; the connection is given up."""

    async def send_all(data: bytes) -> None:
        await trio.sleep_forever()

    channel = await channels.get(A)
    await trio.sleep(1)
    monkeypatch.setattr(channel._stream, "send_all", send_all)
    began = trio.current_time()
    ended: list[float] = []

    async def call() -> None:
        with pytest.raises((RequestTimeoutError, ConnectError)):
            await channel.call(1, body=bytes(1 << 20), timeout=1)
        ended.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
    assert ended == [1, 1, 1, 1]
    assert channel.closed


async def test_frames_leave_together_and_whole(
    broker: StreamBroker, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes during a write leaves with the next one, also for a caller that has left."""
    channel = await channels.get(A)
    await channel.call(1)
    writes: list[int] = []
    go_on = trio.Event()
    send_all = channel._stream.send_all

    async def slow(data: bytes) -> None:
        writes.append(len(data))
        await go_on.wait()
        await send_all(data)

    monkeypatch.setattr(channel._stream, "send_all", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.call, 2)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0) as leaving:
            await channel.call(3, timeout=100)
        assert leaving.cancelled_caught
        for _ in range(20):
            nursery.start_soon(channel.call, 4)
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    assert len(writes) == 2
    assert len(broker.requests()) == 23


async def test_requests_of_the_server(cluster: StreamCluster, broker: StreamBroker) -> None:
    async def handle(channel: Channel, command: Received) -> Response | None:
        if command.code == 41:
            raise ValueError("no")
        return Response(0, None, {"echo": command.ext["n"]}) if command.code == 40 else None

    async with Channels(handle) as running:
        channel = await running.get(A)
        await channel.call(2)
        (connection,) = broker.connections
        connection.requests.clear()
        for code in (40, 41, 42):
            await connection.send(Command(code, {"n": str(code)}, opaque=code))
        await channel.call(3)
        await trio.testing.wait_all_tasks_blocked()
        answers = {c.opaque: (c.code, c.ext) for c in connection.requests if c.is_response}
        assert answers == {40: (0, {"echo": "40"}), 41: (1, {})}
        assert channel._protocol.server_requests == 0


async def test_answers_with_half_characters(cluster: StreamCluster, broker: StreamBroker) -> None:
    """Half characters, as file names have them, are no UTF-8: they come as `?` and end no
    connection."""

    async def handle(channel: Channel, command: Received) -> Response | None:
        if command.code == 41:
            raise ValueError("name \udc80")
        return Response(0, "name \udc80")

    async with Channels(handle) as running:
        channel = await running.get(A)
        await channel.call(2)
        (connection,) = broker.connections
        for code in (40, 41):
            await connection.send(Command(code, {}, opaque=code))
        await channel.call(3)
        await trio.testing.wait_all_tasks_blocked()
        answers = {c.opaque: (c.code, c.remark) for c in connection.requests if c.is_response}
        assert answers == {40: (0, "name ?"), 41: (1, "ValueError: name ?")}


async def test_requests_of_the_server_that_nobody_handles_pile_up_nowhere(
    cluster: StreamCluster, broker: StreamBroker, channels: Channels
) -> None:
    channel = await channels.get(A)
    await channel.call(2)
    for _ in range(3):
        many = b"".join(encode(Command(40, opaque=n)) for n in range(2000))
        await broker.connections[0].stream.send_all(many)
    assert (await channel.call(2)).code == 0
    assert channel._protocol.server_requests == channel._protocol.dropped_server_requests == 0


async def test_whoever_wants_to_know_hears_that_it_ended(
    cluster: StreamCluster, broker: StreamBroker
) -> None:
    ended: list[Channel] = []
    async with Channels(on_closed=ended.append) as running:
        channel = await running.get(A)
        await channel.call(2)
        await broker.connections[0].close()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [channel]
        other = await running.get(B)
    assert ended == [channel, other]
    with pytest.raises(ClientError, match="inside of its `async with`"):
        await running.get(A)


async def test_that_it_ended_is_heard_while_a_request_of_the_server_takes_its_time(
    cluster: StreamCluster, broker: StreamBroker
) -> None:
    ended: list[Channel] = []

    async def handle(channel: Channel, command: Received) -> None:
        await trio.sleep_forever()

    async with Channels(handle, ended.append) as running:
        channel = await running.get(A)
        await channel.call(2)
        await broker.connections[0].send(Command(40, opaque=1))
        await trio.testing.wait_all_tasks_blocked()
        await broker.connections[0].close()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [channel]


async def test_a_connection_that_comes_when_the_client_was_left(
    cluster: StreamCluster, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(host: str, port: int) -> Stream:
        await trio.sleep(2)
        streams.append(await cluster.connect(host, port))
        return streams[0]

    async def get() -> None:
        with pytest.raises(ClientError, match="was left"):
            await running.get(A)

    streams: list[Stream] = []
    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    async with trio.open_nursery() as nursery, Channels() as running:
        nursery.start_soon(get)
        await trio.sleep(1)
    with pytest.raises(trio.ClosedResourceError):
        await streams[0].send_all(b"x")


async def test_a_procedure(
    cluster: StreamCluster, broker: StreamBroker, channels: Channels, clock: MockClock
) -> None:
    """Steps are done in order; what a step came to is what it returns."""
    cluster.down.add("broker-b")
    broker.change[5] = lambda c: SILENCE
    broker.change[6] = lambda c: c.reply(2)

    def ask(address: Address, code: int) -> Invoke:
        return Invoke(address, code, {}, 1.0)

    def procedure() -> Procedure[list[object]]:
        return [
            type((yield ask(B, 4))),
            type((yield ask(A, 5))),
            (yield Pause(2.5)),
            (yield ask(A, 6)).code,  # type: ignore[union-attr]
        ]

    began = trio.current_time()
    assert await channels.perform(procedure()) == [ConnectError, RequestTimeoutError, None, 2]
    assert trio.current_time() - began == 3.5


async def test_what_a_procedure_raises(channels: Channels) -> None:
    def procedure() -> Procedure[int]:
        answer = yield Invoke(A, 7, {}, 1.0)
        raise ResponseError.of(7, str(answer))

    with pytest.raises(ResponseError, match="CODE 7"):
        await channels.perform(procedure())


async def test_a_host_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(host: str, port: int) -> trio.abc.Stream:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    async with Channels() as running:
        with pytest.raises(ConnectError, match="the host name 'mq' does not resolve: Name or"):
            await running.get(("mq", 10911))


@pytest.mark.parametrize("host", ["..", "a" * 64, "\ud800", "\u202e"])
async def test_a_host_that_can_be_none(host: str) -> None:
    """Name servers hand on what brokers call their addresses."""
    async with Channels() as running:
        with pytest.raises(ConnectError, match="cannot connect to"):
            await running.get((host, 10911))
