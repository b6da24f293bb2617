"""What a server tells the service manager (sd_notify), and what a watchdog is told."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pyrmq.net.health import Problem
from pyrmq.processes.notify import MAX_STATUS, Notifier
from pyrmq.processes.watch import Ears, environment, fields_of, keep_watch
from tests.support.waiting import eventually_trio


class Manager:
    """A service manager's socket, at a path or with an abstract name (`@NAME`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self._socket.setblocking(False)

    def heard(self) -> list[dict[str, str]]:
        """All that has come."""
        found = []
        while True:
            try:
                found.append(fields_of(self._socket.recv(8192)))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(autouse=True)
def closes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes all notifiers of a test."""
    made: list[Notifier] = []
    real = Notifier.__init__

    def init(self: Notifier, address: str | None, watchdog: float | None = None) -> None:
        real(self, address, watchdog)
        made.append(self)

    monkeypatch.setattr(Notifier, "__init__", init)
    yield
    for notifier in made:
        notifier.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@pyrmq-{tmp_path}"
    found = Manager(name)
    yield found
    found.close()


def test_what_is_said(manager: Manager) -> None:
    notifier = Notifier(manager.name)
    notifier.ready("ready broker=…")
    notifier.status("two\nlines")
    notifier.status("x" * 1000)
    notifier.extend(2.5, "starting")
    notifier.alive()
    notifier.stopping("stops")
    ready, lines, long, extended, alive, stopping = manager.heard()
    assert ready == {"READY": "1", "STATUS": "ready broker=…"}
    assert lines == {"STATUS": r"two\nlines"}, "a status cannot say READY=1"
    assert len(long["STATUS"]) == MAX_STATUS
    assert extended == {"EXTEND_TIMEOUT_USEC": "2500000", "STATUS": "starting"}
    assert alive == {"WATCHDOG": "1"}
    assert stopping == {"STOPPING": "1", "STATUS": "stops"}
    notifier.close()
    notifier.alive()
    assert manager.heard() == []


def test_the_variables_are_taken(manager: Manager) -> None:
    variables = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "3000000", "HOME": "/"}
    notifier = Notifier.taken_from(variables)
    assert (notifier.address, notifier.watchdog) == (manager.name, 3.0)
    assert variables == {"HOME": "/"}, "children are no service of the manager"


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("1500000", "own", 1.5),
        ("1500000", "1", None),
        ("0", "", None),
        ("-5", "", None),
        ("many", "", None),
        ("9" * 400, "", None),
    ],
)
def test_when_a_watchdog_listens(usec: str, pid: str, seconds: float | None) -> None:
    variables = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid}
    if pid == "own":
        variables["WATCHDOG_PID"] = str(os.getpid())
    assert Notifier.taken_from(variables).watchdog == seconds


@pytest.mark.parametrize("address", ["relative", "vsock:2:1", "/" + "x" * 200, "@a\0b"])
def test_an_address_that_is_none(address: str, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier.taken_from({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    notifier.ready()
    assert notifier.address is notifier.watchdog is None
    assert "use Type=exec" in caplog.text


def test_without_a_manager_nothing_is_sent() -> None:
    notifier = Notifier.taken_from({"WATCHDOG_USEC": "1000000"})
    notifier.ready()
    assert notifier.watchdog is None


def test_a_manager_that_is_gone_is_logged_once(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(manager.name)
    manager.close()
    notifier.ready()
    notifier.alive()
    assert len(caplog.records) == 1
    assert "READY=1" in caplog.text


def test_a_manager_that_does_not_read_delays_nobody(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(manager.name)
    for _ in range(100_000):
        notifier.alive()
        if caplog.records:
            break
    assert "logged once" in caplog.text, "the socket is full, and that blocked nobody"


async def test_the_watchdog_hears_while_all_is_well(
    autojump_clock: MockClock, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[Problem] = []
    notifier = Notifier(manager.name, watchdog=9.0)
    with caplog.at_level(logging.ERROR):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_watch, notifier, lambda: problems)
            await trio.sleep(8.5)
            assert manager.heard() == 3 * [{"WATCHDOG": "1"}]
            problems.append(Problem("flusher", "nothing is confirmed", "restart"))
            await trio.sleep(30)
            heard = manager.heard()
            assert heard == [{"STATUS": "not healthy: nothing is confirmed: restart"}]
            assert len(caplog.records) == 1, "said once"
            problems.clear()
            await trio.sleep(3)
            assert manager.heard() == [{"WATCHDOG": "1"}]
            nursery.cancel_scope.cancel()


async def test_without_a_watchdog_nothing_is_watched(manager: Manager) -> None:
    await keep_watch(Notifier(manager.name), list)  # returns


async def test_a_supervisor_knows_who_speaks() -> None:
    heard: list[tuple[int, dict[str, str]]] = []
    ears = Ears(lambda pid, said: heard.append((pid, said)))
    variables = environment(ears.open(), 60)
    notifier = Notifier.taken_from(variables)
    assert notifier.watchdog == 60
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ears.run)
        notifier._send("X" * 5000)  # too long: it is not read
        notifier.ready("ready")
        await eventually_trio(lambda: heard, "it is heard")
        nursery.cancel_scope.cancel()
    assert heard == [(os.getpid(), {"READY": "1", "STATUS": "ready"})]
    ears.close()
    notifier.close()


@pytest.mark.parametrize(
    ("data", "fields"),
    [(b"", {}), (b"A", {}), (b"A=1\nB=2=3\n", {"A": "1", "B": "2=3"}), (b"\xff=\xff", {"�": "�"})],
)
def test_fields(data: bytes, fields: dict[str, str]) -> None:
    assert fields_of(data) == fields
