"""Connections that dawdle, vanish, say nothing, or say it one byte at a time."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import pytest

from pyrmq.net.server import descriptors
from tests.support.client import (
    GET_MAX_OFFSET,
    HEART_BEAT,
    Client,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.server import Address, ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command, encode
from tests.system.hostile.probe import PATIENCE, Probe

TOPIC = "PieceTopic"
SILENT = 2000


def exchange(serialize: int) -> bytes:
    """One of each kind of request, as one stream; opaque 1, 2, 3, ..."""
    commands = [
        send_command(TOPIC, b"one", serialize=serialize),
        batch_command(TOPIC, [(b"two", {"TAGS": "A"}), (b"three", {})], serialize=serialize),
        send_command(TOPIC, b"four" * 500, code=10, serialize=serialize),
        send_command("a/b", serialize=serialize),
        Command(9999, serialize=serialize),
        Command(GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "3"}, serialize=serialize),
        Command(HEART_BEAT, {}, b'{"clientID":"c","consumerDataSet":[]}', serialize=serialize),
        pull_command(TOPIC, 3, 0, serialize=serialize),
    ]
    for opaque, command in enumerate(commands, 1):
        command.opaque = opaque
    return b"".join(map(encode, commands))


def outcome(client: Client, data: bytes, sizes: list[int]) -> dict[int, int]:
    """Send the stream in pieces of these sizes; answer codes by opaque."""
    at = 0
    for size in sizes:
        client.send_raw(data[at : at + size])
        at += size
    client.send_raw(data[at:])
    answers = [client.receive() for _ in range(8)]
    return {answer.opaque: answer.code for answer in answers}


@pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
@pytest.mark.parametrize("pieces", ["whole", "bytes", "random-1", "random-2", "random-3"])
def test_pieces_make_no_difference(client: Client, pieces: str, serialize: int) -> None:
    data = exchange(serialize)
    sizes = []
    if pieces == "bytes":
        sizes = [1] * len(data)
    elif pieces != "whole":
        chance = random.Random(pieces)
        while sum(sizes) < len(data):
            sizes.append(chance.choice((1, 2, 3, 7, 50, 300)))
    codes = outcome(client, data, sizes)
    assert codes == {1: 0, 2: 0, 3: 0, 4: 29, 5: 3, 6: 0, 7: 0, 8: 19}


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 8, 20, 200, -1])
def test_half_a_frame_then_silence(server: ServerProcess, probe: Probe, cut: int) -> None:
    """The half holds nobody up, and when the rest comes after all it is answered."""
    command = send_command(TOPIC, b"late")
    command.opaque = 42
    data = encode(command)
    with Client(server.broker) as dawdler:
        dawdler.send_raw(data[:cut])
        probe.assert_serving()
        dawdler.send_raw(data[cut:])
        answer = dawdler.receive()
        assert (answer.code, answer.opaque) == (0, 42)


@pytest.mark.parametrize("cut", [0, 1, 4, 8, 100])
@pytest.mark.parametrize("way", ["close", "reset", "finish"])
def test_half_a_frame_then_gone(server: ServerProcess, way: str, cut: int) -> None:
    data = encode(send_command(TOPIC, b"never"))[:cut]
    with Client(server.broker) as client:
        before = client.max_offset(TOPIC, 0)
        gone = Client(server.broker)
        gone.send_raw(data)
        getattr(gone, way)()
        if way == "finish":
            assert gone.until_closed(PATIENCE) == []
            gone.close()
        assert client.max_offset(TOPIC, 0) == before


def test_large_body_in_small_pieces(client: Client) -> None:
    """A 4 MiB message in 1 KiB pieces is stored whole."""
    body = random.Random(4).randbytes(4 * 1024 * 1024)
    command = send_command("PieceLarge", body)
    command.opaque = 7
    data = encode(command)
    for at in range(0, len(data), 1024):
        client.send_raw(data[at : at + 1024])
    answer = client.receive()
    assert (answer.code, answer.opaque) == (0, 7)
    assert client.pull("PieceLarge", 0, int(answer.ext["queueOffset"])).records[0].body == body


def silent_limit() -> int:
    """Raise our own soft limit of open files; how many connections both sides can afford."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < SILENT + 500:
        soft = hard if hard != resource.RLIM_INFINITY and hard < 65_536 else 65_536
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(SILENT, soft - 500)


def server_limit(server: ServerProcess) -> int:
    """The server's own soft limit of open files."""
    for line in Path(f"/proc/{server.pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    raise AssertionError("no limit of open files")


@pytest.mark.parametrize("said", [b"", b"\0", b"\0\0\1\0\0\0"], ids=["nothing", "byte", "head"])
@pytest.mark.parametrize("port", ["broker", "namesrv"])
def test_silent_connections(server: ServerProcess, probe: Probe, port: str, said: bytes) -> None:
    """Thousands that say nothing: at most 10 KiB each, and the others are served."""
    count = min(silent_limit(), server_limit(server) - descriptors.RESERVE - 200)
    address: Address = getattr(server, port)
    files = server.open_files()
    before = server.status_kib("RssAnon")
    silent = [Client(address) for _ in range(count)]
    try:
        for connection in silent if said else ():
            connection.send_raw(said)
        expected = files + count - 20  # connections of earlier cases may just be closing
        eventually(server.open_files, "all are accepted", until=lambda found: found >= expected)
        grown = server.status_kib("RssAnon") - before
        assert grown < 10 * count + 8 * 1024, f"{count} silent connections cost {grown} KiB"
        probe.assert_serving()
        with Client(server.broker) as client:
            for _ in range(200):
                assert client.send(TOPIC).code == 0
    finally:
        for connection in silent:
            connection.close()
        what = "the silent connections are closed"
        eventually(server.open_files, what, until=lambda found: found <= files + 2)


@pytest.mark.parametrize("way", ["close", "reset"])
def test_churn_leaks_nothing(server: ServerProcess, probe: Probe, way: str) -> None:
    """1,000 connections that come, ask or not, and go before the answer."""
    files = server.open_files()
    before = probe.grown_kib()
    for i in range(1000):
        client = Client(server.broker)
        if i % 2:
            client.post(pull_command(TOPIC, 0, 0))
        getattr(client, way)()
    what = "no file descriptor leaks"
    eventually(server.open_files, what, until=lambda found: found <= files + 2)
    probe.assert_memory_bounded(before + 16 * 1024)


def closed(connection: Client) -> bool:
    """Whether the peer has closed, with nothing said before."""
    try:
        return connection.until_closed(0.05) == []
    except TimeoutError:
        return False


def test_idle_connection_is_closed(tmp_path: Path) -> None:
    """Neither read nor written for serverChannelMaxIdleTimeSeconds: closed; a used one stays."""
    conf = "serverChannelMaxIdleTimeSeconds=2\n"
    with (
        ServerProcess(tmp_path / "store", conf=conf) as server,
        Client(server.broker) as idle,
        Client(server.broker) as half,
        Client(server.broker) as used,
    ):
        half.send_raw(b"\0\0\1\0")

        def look() -> list[bool]:
            assert used.send(TOPIC).code == 0
            return [closed(idle), closed(half)]

        eventually(look, "both idle ones are closed", until=all)
        assert used.send(TOPIC).code == 0, "it is open for longer than it might be idle"
