"""`pyrmq console` as a process: its ready line, TLS, clients that are slow, and its end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.console.browser import ConsoleProcess
from tests.support.certificates import Authority
from tests.support.command import Serving, run
from tests.support.waiting import eventually

AWAY = "127.0.0.1:1"
"""Where no name server is."""


def status(url: str, path: str = "/health", context: ssl.SSLContext | None = None) -> int:
    at = urlsplit(url)
    connection = (
        http.client.HTTPConnection(at.netloc, timeout=30)
        if context is None
        else http.client.HTTPSConnection(at.netloc, timeout=30, context=context)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_serves_while_the_cluster_is_away_and_stops_in_order(tmp_path: Path) -> None:
    with (
        ConsoleProcess(AWAY, log=tmp_path / "log") as one,
        ConsoleProcess(AWAY, log=tmp_path / "log") as other,
    ):
        assert one.url != other.url
        assert status(one.url) == status(other.url) == 200
        # A connection that is open does not hold up its end.
        at = urlsplit(one.url)
        idle = http.client.HTTPConnection(at.netloc)
        idle.request("GET", "/health")
        idle.getresponse().read()
        begun = socket.create_connection((at.hostname, at.port))
        begun.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n")
    begun.close()
    idle.close()
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    assert "ERROR" not in said


def test_a_client_that_takes_nothing_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with ConsoleProcess(AWAY, log=tmp_path / "log") as console:
        at = urlsplit(console.url)
        with socket.socket() as greedy:
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.connect((at.hostname, at.port))
            request = b"GET /static/htmx.min.js HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            greedy.setblocking(False)
            asked = 0
            with suppress(BlockingIOError):
                while True:  # until the server reads no more, because it cannot write
                    asked += greedy.send(request * 100)
            assert status(console.url) == 200
            console.__exit__(None, None, None)
            assert asked > 0
            console.__enter__()


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("127.0.0.1")
    words = ("--cert", str(own.cert), "--key", str(own.key))
    with ConsoleProcess(AWAY, *words, log=tmp_path / "log") as console:
        assert console.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(authority.file))
        context.set_alpn_protocols(["http/1.1"])
        assert status(console.url, context=context) == 200
        at = urlsplit(console.url)
        # Somebody who speaks no TLS, and somebody who says nothing, keep nobody out.
        silent = socket.create_connection((at.hostname, at.port))
        with socket.create_connection((at.hostname, at.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"200" not in plain.recv(1000)
        assert status(console.url, context=context) == 200
        silent.close()


def test_requests_that_are_none(tmp_path: Path) -> None:
    with ConsoleProcess(AWAY, log=tmp_path / "log") as console:
        at = urlsplit(console.url)
        for raw in (
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",  # no host
            b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n",
            b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: a.example\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n"
            b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n",
        ):
            with socket.create_connection((at.hostname, at.port), timeout=30) as connection:
                connection.sendall(raw)
                answer = connection.recv(100)
                assert answer == b"" or answer.split()[1].startswith(b"4"), raw[:100]
        slow = [socket.create_connection((at.hostname, at.port)) for _ in range(200)]
        for connection in slow:
            connection.sendall(
                b"POST /room HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\nx"
            )
        assert status(console.url) == 200
        for connection in slow:
            connection.close()
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--bind", "0.0.0.0:0"), b"--login broker"),
        (("--bind", "127.0.0.1:0", "--login", "/nowhere/passwords"), b"passwords set"),
        (("--bind", "127.0.0.1:0", "--key", "k"), b"--cert"),
        (("--bind", "127.0.0.1:0", "--cert", "/dev/null"), b"--cert /dev/null"),
        (("--bind", "127.0.0.1:0", "--url", "console.example"), b"--url"),
        (("--bind", "nonsense"), b"--bind"),
        (("-n", "", "--bind", "127.0.0.1:0"), b"name server"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], text: bytes) -> None:
    result = run("console", *words)
    assert result.returncode == 1
    assert text in result.stderr
    assert b"Traceback" not in result.stderr


def test_passwords(tmp_path: Path) -> None:
    file = str(tmp_path / "passwords")

    def passwords(*words: str, typed: str = "") -> tuple[int, str]:
        result = run("console", "passwords", *words, stdin=typed.encode())
        return result.returncode, (result.stdout + result.stderr).decode()

    assert passwords("set", file, "ann", "--role", "admin", typed="correct horse\n")[0] == 0
    assert passwords("set", file, "rob", typed="battery staple\n") == (0, "rob: read-only\n")
    assert passwords("set", file, "ann", typed="another one\n") == (0, "ann: admin\n")
    assert passwords("list", file) == (0, "ann\tadmin\nrob\tread-only\n")
    code, said = passwords("set", file, "rob", typed="short\n")
    assert code == 1
    assert "8 to 1024" in said
    assert passwords("remove", file, "rob")[0] == 0
    code, said = passwords("remove", file, "rob")
    assert code == 1
    assert "no user rob" in said
    assert passwords("list", file) == (0, "ann\tadmin\n")


def test_beside_a_server(tmp_path: Path) -> None:
    """It is started again where it was when it dies; the server serves on, and stops it at its
    end."""
    words = ("--namesrv-port", "0", "--broker-port", "0", "--console", "127.0.0.1:0")
    with Serving(tmp_path / "log", "server", "--store", str(tmp_path / "store"), *words) as server:
        url, pid = server.facts["console"], server.process.pid
        assert status(url) == 200
        (child,) = children(pid)
        os.kill(child, signal.SIGKILL)
        eventually(lambda: serves(url), "the console serves again")
        (again,) = children(pid)
        assert again != child
        assert server.stop(signal.SIGTERM) == 0
        assert not Path(f"/proc/{again}").exists()
        assert "is started again in" in server.stderr()


def test_a_console_that_cannot_start_beside_a_server(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    words = ("--namesrv-port", "0", "--broker-port", "0", "--console", "0.0.0.0:0")
    result = run("server", "--store", store, *words)
    assert result.returncode == 1
    assert b"the console cannot start" in result.stderr
    assert b"ready" not in result.stdout
    assert not (tmp_path / "store" / "abort").exists()  # it was left in order


def children(pid: int) -> list[int]:
    """Also such that a thread has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted({int(one) for found in lists for one in found.read_text().split()})


