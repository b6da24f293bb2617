"""One client connection without a socket: what ends a request, and what ends the connection."""

from __future__ import annotations

import pytest

import pyrmq.net.client.protocol
from pyrmq.engine import RecvBuffer
from pyrmq.errors import ClientError, ConnectError, RequestTimeoutError
from pyrmq.net.client.protocol import (
    MAX_OPAQUE,
    ClientProtocol,
    Closed,
    CloseReason,
    Event,
    GiveUp,
    Outcome,
    Request,
    RequestEnded,
    ServerRequest,
    gives_up,
)
from pyrmq.net.command import ROCKETMQ, Response
from tests.support.wire import BINARY, FLAG_ONEWAY, Command, decode, encode


def protocol(**options: object) -> ClientProtocol:
    return ClientProtocol("host:1", 0.0, **options)  # type: ignore[arg-type]


def ask(p: ClientProtocol, now: float = 0.0, timeout: float = 3.0) -> tuple[Request, Command]:
    """A request, and what a server reads of it."""
    request, head = p.request(7, {"n": 1, "yes": True}, 4, now=now, timeout=timeout)
    return request, decode(head + b"body")


def ended(events: list[Event]) -> list[tuple[Request, Outcome | None]]:
    return [(e.request, e.request.outcome) for e in events if isinstance(e, RequestEnded)]


def closed(events: list[Event]) -> list[CloseReason]:
    return [e.reason for e in events if isinstance(e, Closed)]


def test_a_request_on_the_wire() -> None:
    _, command = ask(protocol())
    assert (command.code, command.ext, command.body) == (7, {"n": "1", "yes": "true"}, b"body")
    assert not command.is_response
    assert not command.is_oneway


def test_the_serialize_type_is_the_callers() -> None:
    p = protocol()
    _, head = p.request(7, {"n": 1}, now=0, timeout=1, codec=ROCKETMQ)
    assert decode(head).serialize == BINARY
    assert decode(p.oneway(8, None, codec=ROCKETMQ)).serialize == BINARY


def test_a_oneway_request_is_not_in_flight() -> None:
    p = protocol()
    command = decode(p.oneway(37, {"a": "b"}, 1, remark="why") + b"x")
    assert (command.is_oneway, command.remark, command.body) == (True, "why", b"x")
    assert p.receive_bytes(encode(command.reply(0)), 1.0) == []


def test_answers_in_any_order() -> None:
    p = protocol()
    asked = [ask(p) for _ in range(5)]
    assert len({command.opaque for _, command in asked}) == 5
    for request, command in reversed(asked):
        assert p.result(request) is None
        events = p.receive_bytes(encode(command.reply(3, {"k": "v"}, b"b")), 1.0)
        assert ended(events) == [(request, Outcome.ANSWERED)]
        answer = p.result(request)
        assert answer is not None
        assert (answer.code, answer.ext, answer.body) == (3, {"k": "v"}, b"b")
    assert p.in_flight == 0


def test_an_answer_byte_by_byte() -> None:
    p = protocol()
    request, command = ask(p)
    events = [e for b in encode(command.reply(0)) for e in p.receive_bytes(bytes([b]), 1.0)]
    assert ended(events) == [(request, Outcome.ANSWERED)]


def test_a_large_answer_into_its_place() -> None:
    p, buffer = protocol(), RecvBuffer(1 << 16)
    request, command = ask(p)
    data = memoryview(encode(command.reply(0, {}, bytes(range(256)) * 8192)))
    events: list[Event] = []
    placed = 0
    while data:
        size = 0
        if (place := p.space()) is not None:
            n = min(len(place), len(data))
            memoryview(place)[:n] = data[:n]
            p.filled(n)
            placed += n
        else:
            n = size = min(1 << 16, len(data))
            memoryview(buffer)[:n] = data[:n]
        data = data[n:]
        events += p.receive_buffer(buffer, size, 1.0)
    answer = p.result(request)
    assert answer is not None
    assert answer.body == bytes(range(256)) * 8192
    assert placed > 1 << 20


def test_a_second_answer_and_one_nobody_asked_for() -> None:
    p = protocol()
    request, command = ask(p)
    stray = Command(0, opaque=command.opaque + 1, flag=1)
    data = encode(stray) + encode(command.reply(0, {}, b"1")) + encode(command.reply(0, {}, b"2"))
    assert ended(p.receive_bytes(data, 1.0)) == [(request, Outcome.ANSWERED)]
    answer = p.result(request)
    assert answer is not None
    assert answer.body == b"1"


