"""Requests that could be read in two ways: what is checked is what is done."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import trio

from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support import wire
from tests.support.client import send_command
from tests.support.fixtures import Serve
from tests.support.signatures import signature
from tests.support.wire import Command

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture
async def guarded(serve: Serve) -> AsyncIterator[Running]:
    async with serve(**ON) as running:
        at = format_address(running.broker_address)
        async with admin_of(running, "root", "r00t-secret") as root:
            await root.users.create(User("alice", "secret"), broker=at)
            await root.acls.create(Acl("User:alice", (Entry("Topic:mine", ("Pub",)),)), broker=at)
            await root.link.ask(at, 310, send_command("other").ext, b"x")
        yield running


def _ask(address: tuple[str, int], frame: bytes) -> Command:
    reader = wire.FrameReader()
    with socket.create_connection(address, 30) as sock:
        sock.settimeout(30)
        sock.sendall(frame)
        while True:
            for found in reader.feed(sock.recv(1 << 16)):
                return found


async def _stored(running: Running, topic: str) -> int:
    return sum(running.broker.parts.store.queue_range(topic, queue)[1] for queue in range(4))


@pytest.mark.parametrize("names", [('"b"', '"\\u0062"'), ('"\\u0062"', '"b"')])
async def test_a_name_that_is_escaped_is_the_same_name(
    guarded: Running, names: tuple[str, str]
) -> None:
    """The topic is there twice, the second time escaped: the last one counts, for the check and for
    what stores the message."""
    before = await _stored(guarded, "other")
    command = send_command("mine")
    command.ext["AccessKey"] = "alice"
    command.ext["Signature"] = signature(command, "secret")
    header = wire.json_header(command).decode()
    header = header.replace('"b":"mine"', f'{names[0]}:"other",{names[1]}:"mine"')
    for _ in range(3):
        answer = await trio.to_thread.run_sync(
            _ask, guarded.broker_address, wire.frame(header.encode(), b"hello")
        )
    assert await _stored(guarded, "other") == before
    assert answer.code == 0, answer