def serves(url: str) -> bool:
    try:
        return status(url) == 200
    except OSError:
        return False


def test_beside_a_server_with_users(tmp_path: Path) -> None:
    """They log in without a further option."""
    conf = tmp_path / "broker.conf"
    user = '{"username":"root","password":"r00t-secret"}'
    conf.write_text(
        "authenticationEnabled=true\nauthorizationEnabled=true\n"
        "authenticationMetadataProvider=LocalAuthenticationMetadataProvider\n"
        "authorizationMetadataProvider=LocalAuthorizationMetadataProvider\n"
        f"initAuthenticationUser={user}\n"
    )
    words = ("-c", str(conf), "--store", str(tmp_path / "store"), "--namesrv-port", "0")
    more = ("--broker-port", "0", "--console", "127.0.0.1:0")
    with Serving(tmp_path / "log", "server", *words, *more) as server:
        url = server.facts["console"]
        jar = CookieJar()
        browser = build_opener(HTTPCookieProcessor(jar))
        form = browser.open(f"{url}/cluster").read().decode()
        token = form.split('name="_csrf" value="')[1].split('"')[0]
        words = {"user": "root", "password": "r00t-secret", "_csrf": token, "next": "/cluster"}
        page = browser.open(f"{url}/login", urlencode(words).encode()).read().decode()
        assert "broker-a" in page
        assert server.stop(signal.SIGTERM) == 0


def test_without_its_packages() -> None:
    code = "import sys; sys.modules['hypercorn'] = None; from pyrmq.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "console", "--bind", "127.0.0.1:0"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert b"the console needs hypercorn" in result.stderr
    assert b"pip install 'pyrmq-broker[console]'" in result.stderr
    assert b"Traceback" not in result.stderr