def test_an_opaque_is_not_given_twice() -> None:
    p = protocol()
    first, _ = ask(p)
    p._opaque = MAX_OPAQUE - 1
    opaques = [ask(p)[0].opaque for _ in range(3)]
    assert opaques == [MAX_OPAQUE, 0, first.opaque + 1]


def test_a_request_that_is_forgotten() -> None:
    p = protocol()
    request, command = ask(p)
    p.forget(request)
    assert (request.outcome, p.in_flight) == (Outcome.FORGOTTEN, 0)
    assert p.receive_bytes(encode(command.reply(0)), 1.0) == []
    with pytest.raises(ClientError, match="not waited for"):
        p.result(request)
    assert p.expire(100.0) == []


@pytest.mark.parametrize(
    ("rule", "sent", "received", "time", "dead"),
    [
        (GiveUp.SILENT, 5.0, 4.9, 3, True),
        (GiveUp.SILENT, 5.0, 4.9, 0.125, True),
        (GiveUp.SILENT, 5.0, 4.9, 0.0625, False),
        (GiveUp.SILENT, 5.0, 5.0, 3, False),
        (GiveUp.SILENT, 5.0, 9.0, 3, False),
        (GiveUp.TIMED_OUT, 5.0, 4.9, 3, True),
        (GiveUp.TIMED_OUT, 5.0, 4.9, 0.0625, True),
        (GiveUp.TIMED_OUT, 5.0, 9.0, 3, True),
    ],
)
def test_when_a_time_out_ends_the_connection(
    rule: GiveUp, sent: float, received: float, time: float, dead: bool
) -> None:
    assert gives_up(rule, sent, received, sent + time) is dead
    p = protocol(give_up=rule)
    quick, command = ask(p, now=0.0, timeout=100)
    late, _ = ask(p, now=sent, timeout=time)
    p.receive_bytes(encode(command.reply(0)), received)
    other, _ = ask(p, now=sent, timeout=100)
    events = p.expire(sent + time)
    lost = [(other, Outcome.LOST)] if dead else []
    assert ended(events) == [(late, Outcome.TIMED_OUT), *lost]
    assert closed(events) == [CloseReason.NO_ANSWER] * dead
    assert quick.outcome is Outcome.ANSWERED
    with pytest.raises(
        RequestTimeoutError, match=rf"host:1 did not answer in {time} s \(request 7\)"
    ):
        p.result(late)


def test_nothing_expires_before_its_time() -> None:
    p = protocol()
    late, early = ask(p, timeout=5)[0], ask(p, timeout=2)[0]
    assert p.expire(1.9) == []
    p.receive_bytes(encode(Command(0, opaque=99, flag=1)), 1.9)
    assert ended(p.expire(2.0)) == [(early, Outcome.TIMED_OUT)]
    assert p.expire(4.9) == []
    assert ended(p.expire(5.0)) == [(late, Outcome.TIMED_OUT)]


def test_the_time_of_a_request_begins_anew() -> None:
    p = protocol()
    request, _ = ask(p, timeout=float("inf"))
    assert p.expire(1e9) == []
    p.restart(request, 1e9, 2.0)
    assert p.expire(1e9 + 1.9) == []
    assert ended(p.expire(1e9 + 2)) == [(request, Outcome.TIMED_OUT)]
    with pytest.raises(RequestTimeoutError, match="in 2 s"):
        p.result(request)


