"""Slow requests: which get a line in the log, what it says, and how many lines there are."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.engine import Listener, RpcFigures, Session
from pyrmq.errors import StoreDamagedError
from pyrmq.net.about import LONGEST, NOTHING, About, about
from pyrmq.net.clock import monotonic_us
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server.answer_times import AnswerTimes
from pyrmq.net.server.answers import send_answer
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.slow import LINES, MOST, SlowRequest, SlowRequests

LIMIT_MS = 1000
PULL, SEND = 11, 310


@pytest.fixture
def slow() -> SlowRequests:
    return SlowRequests("broker-a", RpcFigures(), LIMIT_MS)


@pytest.fixture
def connection(slow: SlowRequests) -> Iterator[Connection]:
    ours, peer = socket.socketpair()
    with ours, peer:
        session = Session(Listener(), b"\x7f\0\0\1", 1)
        made = Connection(ours, session, "10.0.0.1:5000", lambda connection: None, 0.0)
        made.times = AnswerTimes(slow._figures, slow)
        yield made


def request(ago_us: int, **changes: Any) -> ReplyTo:
    """A request that was ready so long ago, and was taken at once."""
    since = monotonic_us() - ago_us
    fields = {"code": PULL, "codec": 0, "opaque": 1, "flag": 0, "since_us": since}
    return ReplyTo(**(fields | {"taken_us": since} | changes))


async def lines(slow: SlowRequests, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        await slow.write()
    return [record.getMessage() for record in caplog.records]


async def test_a_slow_request_has_a_line_with_its_parts(
    slow: SlowRequests, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    slow.client_of = lambda peer: (f"client of {peer}", {"g"})
    since = monotonic_us() - 3_600_000_000
    to = request(0, since_us=since, taken_us=since + 500_000, size=99, about=About("T", None, "3"))
    send_answer(connection, to, Response(code=19))
    (line,) = await lines(slow, caplog)
    assert line.startswith("broker-a: slow request 11 PULL_MESSAGE of 10.0.0.1:5000 took 36000")
    assert "(queued 500, processing 35995" in line
    assert line.endswith(
        ", client client of 10.0.0.1:5000, group g, topic T, queue 3, bytes 99, response 19"
    )
    assert await lines(slow, caplog) == [], "once"


async def test_what_is_quick_or_waits_for_messages_has_none(
    slow: SlowRequests, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    hour = 3_600_000_000
    send_answer(connection, request(0), Response())
    send_answer(connection, request(hour, long_polling=True), Response())
    assert await lines(slow, caplog) == []
    slow.set_limit(0)
    send_answer(connection, request(hour), Response())
    assert await lines(slow, caplog) == [], "none is too slow"
    rows = slow._figures.rows()
    assert [(code, parked, row[0]) for code, _, parked, _, row in rows] == [
        (PULL, False, 2),
        (PULL, True, 1),
    ]


async def test_a_request_that_was_slow_before_it_waits_has_a_line(
    slow: SlowRequests, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    assert connection.times is not None
    parked = connection.times.parks("peer", request(3_600_000_000, about=About("T")))
    assert parked.long_polling
    assert parked.about == NOTHING, "it may wait for long"
    (line,) = await lines(slow, caplog)
    assert line.endswith("topic T, bytes 0, response parked")


async def test_only_the_slowest_of_a_second_have_lines(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(MOST + 7):
        slow.note(SlowRequest(PULL, 0, f"peer-{n}", processing=(n + 1) * 1000))
    found = await lines(slow, caplog)
    assert len(found) == LINES + 1
    assert f"peer-{MOST - 1} took {MOST} ms" in found[0]
    left = MOST + 7 - LINES
    assert found[-1] == f"broker-a: {left} more slow requests have no line"
    assert await lines(slow, caplog) == []


async def test_what_the_record_says_completes_what_the_engine_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [(SEND, 0, "10.0.0.2:1", [0, 2000, 3000, 4_000_000, 0], (3, 17, 4096))]

    class Figures:
        def take_slow(self) -> tuple[list[Any], int]:
            return [rows.pop()] if rows else [], 0

        def set_slow_ms(self, ms: int) -> None:
            assert ms == LIMIT_MS

    figures: Any = Figures()
    slow = SlowRequests("b", figures, LIMIT_MS)
    again = rows[0]
    asked: list[int] = []

    def stored_at(offset: int) -> tuple[str, int]:
        asked.append(offset)
        return "Orders", 321

    slow.stored_at = stored_at
    (line,) = await lines(slow, caplog)
    assert asked == [4096]
    assert line == (
        "b: slow request 310 SEND_MESSAGE_V2 of 10.0.0.2:1 took 4005 ms "
        "(processing 2, writing 3, flushing 4000), topic Orders, queue 3, offset 17, bytes 321, "
        "response 0"
    )

    def damaged(offset: int) -> None:
        raise StoreDamagedError("unreadable")

    slow.stored_at = damaged
    rows.append(again)
    (line,) = await lines(slow, caplog)
    assert line.endswith("(processing 2, writing 3, flushing 4000), queue 3, offset 17, response 0")


async def test_hostile_names_stay_in_one_line(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    named = about(SEND, {"b": "a\nWARNING\x1b[2J", "a": "g" * 5000, "e": "1"})
    slow.note(SlowRequest(SEND, 0, "p", processing=2_000_000, about=named))
    (line,) = await lines(slow, caplog)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < LONGEST * 2


def test_what_a_request_is_about() -> None:
    assert about(SEND, {"b": "T", "a": "g", "e": "2", "topic": "x"}) == About("T", "g", "2")
    fields = {"topic": "T", "consumerGroup": "c", "queueId": "1", "clientId": "i"}
    assert about(PULL, fields) == About("T", "c", "1", "i")
    assert about(34, {}) is NOTHING
    assert about(PULL, {"topic": "t" * 999}) == About("t" * LONGEST)


@pytest.mark.parametrize(
    ("flag", "failed", "closed", "result"),
    [
        (0, False, False, "success"),
        (2, False, False, "oneway"),
        (2, False, True, "oneway"),
        (0, True, False, "process_request_failed"),
        (0, False, True, "write_channel_failed"),
    ],
)
def test_what_became_of_a_request(
    slow: SlowRequests,
    connection: Connection,
    flag: int,
    failed: bool,
    closed: bool,
    result: str,
) -> None:
    connection.takes_answers = not closed
    send_answer(connection, request(0, flag=flag), Response(code=1, failed=failed))
    ((code, response, parked, found, row),) = slow._figures.rows()
    assert (code, response, parked, found, row[0]) == (PULL, 1, False, result, 1)


async def test_it_writes_what_is_left_at_the_end(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    slow.note(SlowRequest(PULL, 0, "p", processing=2_000_000))
    with caplog.at_level(logging.WARNING):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert len(caplog.records) == 1
