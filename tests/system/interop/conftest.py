"""Fixtures of the interop tests: one server for all of them, drivers built once, fresh topics."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import toolchain
from .drivers import Driver
from .server import Server, start
from .store import peer


@pytest.fixture(scope="session")
def session_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start(tmp_path_factory.mktemp("interop"))
    yield server
    server.stop()


@pytest.fixture
def server(session_server: Server) -> Iterator[Server]:
    """The server all tests share; a test that brings it down fails, and so do those after it."""
    if not session_server.alive():
        pytest.fail(session_server.state(), pytrace=False)
    yield session_server
    if not session_server.alive():
        pytest.fail(session_server.state(), pytrace=False)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own; the broker creates it on the first send."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")
    return f"{name[:60]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def group(topic: str) -> str:
    """A consumer group of the test's own."""
    return f"G-{topic}"


Command = list[str]
_built: dict[str, Command | Exception] = {}


def _command(name: str, build: Callable[[], Command]) -> Command:
    """Builds once a session, successfully or not; a missing tool skips unless it is required."""
    if name not in _built:
        try:
            _built[name] = build()
        except (toolchain.Missing, toolchain.BuildFailed) as problem:
            _built[name] = problem
    result = _built[name]
    if isinstance(result, toolchain.Missing) and not toolchain.required():
        pytest.skip(f"{result} (PYRMQ_REQUIRE_INTEROP=1 makes this a failure)")
    if isinstance(result, Exception):
        pytest.fail(str(result), pytrace=False)
    return result


def built(client: str) -> Command:
    """The command of the driver of a client: "go", "pyrmq", "traced", or "java-" and a
    version."""
    if client == "pyrmq":
        return [sys.executable, "-m", "tests.system.interop.python_driver"]
    if client == "go":
        return _command("go", toolchain.go_driver)
    if client == "traced":
        return _command("traced", toolchain.traced_driver)
    version = client.removeprefix("java-")
    return _command(client, lambda: toolchain.java_driver(version))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the logs of Apache RocketMQ's processes; builds what runs them."""
    _command("peer", lambda: [peer.classpath()])
    return tmp_path_factory.mktemp("peer")


def _driver(name: str, command: Command, server: Server) -> Driver:
    return Driver(name, tuple(command), server.namesrv, server.state)


BROKERS = [
    pytest.param("apache", marks=pytest.mark.thorough("shows that the test expects what is so")),
    "pyrmq",
]
"""The brokers that a test runs against."""
older = pytest.mark.thorough("an older client: the newest one stands for all")
JAVA_CLIENTS = [
    pytest.param(f"java-{toolchain.NEWEST}"),
    *(pytest.param(f"java-{version}", marks=older) for version in toolchain.OLDER_JAVA_CLIENTS),
]


@pytest.fixture(params=JAVA_CLIENTS)
def java_command(request: pytest.FixtureRequest) -> tuple[str, Command]:
    return request.param, built(request.param)


@pytest.fixture
def java(java_command: tuple[str, Command], server: Server) -> Driver:
    """The driver of the Java client, once for each client version."""
    return _driver(*java_command, server)


@pytest.fixture
def go_command() -> Command:
    return built("go")


@pytest.fixture
def go(go_command: Command, server: Server) -> Driver:
    """The driver of the Go client."""
    return _driver("go", go_command, server)