@pytest.mark.parametrize(
    ("data", "reason", "text"),
    [
        (b"", CloseReason.HUNG_UP, "the other end hung up"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", CloseReason.PROTOCOL, "it broke the protocol: "),
        (b"\x7f\xff\xff\xff\x00\x00\x00\x00", CloseReason.PROTOCOL, "it broke the protocol: "),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", CloseReason.PROTOCOL, "it broke the protocol: "),
    ],
)
def test_how_a_peer_ends_it(data: bytes, reason: CloseReason, text: str) -> None:
    p = protocol()
    answered, command = ask(p)
    lost, _ = ask(p)
    events = p.receive_bytes(encode(command.reply(0)), 1.0) + p.receive_bytes(data, 1.0)
    assert ended(events) == [(answered, Outcome.ANSWERED), (lost, Outcome.LOST)]
    assert closed(events) == [reason]
    assert p.result(answered) is not None
    for after in (lambda: p.result(lost), lambda: ask(p), lambda: p.oneway(1, None)):
        with pytest.raises(ConnectError, match=f"connection to host:1 is gone: {text}"):
            after()


def test_what_comes_before_garbage_counts() -> None:
    p = protocol()
    request, command = ask(p)
    events = p.receive_bytes(encode(command.reply(0)) + bytes(8), 1.0)
    assert ended(events) == [(request, Outcome.ANSWERED)]
    assert closed(events) == [CloseReason.PROTOCOL]


def test_the_first_reason_stays() -> None:
    p = protocol()
    assert closed(p.close(CloseReason.STALLED)) == [CloseReason.STALLED]
    assert p.close(CloseReason.CLOSED) == []
    assert p.receive_bytes(b"", 1.0) == []
    assert p.receive_bytes(b"x", 1.0) == []
    assert p.closed == Closed(CloseReason.STALLED, "it takes no data")


def test_a_request_of_the_server_is_answered() -> None:
    p = protocol()
    asked = Command(40, {"consumerGroup": "g"}, b"x", opaque=5)
    (event,) = p.receive_bytes(encode(asked), 1.0)
    assert isinstance(event, ServerRequest)
    frame = p.answer_frame(event.command, Response(0, None, {"a": 1}, b"yes"))
    assert frame is not None
    answer = decode(frame)
    assert (answer.opaque, answer.is_response, answer.body) == (5, True, b"yes")
    assert p.answer_frame(event.command, None) is None
    p.close(CloseReason.CLOSED)
    assert p.answer_frame(event.command, Response()) is None


def test_a_oneway_request_of_the_server_is_not_answered() -> None:
    p = protocol()
    (event,) = p.receive_bytes(encode(Command(40, flag=FLAG_ONEWAY)), 1.0)
    assert isinstance(event, ServerRequest)
    assert p.answer_frame(event.command, Response()) is None


def test_requests_of_the_server_are_bounded_in_number() -> None:
    p = protocol(max_server_requests=2)
    data = b"".join(encode(Command(40, opaque=n)) for n in range(5))
    events = p.receive_bytes(data, 1.0)
    asked = [e for e in events if isinstance(e, ServerRequest)]
    assert [e.command.opaque for e in asked] == [0, 1]
    assert (p.server_requests, p.dropped_server_requests) == (2, 3)
    p.finish_server_request(asked[0])
    assert len(p.receive_bytes(data, 1.0)) == 1


def test_requests_of_the_server_are_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyrmq.net.client.protocol, "MAX_SERVER_REQUEST_BYTES", 100)
    p = protocol()
    sizes = [200, 1, 200]
    data = b"".join(encode(Command(40, {}, bytes(n), opaque=n)) for n in sizes)
    (event,) = p.receive_bytes(data, 1.0)
    assert isinstance(event, ServerRequest)
    assert p.dropped_server_requests == 2
    p.finish_server_request(event)
    data = b"".join(encode(Command(40, {}, bytes(n))) for n in (60, 40, 1))
    assert len(p.receive_bytes(data, 1.0)) == 2
    assert p.server_request_bytes == 100


def test_fields_of_requests_of_the_server_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may be as long as a body."""
    monkeypatch.setattr(pyrmq.net.client.protocol, "MAX_SERVER_REQUEST_BYTES", 100)
    p = protocol()
    data = b"".join(encode(Command(40, {"x": "y" * 59}, opaque=n)) for n in range(3))
    (event,) = p.receive_bytes(data, 1.0)
    assert isinstance(event, ServerRequest)
    assert (p.server_request_bytes, p.dropped_server_requests) == (60, 2)
    event.command.ext.clear()  # what a handler does with it changes nothing
    p.finish_server_request(event)
    assert (p.server_requests, p.server_request_bytes) == (0, 0)


def test_fields_that_are_too_long_for_a_header_leave_nothing_behind() -> None:
    p = protocol()
    with pytest.raises(ValueError, match="header"):
        p.request(1, {"x": "y" * (1 << 24)}, now=0, timeout=1)
    assert p.in_flight == 0


def test_a_client_that_signs_may_wait_for_a_refusal() -> None:
    """Servers delay answers to failed logins: a client that has heard nothing does not know why."""
    for signed in (True, False):
        p = protocol(signed=signed)
        request, _ = ask(p)
        p.expire(4.0)
        with pytest.raises(RequestTimeoutError) as caught:
            p.result(request)
        assert ("is the secret key right?" in str(caught.value)) is signed
