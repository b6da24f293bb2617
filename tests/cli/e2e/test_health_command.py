"""`pyrmq health`: the health of a server for probes, and what answers that is no server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.command import Serving, run
from tests.support.ports import free_port_triple
from tests.support.waiting import eventually

UPDATE_BROKER_CONFIG = 25


def health(url: str, *args: str) -> tuple[int, str, str]:
    done = run("health", "--url", url, *args, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_broker_and_its_name_server(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    port = free_port_triple()
    conf.write_text(f"metricsExporterType=PROM\nmetricsPromExporterPort={port}\n")
    store = str(tmp_path / "store")
    free = ("--namesrv-port", "0", "--broker-port", "0")
    with Serving(tmp_path / "log", "server", "-c", str(conf), "--store", store, *free) as server:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: health(f"{url}/readyz")[0], "it is ready", until=lambda code: code == 0)
        code, out, err = health(f"{url}/readyz")
        assert (code, err) == (0, "")
        assert out == "broker broker-a is healthy (7 checks)\n"
        with Client(server.address("broker")) as client:
            assert client.call(UPDATE_BROKER_CONFIG, b"brokerDrain=WRITE").code == 0
        code, out, err = health(f"{url}/readyz")
        assert (code, err) == (1, "")
        assert out.startswith("draining: the broker is drained (brokerDrain=WRITE); ")
        assert "pyrmq admin broker bring-back" in out
        code, out, _ = health(f"{url}/readyz", "-o", "json")
        assert code == 1
        assert json.loads(out)["status"] == "failing"
        assert health(f"{url}/healthz")[0] == 0, "it lives"
    code, out, err = health(f"{url}/readyz")
    assert (code, out) == (2, "")
    assert "nothing answers at" in err
    assert "metricsExporterType=PROM" in err


@contextmanager
def answering(work: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection, which does as `work` says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                work(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/readyz"
        thread.join(60)


def reply(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(head + body)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (reply(b"", b"ssh-2.0\r\n"), "no HTTP server"),
        (reply(b"<html>"), "no health report"),
        (reply(b"[]"), "no health report"),
        (reply(b'{"checks": [1]}'), "of another version"),
        (reply(b"[" * 60_000), "no health report"),
    ],
)
def test_what_is_no_server_of_pyrmq(answer: Callable[[socket.socket], None], text: str) -> None:
    with answering(answer) as url:
        code, out, err = health(url)
    assert (code, out) == (2, "")
    assert text in err
    assert len(err.splitlines()) == 1


def test_an_answer_that_never_ends_is_cut() -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            return  # the client has read enough

    with answering(flood) as url:
        assert health(url)[0] == 2


def test_one_that_hangs_is_not_waited_for() -> None:
    gone = threading.Event()

    def hang(connection: socket.socket) -> None:
        connection.recv(1)  # until the client goes
        gone.set()

    with answering(hang) as url:
        code, _, err = health(url, "--timeout", "0.3")
    assert code == 2
    assert "did not answer in 0.3 s" in err
    assert gone.is_set()


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:5557", "http://[::1", "http://h:99999/"])
def test_an_url_that_is_none(url: str) -> None:
    code, _, err = health(url)
    assert code == 2
    assert "--url" in err


def test_escapes_in_an_answer_reach_no_terminal() -> None:
    check = {"ok": False, "name": "\x1b[2J", "what": "w", "advice": "a"}
    body = json.dumps({"server": "s", "checks": [check]}).encode()
    with answering(reply(body, b"HTTP/1.1 503 No\r\n\r\n")) as url:
        code, out, _ = health(url)
    assert code == 1
    assert out == r"\x1b[2J: w; a" + "\n"
