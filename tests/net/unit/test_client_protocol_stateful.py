"""The client connection beside a model: a list of what was asked, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrmq.errors import ClientError, ConnectError, RequestTimeoutError
from pyrmq.net.client.protocol import (
    ClientProtocol,
    Closed,
    CloseReason,
    Event,
    GiveUp,
    Outcome,
    Request,
    RequestEnded,
    ServerRequest,
)
from tests.support.wire import Command, decode, encode

MAX_SERVER_REQUESTS = 3
ERRORS: dict[Outcome | None, type[Exception]] = {
    Outcome.TIMED_OUT: RequestTimeoutError,
    Outcome.LOST: ConnectError,
    Outcome.FORGOTTEN: ClientError,
}
PICK = st.integers(0, 1 << 30)
SPLIT = st.integers(0, 200)


@dataclass
class Asked:
    """A request as the model sees it."""

    request: Request
    opaque: int
    sent: float
    deadline: float
    outcome: Outcome | None = None
    body: bytes | None = None


class ConnectionMachine(RuleBasedStateMachine):
    """Times are whole numbers, so that deadlines and the clock meet exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.received = 0.0
        self.protocol: ClientProtocol
        self.start(GiveUp.SILENT)
        self.count = 0

    def start(self, rule_: GiveUp) -> None:
        self.give_up = rule_
        self.protocol = ClientProtocol(
            "h:1", self.now, give_up=rule_, max_server_requests=MAX_SERVER_REQUESTS
        )
        self.asked: list[Asked] = []
        self.closed: CloseReason | None = None
        self.serving: list[ServerRequest] = []
        self.dropped = 0
        self.received = self.now

    def open_requests(self) -> list[Asked]:
        return [a for a in self.asked if a.outcome is None]

    def check(self, events: list[Event], ended: list[Asked], served: int, closes: bool) -> None:
        """Exactly these requests ended, each said once, in any order; Closed comes last."""
        seen = [e.request for e in events if isinstance(e, RequestEnded)]
        assert len(seen) == len(ended)
        assert {id(r) for r in seen} == {id(a.request) for a in ended}
        assert sum(isinstance(e, ServerRequest) for e in events) == served
        assert [isinstance(e, Closed) for e in events].count(True) == closes
        assert not closes or isinstance(events[-1], Closed)

    def lose(self, reason: CloseReason) -> list[Asked]:
        lost = self.open_requests()
        for each in lost:
            each.outcome = Outcome.LOST
        self.closed = reason
        return lost

    def feed(self, data: bytes, at: int) -> list[Event]:
        """In two parts, at any byte."""
        cut = at % (len(data) + 1)
        parts = [part for part in (data[:cut], data[cut:]) if part]
        self.received = self.now if self.closed is None else self.received
        return [e for part in parts for e in self.protocol.receive_bytes(part, self.now)]

    @rule(give_up=st.sampled_from(GiveUp))
    @precondition(lambda self: self.closed is not None)
    def open_another(self, give_up: GiveUp) -> None:
        self.start(give_up)

    @rule(seconds=st.integers(1, 5))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule(timeout=st.integers(1, 8))
    def ask(self, timeout: int) -> None:
        self.count += 1
        body = b"%d" % self.count
        try:
            request, head = self.protocol.request(
                5, {}, len(body), now=self.now, timeout=float(timeout)
            )
        except ConnectError:
            assert self.closed is not None
            return
        assert self.closed is None
        opaque = decode(head + body).opaque
        assert opaque not in [a.opaque for a in self.open_requests()]
        self.asked.append(Asked(request, opaque, self.now, self.now + timeout))

    @rule(picks=st.lists(PICK, min_size=1, max_size=4), at=SPLIT)
    @precondition(lambda self: self.asked)
    def answer(self, picks: list[int], at: int) -> None:
        """Some answers together, out of order; also second ones, and those that come too late."""
        data, ended = b"", []
        for pick in picks:
            self.count += 1
            body = b"%d" % self.count
            to = self.asked[pick % len(self.asked)]
            data += encode(Command(0, {}, body, opaque=to.opaque, flag=1))
            if to.outcome is None and self.closed is None:
                to.outcome, to.body = Outcome.ANSWERED, body
                ended.append(to)
        self.check(self.feed(data, at), ended, 0, False)

    @rule(at=SPLIT)
    def answer_nobody(self, at: int) -> None:
        stray = encode(Command(0, {}, b"stray", opaque=0x40000000, flag=1))
        self.check(self.feed(stray, at), [], 0, False)

    @rule(count=st.integers(1, 5), at=SPLIT)
    def server_asks(self, count: int, at: int) -> None:
        data = b"".join(encode(Command(40, {}, b"q", opaque=n)) for n in range(count))
        room = MAX_SERVER_REQUESTS - len(self.serving) if self.closed is None else 0
        served = min(count, room)
        events = self.feed(data, at)
        self.check(events, [], served, False)
        self.serving += [e for e in events if isinstance(e, ServerRequest)]
        self.dropped += count - served if self.closed is None else 0

    @rule()
    @precondition(lambda self: self.serving)
    def finish_serving(self) -> None:
        self.protocol.finish_server_request(self.serving.pop())

    @rule(pick=PICK)
    @precondition(lambda self: self.asked)
    def forget(self, pick: int) -> None:
        each = self.asked[pick % len(self.asked)]
        self.protocol.forget(each.request)
        each.outcome = each.outcome or Outcome.FORGOTTEN

    @rule(pick=PICK, timeout=st.integers(1, 8))
    @precondition(lambda self: self.open_requests())
    def restart(self, pick: int, timeout: int) -> None:
        each = self.open_requests()[pick % len(self.open_requests())]
        self.protocol.restart(each.request, self.now, float(timeout))
        each.deadline = self.now + timeout

    @rule()
    def expire(self) -> None:
        late = [a for a in self.open_requests() if a.deadline <= self.now]
        dead = any(self.give_up is GiveUp.TIMED_OUT or self.received < a.sent for a in late)
        for each in late:
            each.outcome = Outcome.TIMED_OUT
        lost = self.lose(CloseReason.NO_ANSWER) if dead else []
        self.check(self.protocol.expire(self.now), late + lost, 0, dead)

    @rule(how=st.sampled_from([*CloseReason]), at=SPLIT)
    def end(self, how: CloseReason, at: int) -> None:
        """One rule for all ends, so that connections live for a while."""
        closes = self.closed is None
        if how is CloseReason.PROTOCOL:
            # Eight zero bytes are no frame, whatever came before.
            self.received = self.now if closes else self.received
            lost = self.lose(how) if closes else []
            parts = [part for part in (bytes(8)[: at % 8], bytes(8)[at % 8 :]) if part]
            events = [e for part in parts for e in self.protocol.receive_bytes(part, self.now)]
        else:
            lost = self.lose(how) if closes else []
            hung_up = how is CloseReason.HUNG_UP
            protocol = self.protocol
            events = protocol.receive_bytes(b"", self.now) if hung_up else protocol.close(how)
        self.check(events, lost, 0, closes)

    @rule(pick=PICK)
    @precondition(lambda self: self.open_requests())
    def expire_at_a_deadline(self, pick: int) -> None:
        open_ones = self.open_requests()
        self.now = max(self.now, open_ones[pick % len(open_ones)].deadline)
        self.expire()

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        protocol = self.protocol
        assert protocol.in_flight == len(self.open_requests())
        assert (protocol.closed and protocol.closed.reason) == self.closed
        assert protocol.server_requests == len(self.serving)
        assert protocol.server_request_bytes == len(self.serving)
        assert protocol.dropped_server_requests == self.dropped
        for each in self.asked:
            assert each.request.outcome is each.outcome
            error = ERRORS.get(each.outcome)
            if error is None:
                answer = protocol.result(each.request)
                assert (answer and answer.body) == each.body
            else:
                with pytest.raises(error):
                    protocol.result(each.request)


TestConnection = ConnectionMachine.TestCase
TestConnection.settings = settings(max_examples=60, stateful_step_count=40)
