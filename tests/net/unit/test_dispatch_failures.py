"""Acting on what processors return: what fails on the way, and what a stop has to wait for."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.errors import EngineError, ServiceNotAvailableError, StoreDamagedError
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Park, Resend
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.support.wire import FrameReader

CODE = 1


@dataclass
class Request:
    code: int = CODE
    flag: int = 0
    codec: int = 0
    opaque: int = 7
    size: int = 100
    since_us: int = 0
    taken_us: int = 0
    ext: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeConnection:
    """Counts what is awaited and keeps what is sent."""

    sent: bytes = b""
    times: None = None
    awaited: int = 0
    session: Any = None

    def send(self, *pieces: bytes) -> None:
        self.sent += b"".join(pieces)

    def begin_awaited(self, size: int, **options: bool) -> None:
        self.awaited += 1

    def end_awaited(self, size: int, **options: bool) -> None:
        self.awaited -= 1


class Failing:
    """Stands for parked pulls and for a session whose store has no descriptor left."""

    def park(self, *_: object) -> bool:
        raise ServiceNotAvailableError("Too many open files")

    def resend(self, *_: object) -> None:
        raise ServiceNotAvailableError("Too many open files")


def dispatcher(answer: object) -> Dispatcher:
    parked: Any = Failing()
    processor: Any = lambda connection, command: answer  # noqa: E731
    return Dispatcher("test", {CODE: processor}, Unconfirmed("test", None, 0), parked)


UNUSED: Any = None


@pytest.mark.parametrize("answer", [Park(UNUSED, 1.0, Response()), Resend(b"")])
def test_what_acting_on_an_answer_raises_is_the_answer(answer: object) -> None:
    connection: Any = FakeConnection(session=Failing())
    request: Any = Request()
    dispatcher(answer).process(connection, request)
    (found,) = FrameReader().feed(connection.sent)
    assert (found.opaque, found.code, found.remark) == (7, 14, "Too many open files")


async def test_it_is_busy_with_what_has_not_begun_yet() -> None:
    async def later() -> Response:
        return Response()

    connection: Any = FakeConnection()
    request: Any = Request()
    tried = dispatcher(later())
    async with trio.open_nursery() as nursery:
        tried.nursery = nursery
        assert not tried.busy
        tried.process(connection, request)
        assert tried.busy
        await trio.testing.wait_all_tasks_blocked()
    assert not tried.busy
    assert connection.awaited == 0
    assert [a.code for a in FrameReader().feed(connection.sent)] == [0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "read /store/commitlog/0: Input/output error"), "Input/output error"),
        (OSError("read /store/commitlog/0"), ""),
        (FileNotFoundError(errno.ENOENT, "No such file", "/store/x"), "No such file or directory"),
        (StoreDamagedError("/store/commitlog/0: file is too short"), ""),
        (EngineError("src/store/put.rs: a bug"), ""),
        (KeyError("/store/secret"), ""),
        (AttributeError("'NoneType' object has no attribute 'x'"), ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_log_has_what_others_need_not_know(
    error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Paths, and words of the program."""

    def fail(connection: object, command: object) -> Response:
        raise error

    caplog.set_level("DEBUG")
    connection: Any = FakeConnection()
    processors: Any = {CODE: fail}
    failing = Dispatcher("broker b", processors, Unconfirmed("broker b", None, 1000))
    request: Any = Request()
    failing.process(connection, request)
    (answer,) = FrameReader().feed(connection.sent)
    assert answer.code == 1
    reason = f", {said}" if said else ""
    assert answer.remark == f"request 1 failed{reason}: the log of the broker b says why"
    assert str(error.args[-1]).strip("'")[:20] in caplog.text
