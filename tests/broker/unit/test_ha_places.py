"""Who has a place on the HA port: registered slaves, and no more connections than there are."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.replication.master import GRACE, MAX_SLAVES, HaPlaces, HaServer
from pyrmq.broker.replication.peers import REMEMBERED, Peers
from pyrmq.broker.replication.same_log import places_to_compare
from pyrmq.net.address import Address, parse_address
from pyrmq.net.client.channel import Channels

OWN = ("10.0.0.1", 10911)
nobody = cast("Channels", None)


class Known(Peers):
    """Name servers that list `registered`; `answering`: whether they do."""

    def __init__(self, *registered: Address, own: Address = OWN, namesrv: str = "n:1") -> None:
        super().__init__(LiveConfig(BrokerConfig(namesrv_addr=namesrv)), own)
        self.registered = list(registered)
        self.answering = True
        self.looks = 0

    async def _look(self, channels: Channels) -> None:
        self.looks += 1
        await trio.sleep(0.1)
        self.slaves = list(self.registered) if self.answering else []
        self.answered = self.answered or self.answering
        await self._remember()


@pytest.mark.parametrize(
    ("slaves", "allow_list", "peer", "expected"),
    [
        ([], "", "10.0.0.2", 0),
        (["10.0.0.2:1"], "", "10.0.0.2", 1),
        (["10.0.0.2:1"], "", "::ffff:10.0.0.2", 1),
        (["10.0.0.2:1"], "", "10.0.0.3", 0),
        (["10.0.0.2:1", "10.0.0.2:2", "10.0.0.3:1"], "", "10.0.0.2", 2),
        (["[fd00::2]:1"], "", "fd00::2", 1),
        (["localhost:1"], "", "127.0.0.1", 1),
        (["no-such-host.invalid:1"], "", "127.0.0.1", 0),
        # What comes from this machine may come by any of its addresses.
        (["10.0.0.1:2"], "", "127.0.0.1", 1),
        (["127.0.0.1:2"], "", "10.0.0.1", 1),
        (["10.0.0.2:1"], "", "127.0.0.1", 0),
        # haAddressAllowList decides alone: slaves behind another address than they register.
        (["172.16.0.2:1", "172.16.0.3:1"], "10.0.0.0/24", "10.0.0.9", 2),
        ([], "10.0.0.0/24", "10.0.0.9", 1),
        (["10.0.0.9:1"], "10.0.0.0/24", "10.0.0.9", 1),
    ],
)
async def test_places_as_a_table(
    slaves: list[str], allow_list: str, peer: str, expected: int
) -> None:
    peers = Known(*map(parse_address, slaves))
    await peers.look(nobody)
    assert HaPlaces(peers, allow_list).known((peer, 5)) == expected


def test_without_name_servers_nobody_can_be_registered() -> None:
    assert HaPlaces(Known(namesrv="")).known(("10.9.9.9", 5)) == MAX_SLAVES
    assert HaPlaces(Known(), "10.0.0.5").why_not(("10.9.9.9", 5))


async def test_before_any_name_server_has_answered_everybody_has_a_place() -> None:
    peers = Known()
    peers.answering = False
    checked = HaPlaces(peers)
    assert await checked.of(nobody, ("10.9.9.9", 5), 0) == MAX_SLAVES
    assert not checked.is_certain
    peers.answering = True
    await peers.look(nobody)
    assert checked.is_certain
    assert await checked.of(nobody, ("10.9.9.9", 5), 0) == 0


async def test_who_is_not_known_is_asked_for_once_for_all(autojump_clock: MockClock) -> None:
    peers = Known(("10.0.0.2", 1))
    checked = HaPlaces(peers)
    await peers.look(nobody)
    found: list[int] = []

    async def ask(peer: str, taken: int) -> None:
        found.append(await checked.of(nobody, (peer, 5), taken))

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(ask, f"10.1.0.{n}", 0)
    assert found == [0] * 20
    assert peers.looks <= 3
    # One that is known has its place at once; a second connection may be of a second slave.
    looks = peers.looks
    assert await checked.of(nobody, ("10.0.0.2", 5), 0) == 1
    assert peers.looks == looks
    peers.registered.append(("10.0.0.2", 2))
    assert await checked.of(nobody, ("10.0.0.2", 6), 1) == 2


async def test_a_slave_is_remembered_while_a_name_server_starts_again(
    autojump_clock: MockClock,
) -> None:
    peers = Known(("10.0.0.2", 1))
    await peers.look(nobody)
    peers.registered.clear()
    await trio.sleep(REMEMBERED - 1)
    await peers.look(nobody)
    assert peers.slaves_at(ip_address("10.0.0.2")) == 1
    await trio.sleep(2)
    await peers.look(nobody)
    assert peers.slaves_at(ip_address("10.0.0.2")) == 0


class Master:
    """Serves connections by reading them to their end."""

    def __init__(self) -> None:
        self.serving: set[str] = set()
        self.most = 0
        self.stopped: list[socket.socket] = []

    def serve(self, fd: int, peer: str) -> str | None:
        with socket.socket(fileno=fd) as sock:
            sock.setblocking(True)
            self.stopped.append(sock)
            self.serving.add(peer)
            self.most = max(self.most, len(self.serving))
            while sock.recv(100):
                pass
            self.serving.discard(peer)
        return None

    def stop(self) -> None:
        for sock in self.stopped:
            if sock.fileno() >= 0:
                sock.shutdown(socket.SHUT_RDWR)

    def look_again(self) -> None:
        pass


def server_of(peers: Peers) -> tuple[HaServer, Master, Address]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    master = Master()
    server = HaServer([listening], cast("Any", master), HaPlaces(peers))
    return server, master, listening.getsockname()


async def until(done: Any) -> None:
    with trio.fail_after(20):
        while not done():  # noqa: ASYNC110 - threads change it
            await trio.sleep(0.005)


async def connected(address: Address, count: int) -> Iterable[trio.SocketStream]:
    return [await trio.open_tcp_stream(*address) for _ in range(count)]


async def test_a_slave_that_comes_again_has_the_place_of_its_old_connection() -> None:
    peers = Known(("127.0.0.1", 1), ("127.0.0.1", 2))
    await peers.look(nobody)
    server, master, address = server_of(peers)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        streams = list(await connected(address, 12))
        with trio.fail_after(20):
            for stream in streams[:10]:
                assert await stream.receive_some(1) == b""
        await until(lambda: len(master.serving) == 2)
        assert master.most == 2, "two connections of one slave never count together"
        nursery.cancel_scope.cancel()
    for stream in streams:
        await stream.aclose()


async def test_strangers_of_the_first_moments_go_once_it_is_known_who_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers = Known()
    peers.answering = False
    server, master, address = server_of(peers)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        (stream,) = await connected(address, 1)
        await until(lambda: len(master.serving) == 1)
        peers.answered = True
        server._end_strangers()
        assert len(master.serving) == 1, "it may be about to be registered"
        monkeypatch.setattr("pyrmq.broker.replication.master.GRACE", -GRACE)
        server._end_strangers()
        with trio.fail_after(20):
            assert await stream.receive_some(1) == b""
        nursery.cancel_scope.cancel()
    await stream.aclose()


def test_where_logs_are_compared() -> None:
    assert list(places_to_compare(0, 0, 100)) == []
    assert list(places_to_compare(0, 1, 100)) == [0]
    assert list(places_to_compare(0, 100, 100)) == [0]
    assert list(places_to_compare(0, 101, 100)) == [100, 0]
    assert list(places_to_compare(250, 900, 100)) == [800, 700, 600, 500, 400, 300, 200]
    many = list(places_to_compare(0, 1 << 50, 1 << 30))
    assert many[:8] == [(1 << 50) - n * (1 << 30) for n in range(1, 9)]
    assert many[-1] == 0
    assert len(many) < 40
